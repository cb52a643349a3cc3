// Rows on the device: a row is held in the registers of one or several warps (up to 16 Ki
// elements), or read again for every pass.
//
// A thread holds 16 elements in runs of 16 bytes; run number k * 32 + lane of each warp's share, so
// that joining lanes, then runs, then warps is the pairwise order (reduce/joins.cuh).
#pragma once

#include "planck/loops/launch.cuh"
#include "planck/ops/reduce/axis_map.cuh"
#include "planck/ops/reduce/joins.cuh"
#include "planck/ops/reduce/row_view.h"

namespace planck::row_device {

namespace rm = reduce_math;
using reduce_device::across;

inline constexpr int kThreadElements = 16;
inline constexpr int kMostWarps = 32;
inline constexpr std::int64_t kMostHeld = kMostWarps * 32 * kThreadElements;

// One operand. Element i of row r is at rows.offset(r) + elements.offset(i).
template <class T>
struct RowView {
  T* data = nullptr;
  AxisMap rows, elements;
  bool packs = false;  // runs are 16-byte accesses
  bool dense = false;  // and follow one another

  static RowView make(const View& v, unsigned along, std::int64_t length) {
    RowView r;
    r.data = static_cast<T*>(v.data);
    r.rows = AxisMap::of(axes_walk(v, ~along));
    r.elements = AxisMap::of(axes_walk(v, along));
    r.set_packs(length);
    return r;
  }
  void set_packs(std::int64_t length) {
    constexpr std::int64_t kRun = 16 / sizeof(T);
    packs = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && rows.aligned(sizeof(T)) &&
            elements.packs(kRun, sizeof(T), length) && length % kRun == 0;
    dense = packs && elements.rank == 1;
  }
};

struct RowShape {
  std::int64_t rows, length, runs;
  int warps;  // of a row, a power of two
  int turns;  // of a thread over its share: 1 where rows are held

  template <class T>
  static RowShape make(std::int64_t rows, std::int64_t length) {
    constexpr int kRun = 16 / static_cast<int>(sizeof(T)), kRuns = kThreadElements / kRun;
    RowShape s{rows, length, ceil_div(length, kRun), 1, 1};
    while (s.warps < kMostWarps && s.warps * 32 * kRuns < s.runs) s.warps *= 2;
    while (static_cast<std::int64_t>(s.warps) * 32 * kRuns * s.turns < s.runs) s.turns *= 2;
    return s;
  }
  bool held() const { return turns == 1; }
  int threads() const { return warps >= 8 ? 32 * warps : 256; }
  std::int64_t blocks() const { return ceil_div(rows, threads() / 32 / warps); }
};

struct Nothing {
  __device__ __forceinline__ void operator()(std::int64_t) const {}
};

// A run of what all rows share: a weight, a bias.
template <class T>
struct SharedRun {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T));
  Compute<T> value[kRun];

  __device__ __forceinline__ void load(const RowView<const T>& v, bool given, std::int64_t run,
                                       std::int64_t length, Compute<T> otherwise) {
    if (given && v.packs) {
      const auto p = load_pack<16, false>(v.data + v.elements.offset(run * kRun), 0);
#pragma unroll
      for (int e = 0; e < kRun; ++e) value[e] = element_of<T>(p, e);
    } else {
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        value[e] = given && run * kRun + e < length
                       ? widen(v.data[v.elements.offset(run * kRun + e)])
                       : otherwise;
    }
  }
};

// This thread's part of a row of kInputs operands.
template <class T, int kInputs, bool kHold>
struct Row {
  using C = Compute<T>;
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T)), kRuns = kThreadElements / kRun;

  // Rows that are held are short: 32-bit numbers will do.
  using Index = std::conditional_t<kHold, int, std::int64_t>;

  const RowShape& shape;
  const RowView<const T>* inputs;
  std::int64_t row, base[kInputs];
  std::int64_t first;  // run
  bool inside;
  C held[kHold ? kRuns : 1][kInputs][kRun];

  __device__ __forceinline__ Row(const RowShape& s, const RowView<const T>* in)
      : shape(s), inputs(in) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    row = static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32 / s.warps) + warp / s.warps;
    inside = row < s.rows;
    first = static_cast<std::int64_t>(warp & (s.warps - 1)) * (32 * kRuns * s.turns) + lane;
