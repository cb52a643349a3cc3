// The three gradients of a norm in one pass over x and dy, for dense rows of up to 4,096 elements.
//
// A block has all columns, eight per thread in two runs of four (rows of up to 128: one run), and
// goes down a chunk of rows, two at a time. The next two rows are on their way to shared memory
// meanwhile; each thread copies and reads its own part, so that only the sums of a row meet at a
// barrier. Sums down the rows are joined by four rows, then like the digits of a binary counter, in
// shared memory; a block leaves one partial sum per column, and a second launch joins these.
//
// layer_norm_backward of [16384, 4096] on an H200, with the second launch; a loop that reads and
// writes as many bytes takes 191 us for f32, 99 us for bf16:
//   f32     bf16
//   476 us          sums down the rows in a pass of their own, which reads x and dy again
//   296 us          one pass, one row at a time; this and the next without the second launch
//   224 us          two rows at a time: half of the barriers and shuffles
//   223 us  178 us  one block for each chunk of 32 rows instead of one for each processor
//   215 us  142 us  eight columns per thread, two rows ahead instead of four, chunks of 128 rows:
//                   one for each processor
//   213 us  119 us  30 instructions per element instead of 47: moments in shared memory, four rows
//                   per turn of the loop, no test per column where all columns are there
// The sums of a row while the one before is finished: the registers of both spill, 278 us. Four
// rows between barriers: they spill as well. More rows ahead: no faster.
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/rows/cuda/row_operands.cuh"
#include "planck/ops/norm/cuda/column_sums.cuh"
#include "planck/ops/norm/cuda/kernels.h"

namespace planck::row_device {

using reduce_device::exchanged;

inline constexpr int kFusedWarps = 16;

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
  int length, chunk;         // of a row; rows of a chunk, a power of two, from 4 on
  float count, inverse;      // of the length; 0 where it is no power of two
  TwoSums<float>* partials;  // [chunks, length]
};

// Four sums, each over the 16 lanes of a half: lane l has number l % 4.
__device__ __forceinline__ float four_sums(const float4& p) {
  float v = exchanged<rm::Add>(exchanged<rm::Add>(p.x, p.y, 1), exchanged<rm::Add>(p.z, p.w, 1), 2);
  v += across(v, 4);
  return v + across(v, 8);
}

// Arithmetic makes one NaN, 7fffffff or 7fff: above the canonical one, and that above infinity.
template <class T>
__device__ __forceinline__ Pack<4 * sizeof(T)> four_of(const float (&v)[4]) {
  Pack<4 * sizeof(T)> p;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      p.word[e] = static_cast<std::uint32_t>(min(__float_as_int(v[e]), 0x7fc00000));
  } else {
    constexpr std::uint32_t kNan = std::is_same_v<T, f16> ? 0x7e007e00u : 0x7fc07fc0u;
#pragma unroll
    for (int w = 0; w < 2; ++w)
      p.word[w] = __vmins2(rounded_pair<T, false>(v[2 * w], v[2 * w + 1]), kNan);
  }
  return p;
}

__device__ __forceinline__ float sum_of_four(const float (&v)[4]) {
  return (v[0] + v[1]) + (v[2] + v[3]);
}

// The sums of two rows, of g and of its product with xhat, over all lanes and runs: lane l has
// number l / kRuns % 4.
template <int kRuns>
__device__ __forceinline__ float row_sums(const float (&v)[2][2][kRuns]) {
  const auto runs = [&](int r, int s) {
    if constexpr (kRuns == 2)
      return exchanged<rm::Add>(v[r][s][0], v[r][s][1], 1);
    else
      return v[r][s][0];
  };
  const auto both = [&](int r) { return exchanged<rm::Add>(runs(r, 0), runs(r, 1), kRuns); };
  float sum = exchanged<rm::Add>(both(0), both(1), 2 * kRuns);
#pragma unroll
  for (int bit = 4 * kRuns; bit < 32; bit *= 2) sum += across(sum, bit);
  return kRuns == 2 ? sum + across(sum, 1) : sum;
}

// By the whole block: -0 for warps that are not there, and the moments of the chunk's rows.
template <bool kCentered, class T>
__device__ __forceinline__ void fill_shared(const FusedArguments<T>& a, std::int64_t first,
                                            int rows, float4 (&joined)[2][kFusedWarps],
                                            float4* moments) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int r = thread; r < 2 * kFusedWarps; r += threads)
    joined[r / kFusedWarps][r % kFusedWarps] = make_float4(-0.0f, -0.0f, -0.0f, -0.0f);
  for (int r = thread; r < rows; r += threads)
    reinterpret_cast<float2*>(moments)[r] =
        make_float2(kCentered ? a.mean[(first + r) * a.mean_stride] : 0.0f,
                    a.rstd[(first + r) * a.rstd_stride]);
}

