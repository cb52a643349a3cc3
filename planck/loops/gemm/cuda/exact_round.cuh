// What warpgroups are told of an exact product, and its sums on their way to C: rounded, and what
// follows.
#pragma once

#include "planck/loops/gemm/cuda/exact_cut.h"
#include "planck/loops/gemm/cuda/warpgroups.cuh"
#include "planck/math/products/exact_product.h"

namespace planck::gemm_device {

struct ExactArgs {
  TensorArgs<float> product;             // k is that of a plane: a multiple of 16
  const int *a_exponents, *b_exponents;  // [batch, rows], [batch, columns]
  std::int64_t* waiting;                 // ExactTiles::kWaiting for each block
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
  Following<float> follows;
};

// Where a warp's 16 rows of C begin, and its 8 rows of 320 bytes of shared memory.
struct ExactPlace {
  int batch, row, column;
  char* piece;
  std::int64_t* sums;  // of the first row and column, where integers are wanted; null: C
  std::int64_t sums_row;
};

// What follows the product in 8 rows of a lane's column. The lane has 8 bytes of each row of the
// piece to itself, where activations wait, which are written down once for two rows.
__device__ __forceinline__ void follow_column(const Following<float>& f, const ExactPlace& place,
                                              int row, int rows, int column,
                                              const float (&residual)[8], float (&v)[8]) {
  const auto slot = [&](int r) {
    return reinterpret_cast<float*>(place.piece + r * 320 + threadIdx.x % 32 * 8);
  };
  const auto add = [](float a, float b) { return canonical_nan(a + b); };
  if (f.bias.data != nullptr) {
    const float of_column = __ldg(f.bias.at(0, 0, column));
#pragma unroll
    for (int r = 0; r < 8; ++r)
      v[r] = add(v[r],
                 f.bias.row == 0 ? of_column : __ldg(f.bias.at(0, min(row + r, rows - 1), column)));
  }
  if (f.activation != Activation::none) {
#pragma unroll
    for (int r = 0; r < 8; ++r) *slot(r) = v[r];
#pragma unroll 2
    for (int r = 0; r < 8; ++r) {
      const Pack<4> x = {{__float_as_uint(*slot(r))}};
      *slot(r) = __uint_as_float(activated<float>(f.activation, x).word[0]);
    }
#pragma unroll
    for (int r = 0; r < 8; ++r) v[r] = *slot(r);
  }
  if (f.residual.data == nullptr) return;
#pragma unroll
  for (int r = 0; r < 8; ++r) v[r] = add(v[r], residual[r]);
}

// The sums of 8 rows and 32 columns, rounded to C.
__device__ __forceinline__ void round_rows(const ExactArgs& e, const ExactPlace& place, int j0,
                                           int first, const float (&residual)[8]) {
  namespace exact = math::exact;
  const TensorArgs<float>& p = e.product;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int j = place.column + j0 + lane, row = place.row + first;
  if (j >= p.n) return;
  const int* const rows = e.a_exponents + (p.a_batches ? std::int64_t{place.batch} * p.m : 0);
  const int* const columns = e.b_exponents + (p.b_batches ? std::int64_t{place.batch} * p.n : 0);
  char* const slots = place.piece + lane * 8;
  const auto sum_of = [&](int r) { return *reinterpret_cast<const long long*>(slots + r * 320); };
  if (place.sums != nullptr) {
    for (int r = 0; r < 8 && row + r < p.m; ++r)
      place.sums[(first + r) * place.sums_row + j0 + lane] = sum_of(r);
    return;
  }
  const int of_column = columns[j];
  float v[8] = {};
  unsigned odd = 0;
#pragma unroll
  for (int r = 0; r < 8; ++r) {
    if (row + r >= p.m) break;
    const long long sum = sum_of(r);
    const int n = exact::exponent_of_sum(rows[row + r], of_column);  // far off where not finite
    // Away from the ends of f32 the power of two only moves the exponent.
    const std::uint32_t bits = __float_as_uint(__ll2float_rn(sum));
    const int exponent = static_cast<int>(bits >> 23 & 0xff) + n;
    odd |= (exponent > 254 || (sum != 0 && exponent < 1) ? 1u : 0u) << r;
    v[r] = sum == 0 ? 0.0f : __uint_as_float(bits + (static_cast<std::uint32_t>(n) << 23));
  }
  if (odd != 0) {
#pragma unroll 1
    for (int r = 0; r < 8; ++r) {
      if ((odd >> r & 1) == 0) continue;
      const int of_row = rows[row + r];
      const bool finite = of_row != exact::kNotFinite && of_column != exact::kNotFinite;
      *reinterpret_cast<float*>(slots + r * 320) =
          finite ? exact::round_exact(sum_of(r), exact::exponent_of_sum(of_row, of_column))
                 : exact::not_finite(e.a + place.batch * e.a_batch + (row + r) * e.a_row, e.a_k,
                                     e.b + place.batch * e.b_batch + j * e.b_column, e.b_k, e.k);
    }
#pragma unroll
    for (int r = 0; r < 8; ++r)
      if (odd >> r & 1) v[r] = *reinterpret_cast<const float*>(slots + r * 320);
  }
  if (e.follows.any()) follow_column(e.follows, place, row, p.m, j, residual, v);
  float* const c = p.c + place.batch * p.c_batch + j * p.c_column;
#pragma unroll
  for (int r = 0; r < 8; ++r)
    if (row + r < p.m) c[(row + r) * p.c_row] = v[r];
}

// What round_rows adds last.
__device__ __forceinline__ void read_residual(const ExactArgs& e, const ExactPlace& place, int j0,
                                              int first, float (&residual)[8]) {
  const Beside<float>& from = e.follows.residual;
  const int j = place.column + j0 + static_cast<int>(threadIdx.x) % 32, row = place.row + first;
  if (from.data == nullptr || place.sums != nullptr || j >= e.product.n) return;
#pragma unroll
  for (int r = 0; r < 8; ++r)
    if (row + r < e.product.m) residual[r] = load_early(from.at(place.batch, row + r, j));
}

}  // namespace planck::gemm_device