#pragma unroll
    for (int o = 0; o < kInputs; ++o) base[o] = inside ? in[o].rows.offset(row) : 0;
    if constexpr (kHold) {
      bool dense = true;
#pragma unroll
      for (int o = 0; o < kInputs; ++o) dense = dense && in[o].dense;
      if (dense) {  // all loads are under way before the first is used
        Pack<16> raw[kRuns][kInputs];
#pragma unroll
        for (int k = 0; k < kRuns; ++k)
#pragma unroll
          for (int o = 0; o < kInputs; ++o)
            if (inside && first + k * 32 < s.runs)
              raw[k][o] = load_pack<16, true>(
                  in[o].data + base[o] + in[o].elements.start + (first + k * 32) * kRun, 0);
#pragma unroll
        for (int k = 0; k < kRuns; ++k)
#pragma unroll
          for (int o = 0; o < kInputs; ++o)
#pragma unroll
            for (int e = 0; e < kRun; ++e) held[k][o][e] = element_of<T>(raw[k][o], e);
      } else {
#pragma unroll
        for (int k = 0; k < kRuns; ++k) load(first + k * 32, held[k]);
      }
    }
  }
  __device__ __forceinline__ bool leads() const {
    return inside && (threadIdx.x / 32 & (shape.warps - 1)) == 0 && threadIdx.x % 32 == 0;
  }

  __device__ __forceinline__ void load(std::int64_t run, C (&v)[kInputs][kRun]) const {
    if (!inside || run >= shape.runs) return;
    const std::int64_t i = run * kRun;
#pragma unroll
    for (int o = 0; o < kInputs; ++o) {
      const T* at = inputs[o].data + base[o];
      if (inputs[o].packs) {
        const auto p = load_pack<16, kHold>(at + inputs[o].elements.offset(i), 0);
#pragma unroll
        for (int e = 0; e < kRun; ++e) v[o][e] = element_of<T>(p, e);
      } else {
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          v[o][e] = i + e < shape.length ? widen(at[inputs[o].elements.offset(i + e)]) : C(0);
      }
    }
  }

  // f(element's operands, index, number in its run) joined over the row, in every thread of it. All
  // threads of the block must call. f may change what is held; before(run) is called ahead of the
  // run's elements.
  template <class J, class A, class F, class B = Nothing>
  __device__ __forceinline__ A join(A* shared, const F& f, const B& before = {}) {
    A sum = J::template nothing<A>(), digits[24];
#pragma unroll 1
    for (int turn = 0; turn < (kHold ? 1 : shape.turns); ++turn) {
      A runs[kRuns];
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const Index run = static_cast<Index>(first) + (static_cast<Index>(turn) * kRuns + k) * 32;
        const bool valid = inside && run < static_cast<Index>(shape.runs);
        if constexpr (!kHold) load(run, held[0]);
        C(&v)[kInputs][kRun] = held[kHold ? k : 0];
        A lifted[kRun];
        if (valid) before(run);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          C in[kInputs];
#pragma unroll
          for (int o = 0; o < kInputs; ++o) in[o] = v[o][e];
          const Index i = run * kRun + e;
          lifted[e] = valid && i < static_cast<Index>(shape.length) ? f(in, i, e)
                                                                    : J::template nothing<A>();
          if constexpr (kHold)
#pragma unroll
            for (int o = 0; o < kInputs; ++o) v[o][e] = in[o];
        }
        runs[k] = reduce_device::join_run<J>(lifted);
      }
      sum = reduce_device::join_warp<J, kRuns, A>(runs);
      if constexpr (!kHold) {
        int d = 0;
        for (; (turn >> d) & 1; ++d) sum = J::template of<A>(digits[d], sum);
        digits[d] = sum;
      }
    }
    return reduce_device::join_warps<J>(sum, shape.warps, shared);
  }

  // out = f(element's operands, index, number in its run)
  template <class F, class B = Nothing>
  __device__ __forceinline__ void map(const RowView<T>& out, const F& f, const B& before = {}) {
    const std::int64_t to = inside ? out.rows.offset(row) : 0;
#pragma unroll 1
    for (int turn = 0; turn < (kHold ? 1 : shape.turns); ++turn)
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const Index run = static_cast<Index>(first) + (static_cast<Index>(turn) * kRuns + k) * 32;
        if (!inside || run >= static_cast<Index>(shape.runs)) continue;
        if constexpr (!kHold) load(run, held[0]);
        const C(&v)[kInputs][kRun] = held[kHold ? k : 0];
        C result[kRun];
        before(run);
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          C in[kInputs];
#pragma unroll
          for (int o = 0; o < kInputs; ++o) in[o] = v[o][e];
          result[e] =
              run * kRun + e < static_cast<Index>(shape.length) ? f(in, run * kRun + e, e) : C(0);
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
};

}  // namespace planck::row_device