// A thread's columns of the weight; 1 where it is not given.
template <class T, int kRuns>
__device__ __forceinline__ void load_weight(const FusedArguments<T>& a, int place,
                                            const bool (&valid)[kRuns], float (&w)[kRuns][4]) {
  constexpr int kBytes = 4 * static_cast<int>(sizeof(T));
#pragma unroll
  for (int k = 0; k < kRuns; ++k) {
    Pack<kBytes> p;
    const bool given = a.weight != nullptr && valid[k];
    if (given) p = load_pack<kBytes, false>(a.weight, place + 32 * k);
#pragma unroll
    for (int e = 0; e < 4; ++e) w[k][e] = given ? element_of<T>(p, e) : 1.0f;
  }
}

// What a thread holds of a run between its loads and its stores.
struct HeldRun {
  float hat[4], g[4];
};

// A run of row r of two, x and dy as they are stored: fills `run`, returns the run's parts of the
// sums along the row (of g and of g * xhat), and adds its terms to the sums down the rows (four of
// dy * xhat, then four of dy), which row 0 begins.
template <class T>
__device__ __forceinline__ float2 run_terms(const Pack<4 * sizeof(T)>& x,
                                            const Pack<4 * sizeof(T)>& dy, const float2& moments,
                                            const float (&w)[4], int r, bool counts, HeldRun& run,
                                            float (&columns)[8]) {
  float products[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const float d = element_of<T>(dy, e);
    run.hat[e] = (element_of<T>(x, e) - moments.x) * moments.y;
    run.g[e] = d * w[e];
    products[e] = run.g[e] * run.hat[e];
    const float term = counts ? d * run.hat[e] : -0.0f, plain = counts ? d : -0.0f;
    columns[e] = r == 0 ? term : columns[e] + term;
    columns[4 + e] = r == 0 ? plain : columns[4 + e] + plain;
  }
  return counts ? make_float2(sum_of_four(run.g), sum_of_four(products))
                : make_float2(-0.0f, -0.0f);
}

// The means along two rows, joined over the block by way of `parts`: lane 2 r has that of g of row
// r, lane 2 r + 1 that of g * xhat.
template <class T, int kRuns>
__device__ __forceinline__ float row_means(const FusedArguments<T>& a, int warp, int lane,
                                           const float (&sums)[2][2][kRuns],
                                           float4 (&parts)[kFusedWarps]) {
  const float part = row_sums(sums);
  if (lane < 4 * kRuns && lane % kRuns == 0)
    reinterpret_cast<float*>(&parts[warp])[lane / kRuns] = part;
  __syncthreads();
  const float sum = four_sums(parts[lane % kFusedWarps]);
  return a.inverse != 0.0f ? sum * a.inverse : sum / a.count;
}

// dx of a run, before it is rounded; the means are those of row_means().
template <bool kCentered>
__device__ __forceinline__ void run_gradient(const HeldRun& run, float of_g, float of_products,
                                             float rstd, float (&out)[4]) {
#pragma unroll
  for (int e = 0; e < 4; ++e)
    out[e] = ((run.g[e] - (kCentered ? of_g : 0.0f)) - run.hat[e] * of_products) * rstd;
}

// Adds the sums of four rows, number `step` of a chunk, to the counter in shared memory. Returns
// whether that completes the chunk: `columns` are then the sums of all its rows.
template <int kRuns>
__device__ __forceinline__ bool add_to_counter(float4* digits, int width, int chunk, int step,
                                               float (&columns)[kRuns][8]) {
  bool open = true;
#pragma unroll 1
  for (int d = 0; open && 4 << d < chunk; ++d) {
    float4* const at = digits + d * 2 * width;
    open = ((step >> d) & 1) != 0;
#pragma unroll
    for (int k = 0; k < kRuns; ++k)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float* const v = columns[k] + 4 * half;
        float4& kept = at[half * width + 32 * k];
        if (open) {
          const float4 before = kept;
          v[0] = before.x + v[0];
          v[1] = before.y + v[1];
          v[2] = before.z + v[2];
          v[3] = before.w + v[3];
        } else {
          kept = make_float4(v[0], v[1], v[2], v[3]);
        }
      }
  }
  return open;
}

// The chunk's sums down the rows, of dy * xhat and of dy in pairs, to the workspace.
template <class T, int kRuns>
__device__ __forceinline__ void put_partials(const FusedArguments<T>& a, int place,
                                             const bool (&valid)[kRuns],
                                             const float (&columns)[kRuns][8]) {
#pragma unroll
  for (int k = 0; k < kRuns; ++k) {
    if (!valid[k]) continue;
    const float* v = columns[k];
    const float pairs[8] = {v[0], v[4], v[1], v[5], v[2], v[6], v[3], v[7]};
    TwoSums<float>* const to =
        a.partials + blockIdx.x * static_cast<std::int64_t>(a.length) + 4 * (place + 32 * k);
    store_pack<false>(to, 0, packed<float, 16>(pairs));
    store_pack<false>(to, 1, packed<float, 16>(pairs + 4));
  }
}

