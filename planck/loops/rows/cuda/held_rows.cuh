// Rows of any strides on the device: held in the registers of one or several warps (up to 16 Ki
// elements), or read again for every pass. Dense rows have a way of their own (dense_rows.cuh).
//
// A thread holds 16 elements in runs of 16 bytes; run number k * 32 + lane of each warp's share, so
// that joining lanes, then runs, then warps is the pairwise order (joins.cuh).
#pragma once

#include "planck/loops/rows/cuda/dense_rows.cuh"
#include "planck/loops/rows/cuda/row_operands.cuh"

namespace planck::row_device {

// This thread's part of a row of kInputs operands.
template <class T, int kInputs, RowWay kWay>
struct StridedRow {
  using C = Compute<T>;
  using K = rm::KeyOf<C>;
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T));
  static constexpr int kRuns = kThreadElements<T, kInputs, kWay> / kRun;
  static constexpr bool kHeld = kWay == RowWay::held;

  // Rows that are held are short: 32-bit indices suffice.
  using Index = std::conditional_t<kHeld, int, std::int64_t>;

  const RowShape& shape;
  const RowView<const T>* inputs;
  std::int64_t row, base[kInputs];
  std::int64_t first;  // run
  bool inside;
  C held[kHeld ? kRuns : 1][kInputs][kRun];

  __device__ __forceinline__ StridedRow(const RowShape& s, const RowView<const T>* in)
      : shape(s), inputs(in) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32 / s.warps) + warp / s.warps;
    inside = row < s.rows;
    first = static_cast<std::int64_t>(warp & (s.warps - 1)) * (32 * kRuns * s.turns) + lane;
