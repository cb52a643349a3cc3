// Tiles of 12 × 32 integer sums by AVX-512's VNNI instructions, which multiply and add two products
// of 16 bits, or four of 8 bits, for each 32-bit lane. Sums wrap around.
#pragma once

#include <cstdint>

namespace planck::gemm {

inline constexpr int kVnniRows = 12, kVnniColumns = 32;

// Whether this CPU has them, and no lesser instruction set is in force.
bool vnni_available();

// sums[row][column] = start[column] + Σ a[word][row] · b[word][column], rows <= kVnniRows, where a
// word is two shorts, or four bytes: those of A without a sign, those of B with one. A panel of A
// has kVnniRows words for each word of k. start: null for 0.
struct VnniTile {
  const std::int32_t *a, *b;
  std::int64_t words;
  int rows;
  const std::int32_t* start;
  std::int32_t* sums;
};
void vnni_shorts(const VnniTile&);
void vnni_bytes(const VnniTile&);

}  // namespace planck::gemm
