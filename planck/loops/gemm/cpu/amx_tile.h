// Tiles of 16 × 16 sums of s8 products by AMX: one instruction multiplies 16 rows of 64 bytes with
// 64 × 16. Linux asks that a process request the tile registers before it uses them; where it
// refuses, amx_available() is false.
//
// Panels, for each 64 of k: of A [16 rows][64], of B [16 of k / 4][16 columns][4]. What is missing
// are zeros.
#pragma once

#include <cstdint>

namespace planck::gemm {

inline constexpr int kAmxRows = 16, kAmxColumns = 16, kAmxDepth = 64;
inline constexpr int kAmxBlock = 1024;  // bytes of a panel for 64 of k

// Whether this CPU has AMX for s8, the system lets it be used, and no lesser instruction set is in
// force.
bool amx_available();

// Configures this thread's tile registers, and gives them back.
class AmxTiles {
 public:
  AmxTiles();
  ~AmxTiles();
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  // sums[row][column], rows sums_step apart: a0 with b0, b1 beside it, a1 below. a1 and b1 may be
  // null. `blocks` of 64 of k.
  void multiply(const std::int8_t* a0, const std::int8_t* a1, const std::int8_t* b0,
                const std::int8_t* b1, std::int64_t blocks, std::int32_t* sums,
                std::int64_t sums_step) const;

  // Panels of three digits, [block][digit][1024]: sums[i + j][row][column] over digits i and j.
  void multiply_digits(const std::int8_t* a, const std::int8_t* b, std::int64_t blocks,
                       std::int32_t* sums) const;
};

}  // namespace planck::gemm