#pragma unroll
    for (int o = 0; o < kInputs; ++o) base[o] = inside ? in[o].rows.offset(row) : 0;
    if constexpr (kHeld) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) load(first + k * 32, held[k]);
    }
  }
  __device__ __forceinline__ bool leads() const {
    return inside && (threadIdx.x / 32 & (shape.warps - 1)) == 0 && threadIdx.x % 32 == 0;
  }

  // What DenseRow has; nothing is known of the elements.
  __device__ __forceinline__ C largest(K* shared, bool& near) {
    near = false;
    const K key = join_lanes_of<rm::Largest, K>(
        [](const C(&x)[kInputs], Index, int, int) { return rm::key_of(x[0], K(0)); }, Nothing{});
    return rm::value_of<C>(reduce_device::join_warps<rm::Largest>(key, shape.warps, shared), K(0));
  }
  template <class F>
  __device__ __forceinline__ bool all_near(const F&) const {
    return false;
  }
  template <class F, class B = Nothing>
  __device__ __forceinline__ C part(const F& f, const B& before = {}) {
    return join_lanes_of<rm::Add, C>(f, before);
  }
  // All threads of the block must call.
  __device__ __forceinline__ C joined(C part, C* shared) const {
    return reduce_device::join_warps<rm::Add>(part, shape.warps, shared);
  }
  template <class F, class B = Nothing>
  __device__ __forceinline__ C sum(C* shared, const F& f, const B& before = {}) {
    return joined(part(f, before), shared);
  }

  // out = f(element's operands, index, run, number in it)
  template <bool kNan = true, class F, class B = Nothing>
  __device__ __forceinline__ void map(const RowView<T>& out, const F& f, const B& before = {}) {
    const std::int64_t to = inside ? out.rows.offset(row) : 0;
#pragma unroll 1
    for (int turn = 0; turn < (kHeld ? 1 : shape.turns); ++turn)
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const Index run = static_cast<Index>(first) + (static_cast<Index>(turn) * kRuns + k) * 32;
        if (!inside || run >= static_cast<Index>(shape.runs)) continue;
        if constexpr (!kHeld) load(run, held[0]);
        const C(&v)[kInputs][kRun] = held[kHeld ? k : 0];
        C result[kRun];
        before(run);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          C in[kInputs];
#pragma unroll
          for (int o = 0; o < kInputs; ++o) in[o] = v[o][e];
          result[e] = run * kRun + e < static_cast<Index>(shape.length)
                          ? f(in, run * kRun + e, k, e)
                          : C(0);
        }
        if (out.packs) {
          store_pack<true>(out.data + to + out.elements.offset(run * kRun), 0,
                           packed<T, 16>(result));
        } else {
#pragma unroll
          for (int e = 0; e < kRun; ++e)
            if (run * kRun + e < static_cast<Index>(shape.length))
              out.data[to + out.elements.offset(run * kRun + e)] =
                  reduce_device::stored<T>(canonical_nan(result[e]));
        }
      }
  }

 private:
  __device__ __forceinline__ void load(std::int64_t run, C (&v)[kInputs][kRun]) const {
    if (!inside || run >= shape.runs) return;
    const std::int64_t i = run * kRun;
#pragma unroll
    for (int o = 0; o < kInputs; ++o) {
      const T* at = inputs[o].data + base[o];
      if (inputs[o].packs) {
        const auto p = load_pack<16, kHeld>(at + inputs[o].elements.offset(i), 0);
#pragma unroll
        for (int e = 0; e < kRun; ++e) v[o][e] = element_of<T>(p, e);
      } else {
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          v[o][e] = i + e < shape.length ? widen(at[inputs[o].elements.offset(i + e)]) : C(0);
      }
    }
  }

  // f(element's operands, index, run, number in it) joined over the warp's elements; before(run) is
  // called ahead of the run's elements.
  template <class J, class A, class F, class B>
  __device__ __forceinline__ A join_lanes_of(const F& f, const B& before) {
    A sum = J::template nothing<A>(), digits[24];
#pragma unroll 1
    for (int turn = 0; turn < (kHeld ? 1 : shape.turns); ++turn) {
      A runs[kRuns];
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const Index run = static_cast<Index>(first) + (static_cast<Index>(turn) * kRuns + k) * 32;
        const bool valid = inside && run < static_cast<Index>(shape.runs);
        if constexpr (!kHeld) load(run, held[0]);
        const C(&v)[kInputs][kRun] = held[kHeld ? k : 0];
        A lifted[kRun];
        if (valid) before(run);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          C in[kInputs];
#pragma unroll
          for (int o = 0; o < kInputs; ++o) in[o] = v[o][e];
          const Index i = run * kRun + e;
          lifted[e] = valid && i < static_cast<Index>(shape.length) ? f(in, i, k, e)
                                                                    : J::template nothing<A>();
        }
        runs[k] = reduce_device::join_run<J>(lifted);
      }
      sum = reduce_device::join_warp<J, kRuns, A>(runs);
      if constexpr (!kHeld) {
        int d = 0;
        for (; (turn >> d) & 1; ++d) sum = J::template of<A>(digits[d], sum);
        digits[d] = sum;
      }
    }
    return sum;
  }
};

template <class T, int kInputs, RowWay kWay>
using RowOf = std::conditional_t<(kWay <= RowWay::wide), DenseRow<T, kInputs, kWay>,
                                 StridedRow<T, kInputs, kWay>>;

// The sum of exp(x - largest) over a warp's elements; keep(run, number in it, exponential).
template <class Row, class Keep>
__device__ __forceinline__ typename Row::C exponentials(Row& row, typename Row::C largest,
                                                        bool near, const Keep& keep) {
  using C = typename Row::C;
  const auto sum = [&](const auto& exp) {
    return row.part([&](const C(&x)[1], std::int64_t, int k, int e) {
      const C v = exp(x[0] - largest);
      keep(k, e, v);
      return v;
    });
  };
  return near ? sum([](C x) { return exp_near(x); }) : sum([](C x) { return exp_below(x); });
}

}  // namespace planck::row_device