template <class T, bool kCentered, int kRuns>
__global__ void __launch_bounds__(1024 / kRuns) fused_backward(const FusedArguments<T> a) {
  constexpr int kBytes = 4 * static_cast<int>(sizeof(T));
  using P = Pack<kBytes>;
  extern __shared__ __align__(16) char dynamic[];
  __shared__ float4 joined[2][kFusedWarps];
  __shared__ float4 moments[kFusedRows / 2];  // of two rows: mean, rstd, mean, rstd
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int warp = thread / 32, lane = thread % 32;
  const int place = warp * 32 * kRuns + lane, width = threads * kRuns;  // in runs
  P* const ahead = reinterpret_cast<P*>(dynamic) + place;               // [2 rows, x and dy, width]
  float4* const digits = reinterpret_cast<float4*>(dynamic + 4 * width * kBytes) + place;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * a.chunk;
  const int rows = static_cast<int>(min(static_cast<std::int64_t>(a.chunk), a.rows - first));
  bool valid[kRuns];
#pragma unroll
  for (int k = 0; k < kRuns; ++k) valid[k] = 4 * (place + 32 * k) < a.length;
  const T* x = a.x + first * a.x_stride + 4 * place;  // of the next row
  const T* dy = a.dy + first * a.dy_stride + 4 * place;
  T* dx = a.dx + first * a.dx_stride + 4 * place;
  // Row number `row` of the chunk; all: every thread has its columns.
  const auto fetch = [&](auto all, int row, int slot) {
    if (row < rows) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        if (!all() && !valid[k]) continue;
        P* const at = ahead + 2 * slot * width + 32 * k;
        copy_async<kBytes>(at, x + 128 * k);
        copy_async<kBytes>(at + width, dy + 128 * k);
      }
    }
    x += a.x_stride;
    dy += a.dy_stride;
    end_copies();
  };
  follow();
  fetch(std::false_type{}, 0, 0);
  fetch(std::false_type{}, 1, 1);
  fill_shared<kCentered>(a, first, rows, joined, moments);
  float w[kRuns][4];
  load_weight(a, place, valid, w);
  __syncthreads();

  // dx of two rows, and their sums down the rows. all: nothing is missing.
  const auto two_rows = [&](auto all, int row, float4(&parts)[kFusedWarps],
                            float(&columns)[kRuns][8]) {
    P raw[2][2][kRuns];
    HeldRun held[2][kRuns];
    float sums[2][2][kRuns];
    const float4 both = moments[row / 2];
    const float2 moments_of[2] = {{both.x, both.y}, {both.z, both.w}};
#pragma unroll
    for (int r = 0; r < 2; ++r) {  // a row is fetched as soon as its place is free
      await_copies<1>();
#pragma unroll
      for (int o = 0; o < 2; ++o)
#pragma unroll
        for (int k = 0; k < kRuns; ++k) raw[r][o][k] = ahead[(2 * r + o) * width + 32 * k];
      fetch(all, row + r + 2, r);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const bool counts = all() || (valid[k] && row + r < rows);
        const float2 both_sums = run_terms<T>(raw[r][0][k], raw[r][1][k], moments_of[r], w[k], r,
                                              counts, held[r][k], columns[k]);
        sums[r][0][k] = both_sums.x;
        sums[r][1][k] = both_sums.y;
      }
    const float average = row_means(a, warp, lane, sums, parts);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float of_g = __shfl_sync(~0u, average, 2 * r);
      const float of_products = __shfl_sync(~0u, average, 2 * r + 1);
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        float out[4];
        run_gradient<kCentered>(held[r][k], of_g, of_products, moments_of[r].y, out);
        if (all() || (valid[k] && row + r < rows)) store_pack<true>(dx, 32 * k, four_of<T>(out));
      }
      dx += a.dx_stride;
    }
  };

#pragma unroll 1
  for (int row = 0, step = 0; row < a.chunk; row += 4, ++step) {
    float columns[kRuns][8], later[kRuns][8];
    const auto four_rows = [&](auto all) {
      two_rows(all, row, joined[0], columns);
      two_rows(all, row + 2, joined[1], later);
    };
    if (4 * width == a.length && row + 4 <= rows)
      four_rows(std::true_type{});
    else
      four_rows(std::false_type{});
#pragma unroll
    for (int k = 0; k < kRuns; ++k)
#pragma unroll
      for (int e = 0; e < 8; ++e) columns[k][e] += later[k][e];
    if (!add_to_counter(digits, width, a.chunk, step, columns)) continue;
    put_partials(a, place, valid, columns);
  }
}

}  // namespace planck::row_device
