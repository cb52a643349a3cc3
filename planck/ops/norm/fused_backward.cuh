// The three gradients of a norm in one pass over x and dy, for dense rows of up to 4,096 elements.
//
// A block has all columns, four a thread, and goes down 32 rows two at a time. Rows come through a
// ring in shared memory that is two steps ahead; each thread copies and reads its own part, so that
// only the sums of a row meet at a barrier. Sums down the rows are joined like the digits of a
// binary counter, the first in registers, the others in shared memory; a block leaves one partial
// sum a column, and these are joined by a second launch.
//
// layer_norm_backward of f32 [16384, 4096] on an H200, where a copy of as many bytes takes 206 us:
//   476 us  sums down the rows in a pass of their own, which reads x and dy again
//   296 us  one pass, a row at a time
//   224 us  two rows at a time: half of the barriers and shuffles
//   212 us  a block for each chunk of rows instead of one for each processor
#pragma once

#include "planck/loops/chain.cuh"
#include "planck/ops/norm/column_sums.cuh"
#include "planck/ops/norm/kernels.h"
#include "planck/ops/reduce/row_operands.cuh"

namespace planck::row_device {

using reduce_device::exchanged;

template <class T>
struct FusedArguments {
  const T* x;  // [rows, length], rows strides apart
  const T* dy;
  const T* weight;  // null: 1
  T* dx;
  const float* mean;
  const float* rstd;
  std::int64_t x_stride, dy_stride, dx_stride, mean_stride, rstd_stride;
  std::int64_t rows;
  int length;
  float count;
  TwoSums<float>* partials;  // [chunks, length]
};

inline constexpr int kFusedLength = 4096;
inline constexpr int kFusedDigits = 1;  // in registers
inline constexpr int kFusedSteps = static_cast<int>(kFusedRows) / 2;
constexpr int fused_levels() {
  int levels = 0;
  while (1 << levels < kFusedSteps) ++levels;
  return levels;
}
template <class T>
constexpr int fused_memory(int threads) {
  return threads * (2 * 4 * 4 * static_cast<int>(sizeof(T)) + (fused_levels() - kFusedDigits) * 32);
}

template <int kBytes>
__device__ __forceinline__ void copy_async(void* to, const void* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(kBytes)
                 : "memory");
}

// Four sums, each over all lanes: lane l has number l % 4.
__device__ __forceinline__ float four_sums(float a, float b, float c, float d) {
  float v = exchanged<rm::Add>(exchanged<rm::Add>(a, b, 1), exchanged<rm::Add>(c, d, 1), 2);
#pragma unroll
  for (int bit = 4; bit < 32; bit *= 2) v += across(v, bit);
  return v;
}

__device__ __forceinline__ float sum_of_four(const float (&v)[4]) {
  return (v[0] + v[1]) + (v[2] + v[3]);
}

template <class T, bool kCentered>
__global__ void __launch_bounds__(1024) fused_backward(const FusedArguments<T> a) {
  constexpr int kBytes = 4 * static_cast<int>(sizeof(T));
  using P = Pack<kBytes>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ float4 joined[2][32];
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int warp = thread / 32, lane = thread % 32;
  P* const ring = reinterpret_cast<P*>(dynamic) + thread;  // [2 slots, 2 rows, x and dy, threads]
  float4* const digits = reinterpret_cast<float4*>(dynamic + 8 * threads * kBytes) + thread;
  follow();
  for (int slot = warp; slot < 2; slot += threads / 32)  // a block may be one warp
    joined[slot][lane] = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
  __syncthreads();

  const bool valid = 4 * thread < a.length;
  const std::int64_t first = blockIdx.x * kFusedRows, end = first + kFusedRows;
  const std::int64_t rows = min(end, a.rows);
  const T* const x = a.x + 4 * thread;
  const T* const dy = a.dy + 4 * thread;
  const auto fetch = [&](std::int64_t row, int slot) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!valid || row + r >= rows) continue;
      P* at = ring + (slot * 2 + r) * 2 * threads;
      copy_async<kBytes>(at, x + (row + r) * a.x_stride);
      copy_async<kBytes>(at + threads, dy + (row + r) * a.dy_stride);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float mean[2] = {0, 0}, rstd[2] = {0, 0};
  const auto fetch_moments = [&](std::int64_t row) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + r >= rows) continue;
      if constexpr (kCentered) mean[r] = a.mean[(row + r) * a.mean_stride];
      rstd[r] = a.rstd[(row + r) * a.rstd_stride];
    }
  };
  float w[4] = {1, 1, 1, 1};
  if (a.weight != nullptr && valid) {
    const P p = load_pack<kBytes, false>(a.weight, thread);
#pragma unroll
    for (int e = 0; e < 4; ++e) w[e] = element_of<T>(p, e);
  }
  fetch(first, 0);
  fetch(first + 2, 1);
  fetch_moments(first);
  float digit[kFusedDigits][8];
  int step = 0;
