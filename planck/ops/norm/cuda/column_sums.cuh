// The gradients of weight and bias: sums down the rows, in chunks of rows.
//
// A thread has one column. A chunk of 512 rows is eight slots of 64 rows, one per warp. The chunks'
// sums are joined by a second launch.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/rows/cuda/row_operands.cuh"
#include "planck/loops/rows/functions.h"
#include "planck/ops/norm/cuda/kernels.h"

namespace planck::row_device {

namespace m = row_math;

template <class C>
struct TwoSums {
  C first, second;
};
struct AddTwoSums {
  template <class A>
  __device__ static A of(const A& a, const A& b) {
    return {a.first + b.first, a.second + b.second};
  }
};

// Joins what the slots of a block hold for each of 32 columns; slot 0 has the result, for its own
// threads.
template <int kCount, class A>
__device__ __forceinline__ void join_slots(A (*shared)[32], int slot, int lane) {
  for (int half = 1; half < kCount; half *= 2) {
    __syncthreads();
    if ((slot & (2 * half - 1)) == 0)
      shared[slot][lane] = AddTwoSums::of(shared[slot][lane], shared[slot + half][lane]);
  }
}

template <class T>
struct GradientArguments {
  RowView<const T> x, dy;
  const Compute<T>* mean;  // null: 0
  const Compute<T>* rstd;
  AxisMap mean_map, rstd_map;
  std::int64_t rows, length, chunks, tiles;
  TwoSums<Compute<T>>* partials;
  T* dweight;  // null: not wanted
  T* dbias;
  AxisMap dweight_map, dbias_map;
};

template <class T>
__device__ __forceinline__ void put_gradients(const GradientArguments<T>& a, std::int64_t column,
                                              const TwoSums<Compute<T>>& sum) {
  using reduce_device::stored;
  if (a.dweight != nullptr)
    a.dweight[a.dweight_map.offset(column)] = stored<T>(canonical_nan(sum.first));
  if (a.dbias != nullptr)
    a.dbias[a.dbias_map.offset(column)] = stored<T>(canonical_nan(sum.second));
}

constexpr int kSlots = 8, kSlotRows = static_cast<int>(kNormChunkRows) / kSlots;

// kLines: rows are one axis of every operand.
template <class T, bool kLines>
__global__ void __launch_bounds__(32 * kSlots) gradient_chunks(const GradientArguments<T> a) {
  using C = Compute<T>;
  using A = TwoSums<C>;
  const A nothing{C(-0.0), C(-0.0)};
  __shared__ A shared[kSlots][32];
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = blockIdx.x % a.tiles * 32 + lane, chunk = blockIdx.x / a.tiles;
  const bool inside = column < a.length;
  const std::int64_t xc = inside ? a.x.elements.offset(column) : 0;
  const std::int64_t dc = inside ? a.dy.elements.offset(column) : 0;
  const auto at = [](const AxisMap& map, std::int64_t r) {
    return kLines ? map.start + r * map.stride[0] : map.offset(r);
  };
  std::int64_t row = chunk * kNormChunkRows + slot * kSlotRows;
  A digits[3], sum = nothing;
#pragma unroll 2
  for (int block = 0; block < kSlotRows / 8; ++block, row += 8) {
    // Rows past the end read the last one: no load waits for a condition.
    C x[8], dy[8], mean[8], rstd[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const std::int64_t r = row + k < a.rows ? row + k : a.rows - 1;
      mean[k] = C(0);
      if (a.mean != nullptr) mean[k] = a.mean[at(a.mean_map, r)];
      rstd[k] = a.rstd[at(a.rstd_map, r)];
      x[k] = widen(a.x.data[at(a.x.rows, r) + xc]);
      dy[k] = widen(a.dy.data[at(a.dy.rows, r) + dc]);
    }
    A v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const m::Shared<C> s{mean[k], rstd[k]};
      v[k] = row + k < a.rows ? A{m::HatTerm::of(x[k], dy[k], C(0), s), dy[k]} : nothing;
    }
    sum = reduce_device::join_run<AddTwoSums, 8, A>(v);
    bool open = true;
#pragma unroll
    for (int d = 0; d < 3; ++d) {
      if (!open) continue;
      if (((block >> d) & 1) == 0) {
        digits[d] = sum;
        open = false;
      } else {
        sum = AddTwoSums::of(digits[d], sum);
      }
    }
  }
  shared[slot][lane] = sum;
  join_slots<kSlots>(shared, slot, lane);
  if (slot != 0 || !inside) return;
  if (a.chunks > 1)
    a.partials[chunk * a.length + column] = shared[0][lane];
  else
    put_gradients(a, column, shared[0][lane]);
}

// 32 columns; a slot has 2^k chunks.
constexpr int kTotalSlots = 32;
template <class T>
__global__ void __launch_bounds__(32 * kTotalSlots) gradient_totals(const GradientArguments<T> a) {
  using A = TwoSums<Compute<T>>;
  const A nothing{Compute<T>(-0.0), Compute<T>(-0.0)};
  __shared__ A shared[kTotalSlots][32];
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  std::int64_t each = 1;
  while (each * kTotalSlots < a.chunks) each *= 2;
  A digits[32], sum = nothing;
  for (std::int64_t i = 0; i < each && column < a.length; i += 8) {
    A v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const std::int64_t chunk = slot * each + i + k;
      v[k] = nothing;
      if (i + k < each && chunk < a.chunks) v[k] = a.partials[chunk * a.length + column];
    }
    sum = reduce_device::join_run<AddTwoSums, 8, A>(v);
    int d = 0;
    for (; (i >> (3 + d)) & 1; ++d) sum = AddTwoSums::of(digits[d], sum);
    digits[d] = sum;
  }
  shared[slot][lane] = sum;
  join_slots<kTotalSlots>(shared, slot, lane);
  if (slot == 0 && column < a.length) put_gradients(a, column, shared[0][lane]);
}

template <class T>
__global__ void no_gradients(const GradientArguments<T> a) {
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column < a.length) put_gradients(a, column, TwoSums<Compute<T>>{0, 0});
}

}  // namespace planck::row_device
