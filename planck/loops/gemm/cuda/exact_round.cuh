// What warpgroups are told of an exact product, and how its sums are rounded to C.
#pragma once

#include "planck/loops/gemm/cuda/exact_cut.h"
#include "planck/loops/gemm/cuda/warpgroups.cuh"
#include "planck/math/products/exact_product.h"

namespace planck::gemm_device {

struct ExactArgs {
  FollowedArgs<float> product;           // k is that of a plane: a multiple of 16
  const int *a_exponents, *b_exponents;  // [batch, rows], [batch, columns]
  std::int64_t* waiting;                 // ExactTiles::kWaiting for each block; k > kExactPart
  // The integers themselves instead of C, or null; columns lie side by side.
  std::int64_t* sums;
  std::int64_t sums_row, sums_batch;
  // The last tiles that are cut along k, and room for two parts of each cluster; 0: none.
  int cut_tiles;
  std::int64_t* cut_sums;
  // For rows and columns that are not finite.
  const float *a, *b;
  std::int64_t a_row, a_k, b_column, b_k, k;
  std::int64_t a_batch, b_batch;

  __device__ const int* exponents_of_rows(int batch) const {
    return a_exponents + (product.a_batches ? std::int64_t{batch} * product.m : 0);
  }
  __device__ const int* exponents_of_columns(int batch) const {
    return b_exponents + (product.b_batches ? std::int64_t{batch} * product.n : 0);
  }
};

// What sums of a tile are multiplied by where powers of two do it: where no sum, which is below
// 2^63, leaves the normal numbers of f32 on its way.
//
// A warp has 16 rows of the tile and all columns; `of_columns` are kColumns floats of its own.
class ExactScales {
 public:
  float of_row[2] = {};  // lane / 4 and the 8th after it
  bool serve = false;

  template <int kColumns>
  __device__ __forceinline__ void find(const ExactArgs& e, int batch, int row, int column,
                                       float* of_columns) {
    constexpr unsigned kAll = 0xffffffffu;
    const FollowedArgs<float>& p = e.product;
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int* const rows = e.exponents_of_rows(batch);
    const int* const columns = e.exponents_of_columns(batch);
    int found[2 + kColumns / 32];
#pragma unroll
    for (int h = 0; h < 2; ++h)
      found[h] = __ldg(rows + max(min(row + lane / 4 + 8 * h, p.m - 1), 0));
#pragma unroll
    for (int j = 0; j < kColumns / 32; ++j)
      found[2 + j] = __ldg(columns + min(column + lane + 32 * j, p.n - 1));
    Ends of_rows, across;
#pragma unroll
    for (int h = 0; h < 2; ++h) of_row[h] = power(found[h]), of_rows.add(found[h]);
#pragma unroll
    for (int j = 0; j < kColumns / 32; ++j)
      of_columns[lane + 32 * j] = power(found[2 + j]), across.add(found[2 + j]);
    const int low_row = __reduce_min_sync(kAll, of_rows.low),
              high_row = __reduce_max_sync(kAll, of_rows.high),
              low_column = __reduce_min_sync(kAll, across.low),
              high_column = __reduce_max_sync(kAll, across.high);
    __syncwarp();
    constexpr int kBits = math::exact::kBits;
    serve = low_row >= kBits - 120 && low_column >= kBits - 120 && high_row <= kBits + 64 &&
            high_column <= kBits + 127 && low_row + low_column >= 2 * kBits - 126 &&
            high_row + high_column <= 2 * kBits + 64;
  }

 private:
  struct Ends {
    int low = 1 << 30, high = -(1 << 30);
    __device__ __forceinline__ void add(int n) { low = min(low, n), high = max(high, n); }
  };
  static __device__ __forceinline__ float power(int exponent) {
    return __uint_as_float(static_cast<std::uint32_t>(exponent - math::exact::kBits + 127) << 23);
  }
};

// One sum, rounded to C and with what follows, whatever the exponents are.
__device__ __forceinline__ void round_to_c(const ExactArgs& e, int batch, int row, int column,
                                           std::int64_t sum) {
  namespace exact = math::exact;
  const FollowedArgs<float>& p = e.product;
  const int of_row = e.exponents_of_rows(batch)[row],
            of_column = e.exponents_of_columns(batch)[column];
  const bool finite = of_row != exact::kNotFinite && of_column != exact::kNotFinite;
  const float v =
      finite ? exact::round_exact(sum, exact::exponent_of_sum(of_row, of_column))
             : exact::not_finite(e.a + batch * e.a_batch + row * e.a_row, e.a_k,
                                 e.b + batch * e.b_batch + column * e.b_column, e.b_k, e.k);
  const Pack<4> rounded = {{__float_as_uint(v)}};
  p.c[batch * p.c_batch + row * p.c_row + column * p.c_column] =
      __uint_as_float(p.follows.applied(rounded, batch, row, column, 1).word[0]);
}

}  // namespace planck::gemm_device