#pragma unroll 1
  for (std::int64_t row = first; row < end; row += 2, ++step) {
    const int slot = step & 1;
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    P raw[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int o = 0; o < 2; ++o) raw[r][o] = ring[((slot * 2 + r) * 2 + o) * threads];
    fetch(row + 4, slot);
    float hat[2][4], g[2][4], sums[2][2], scale[2], columns[8];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const bool counts = valid && row + r < rows;
      float products[4];
      scale[r] = rstd[r];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float d = element_of<T>(raw[r][1], e);
        hat[r][e] = (element_of<T>(raw[r][0], e) - mean[r]) * rstd[r];
        g[r][e] = d * w[e];
        products[e] = g[r][e] * hat[r][e];
        const float term = counts ? d * hat[r][e] : -0.0f, plain = counts ? d : -0.0f;
        columns[e] = r == 0 ? term : columns[e] + term;
        columns[4 + e] = r == 0 ? plain : columns[4 + e] + plain;
      }
      sums[r][0] = counts ? sum_of_four(g[r]) : -0.0f;
      sums[r][1] = counts ? sum_of_four(products) : -0.0f;
    }
    fetch_moments(row + 2);
    const float part = four_sums(sums[0][0], sums[0][1], sums[1][0], sums[1][1]);
    if (lane < 4) reinterpret_cast<float*>(&joined[slot][warp])[lane] = part;
    __syncthreads();
    const float4 parts = joined[slot][lane];
    const float average = four_sums(parts.x, parts.y, parts.z, parts.w) / a.count;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float of_g = __shfl_sync(~0u, average, 2 * r);
      const float of_products = __shfl_sync(~0u, average, 2 * r + 1);
      float out[4];
#pragma unroll
      for (int e = 0; e < 4; ++e)
        out[e] = ((g[r][e] - (kCentered ? of_g : 0.0f)) - hat[r][e] * of_products) * scale[r];
      if (valid && row + r < rows)
        store_pack<true>(a.dx + (row + r) * a.dx_stride, thread, packed<T, kBytes>(out));
    }
    // Adds two rows to the counter.
    bool open = true;
#pragma unroll
    for (int d = 0; d < kFusedDigits; ++d) {
      if (!open) continue;
      open = ((step >> d) & 1) != 0;
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        if (open)
          columns[e] = digit[d][e] + columns[e];
        else
          digit[d][e] = columns[e];
      }
    }
    if (!open) continue;
#pragma unroll 1
    for (int d = kFusedDigits; d < fused_levels(); ++d) {
      float4* const at = digits + (d - kFusedDigits) * 2 * threads;
      open = ((step >> d) & 1) != 0;
      if (!open) {
        at[0] = make_float4(columns[0], columns[1], columns[2], columns[3]);
        at[threads] = make_float4(columns[4], columns[5], columns[6], columns[7]);
        break;
      }
      const float4 l = at[0], h = at[threads];
      const float before[8] = {l.x, l.y, l.z, l.w, h.x, h.y, h.z, h.w};
#pragma unroll
      for (int e = 0; e < 8; ++e) columns[e] = before[e] + columns[e];
    }
    if (!open || !valid) continue;  // else the chunk is complete
    const float pairs[8] = {columns[0], columns[4], columns[1], columns[5],
                            columns[2], columns[6], columns[3], columns[7]};
    TwoSums<float>* const to =
        a.partials + blockIdx.x * static_cast<std::int64_t>(a.length) + 4 * thread;
    store_pack<false>(to, 0, packed<float, 16>(pairs));
    store_pack<false>(to, 1, packed<float, 16>(pairs + 4));
  }
}

}  // namespace planck::row_device
