// Brings s8 operands into the panels of VNNI and AMX tiles; what is missing in the last panel, or
// of the last word or block of k, are zeros.
#pragma once

#include <cstdint>

#include "planck/loops/gemm/cpu/pack.h"

namespace planck::gemm {

struct BytePanelOps {
  // `count` rows (columns) of k as out[panel][word][width]: four of k to a word, `words` of them.
  // Each byte is exclusive or `flip`.
  void (*to_words)(const Side&, std::int64_t count, std::int64_t k, std::int64_t words, int width,
                   std::uint8_t flip, std::int32_t* out);
  // `count` rows of k as out[panel of 16][block][row][64].
  void (*to_blocks)(const Side&, std::int64_t count, std::int64_t k, std::int8_t* out);
  // -128 times the sum of each of 32 columns, from words [words][32].
  void (*offsets)(const std::int32_t* words, std::int64_t count, std::int32_t* out);
};

// For the best instruction set this CPU has.
const BytePanelOps& byte_panel_ops();

}  // namespace planck::gemm
