// What the warpgroup kernels of attention have in common: tiles of q, k, v and dy in shared memory,
// products of them, and which rows have to be done again.
//
// A tile has kRows rows of kWidth elements, 64 elements of all rows after the other: the copy
// engine's 128-byte swizzle, which an instruction reads along the elements (k-major, for scores) as
// well as along the rows (mn-major, for sums over rows). Rows and elements that are not there are
// zeros.
//
// A row whose result is NaN is done again, by definition: a product with a weight of 0 is 0, though
// the other factor be NaN or infinite, and an instruction says NaN there. What is once NaN remains
// so, thus nothing is overlooked.
#pragma once

#include "planck/loops/gemm/cuda/warpgroups.cuh"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

using namespace gemm_device;

inline constexpr int kBoxRows = 64, kBoxColumns = 64;
inline constexpr int kPieceBytes = 16 * 160;  // where a warp turns results to rows

template <int kWidth, int kRows>
inline constexpr int kTileBytes = kWidth* kRows * 2;

// One thread brings a tile whose first row is `row`.
template <int kWidth, int kRows>
__device__ __forceinline__ void bring_tile(const CUtensorMap& map, std::uint64_t* barrier, char* to,
                                           const Operand& x, int row, int head, int n) {
  const int h = x.stride[1] != 0 ? head : 0, b = x.stride[0] != 0 ? n : 0;
#pragma unroll
  for (int column = 0; column < kWidth; column += kBoxColumns)
#pragma unroll
    for (int r = 0; r < kRows; r += kBoxRows)
      copy_box4(map, barrier, to + (column / kBoxColumns * kRows + r) * 128, column, row + r, h, b);
}

// s = A Bᵀ: 64 rows of a tile of kRowsA, kColumns rows of a tile of as many.
template <class T, int kWidth, int kRowsA, int kColumns>
__device__ __forceinline__ void multiply_rows(float (&s)[kColumns / 2], const char* a,
                                              const char* b) {
#pragma unroll
  for (int column = 0; column < kWidth; column += kBoxColumns) {
    const std::uint64_t at_a = tile_descriptor<true>(a + column / kBoxColumns * kRowsA * 128);
    const std::uint64_t at_b = tile_descriptor<true>(b + column / kBoxColumns * kColumns * 128);
#pragma unroll
    for (int i = 0; i < kBoxColumns / 16; ++i)
      wgmma<T, kColumns, true, true>(s, at_a + i * kNextStep<true>, at_b + i * kNextStep<true>,
                                     column + i == 0 ? 0 : 1);
  }
}

// sums += weights X: weights of the rows of a tile of kRows.
template <class T, int kWidth, int kRows>
__device__ __forceinline__ void add_rows(float (&sums)[kWidth / 2],
                                         const std::uint32_t (&weights)[kRows / 4], const char* x) {
  const std::uint64_t at = tile_descriptor<false, kRows>(x);
#pragma unroll
  for (int i = 0; i < kRows / 16; ++i)
    wgmma<T, kWidth, false>(sums, weights + 4 * i, at + i * kNextStep<false>);
}

// Results of a product, rounded, as factors of the next one.
template <class T, int kCount>
__device__ __forceinline__ void round_weights(std::uint32_t (&weights)[kCount / 2],
                                              const float (&s)[kCount]) {
#pragma unroll
  for (int x = 0; x < kCount / 2; ++x) weights[x] = rounded_pair<T, false>(s[2 * x], s[2 * x + 1]);
}

// Of a lane's sums, which row and column s[x] is: rows 0 and 8 (below: 0 and 1) beside the lane's.
__device__ __forceinline__ constexpr int row_of(int x) { return x / 2 % 2; }
__device__ __forceinline__ constexpr int column_of(int x) { return x / 4 * 8 + x % 2; }

__device__ __forceinline__ float larger_or_nan(float a, float b) {
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}
__device__ __forceinline__ float smaller_or_nan(float a, float b) {
  float m;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
}

// Which tile comes as number `at`. Those of a head follow one another, so that they find its keys
// in the cache; backwards: the last ones, which see most, first.
struct Where {
  int n, head, tile;
};
__device__ inline Where place_of(Index at, Index heads, int tiles, bool backwards) {
  const int number = static_cast<int>(at), of_heads = static_cast<int>(heads);
  const int tile = number % tiles, head = number / tiles;
  return {head / of_heads, head % of_heads, backwards ? tiles - 1 - tile : tile};
}

// A warp's results, 16 rows: element(x) of sum x is what is stored. Gives a bit for each row that
// has a NaN, of those that may.
template <class T, int kWidth, class Element>
__device__ __forceinline__ unsigned store_results(const Operand& to, const Where& at, int row,
                                                  int rows, int width, bool packs,
                                                  const bool (&may)[2], char* piece,
                                                  Element element) {
  TensorArgs<T> p{};
  p.c = static_cast<T*>(to.data) + at.n * to.stride[0] + at.head * to.stride[1];
  p.c_row = to.stride[2], p.c_column = to.stride[3];
  p.m = rows, p.n = width, p.c_packs = packs;
  bool nan[2] = {};
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) {
    const float v = element(x);
    nan[row_of(x)] |= v != v;
  }
  store_rows<kWidth>(
      [&](int j, int h) {
        return float2{element(4 * j + 2 * h), element(4 * j + 2 * h + 1)};
      },
      piece, p, row, 0, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned low = __ballot_sync(0xffffffffu, nan[0] && may[0]),
                 high = __ballot_sync(0xffffffffu, nan[1] && may[1]);
  const bool own = ((lane < 8 ? low : high) >> lane % 8 * 4 & 15) != 0;
  return __ballot_sync(0xffffffffu, own && lane < 16 && row + lane < rows);
}

}  // namespace planck::attention_device
