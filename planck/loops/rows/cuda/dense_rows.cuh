// Dense rows, held on the device: whole runs of 16 bytes, of which a thread has 8 (16-bit: 4, wide
// rows 8), and no element is looked at alone. A row is one warp's or a block's.
//
// Of what a copy of the same bytes reaches on an H200, at 2^26 elements in rows of 1,024 and 8,192:
//                                          softmax                   layer_norm
//                                          f32         bf16          f32         bf16
//   16 elements per thread, each compared  0.72  0.67  0.41  0.38    0.71  0.67
//   whole runs, 16 elements per thread     0.81  0.98  0.51  0.71    0.80  0.96
//   32 elements per thread, a row per
//   block                                  1.04  1.04  0.96  0.89    0.96  0.96  0.97  0.91
//   less before the first load, fewer
//   registers, wide rows; extremes and
//   NaN found by integers                  1.05  1.04  0.96  0.97    1.00  1.01  1.00  0.98
#pragma once

#include "planck/loops/rows/cuda/exponentials.cuh"
#include "planck/loops/rows/cuda/row_operands.cuh"

namespace planck::row_device {

// The join of a warp's runs k * 32 + lane, in every lane.
template <class J, int kRuns, class A>
__device__ __forceinline__ A join_lanes(const A (&v)[kRuns]) {
  if constexpr (kRuns == 8) {  // each step hands half of a lane's values to its partner
    A half[4], quarter[2];
#pragma unroll
    for (int k = 0; k < 4; ++k) half[k] = reduce_device::exchanged<J>(v[2 * k], v[2 * k + 1], 1);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      quarter[k] = reduce_device::exchanged<J>(half[2 * k], half[2 * k + 1], 2);
    A a = reduce_device::exchanged<J>(quarter[0], quarter[1], 4);
#pragma unroll
    for (int bit : {8, 16, 1, 2, 4}) a = J::template of<A>(a, across(a, bit));
    return a;
  } else {
    return reduce_device::join_warp<J, kRuns, A>(v);
  }
}

// A run as it is stored. kNan: it may have NaN; arithmetic makes one, 7fffffff or 7fff, above the
// canonical one, and that above infinity.
template <class T, bool kNan, int kRun>
__device__ __forceinline__ Pack<16> pack_of(const Compute<T> (&v)[kRun]) {
  if constexpr (sizeof(T) == 8) {
    return packed<T, 16>(v);
  } else {
    Pack<16> p;
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(T) == 4) {
        const int word = __float_as_int(v[w]);
        p.word[w] = static_cast<std::uint32_t>(kNan ? min(word, 0x7fc00000) : word);
      } else {
        const std::uint32_t word = rounded_pair<T, false>(v[2 * w], v[2 * w + 1]);
        p.word[w] =
            kNan ? __vmins2(word, std::is_same_v<T, f16> ? 0x7e007e00u : 0x7fc07fc0u) : word;
      }
    }
    return p;
  }
}

// This thread's part of a row of kInputs operands.
template <class T, int kInputs, RowWay kWay>
struct DenseRow {
  using C = Compute<T>;
  using K = rm::KeyOf<C>;
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T));
  static constexpr int kRuns = kThreadElements<T, kInputs, kWay> / kRun;
  static constexpr bool kHeld = true;

  std::int64_t row;
  int warps, base, first, runs;  // runs: the warp's and the lane's first; all of the row, if any
  bool inside;
  Pack<16> raw[kRuns][kInputs];

  template <class V>
  __device__ __forceinline__ DenseRow(const RowShape& s, const V* in)
      : warps(kWay == RowWay::brief ? 1 : s.warps) {
    // From one lane: the compiler is to know that all have the same.
    const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
    row = warps == 1 ? static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp
                     : static_cast<std::int64_t>(blockIdx.x);
    inside = row < s.rows;
    base = warps == 1 ? 0 : warp * 32 * kRuns;
    first = base + static_cast<int>(threadIdx.x) % 32;
    runs = inside ? static_cast<int>(s.runs) : 0;
    const bool whole = first + (kRuns - 1) * 32 < runs;  // loads wait for no other condition
#pragma unroll
    for (int o = 0; o < kInputs; ++o) {
      const auto* from = reinterpret_cast<const uint4*>(in[o].row(inside ? row : 0)) + first;
      if (whole) {
#pragma unroll
        for (int k = 0; k < kRuns; ++k) raw[k][o] = load_pack<16, true>(from + k * 32, 0);
      } else {
#pragma unroll
        for (int k = 0; k < kRuns; ++k) {
          raw[k][o] = {};
          if (valid(k)) raw[k][o] = load_pack<16, true>(from + k * 32, 0);
        }
      }
    }
  }
  __device__ __forceinline__ bool valid(int k) const { return first + k * 32 < runs; }
  __device__ __forceinline__ bool leads() const {
    return inside && (warps == 1 ? threadIdx.x % 32 : threadIdx.x) == 0;
  }
  __device__ __forceinline__ C at(int k, int e) const { return element_of<T>(raw[k][0], e); }

  // The largest element, in every thread of the row. near: this warp's lie within kNear of it.
  __device__ __forceinline__ C largest(K* shared, bool& near) const {
    C most = -math::infinity_of(C(0)), least = math::infinity_of(C(0));
    K key;
    if constexpr (sizeof(T) == 8) {
      key = rm::kLeastKey<K>;
#pragma unroll
      for (int k = 0; k < kRuns; ++k)
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          if (valid(k)) key = max(key, rm::key_of(at(k, e), K(0)));
      const K keys[1] = {key};
      key = reduce_device::join_warp<rm::Largest, 1, K>(keys);
    } else {
      if constexpr (sizeof(T) == 4) {
        float high[4], low[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) high[e] = low[e] = at(0, e);
#pragma unroll
        for (int k = 1; k < kRuns; ++k)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if (valid(k)) {
              high[e] = larger(high[e], at(k, e));
              low[e] = fminf(low[e], at(k, e));
            }
        if (valid(0)) {
          most = larger(larger(high[0], high[1]), larger(high[2], high[3]));
          least = fminf(fminf(low[0], low[1]), fminf(low[2], low[3]));
        }
      } else {
        Extremes<T> found;
#pragma unroll
        for (int k = 0; k < kRuns; ++k)
          if (valid(k)) found.add(raw[k][0]);
        if (found.all_negative()) {
#pragma unroll
          for (int k = 0; k < kRuns; ++k)
            if (valid(k)) found.add_negative(raw[k][0]);
        }
        if (valid(0)) {
          most = found.largest();
          least = found.least();
        }
      }
      key = __reduce_max_sync(~0u, rm::key_of(most, K(0)));
    }
    if (warps > 1) {
      const int warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x % 32 == 0) shared[warp] = key;
      __syncthreads();
      key = shared[threadIdx.x & (warps - 1)];
      if constexpr (sizeof(T) == 8) {
        for (int bit = 1; bit < warps; bit *= 2) key = max(key, across(key, bit));
      } else {
        key = __reduce_max_sync(~0u, key);
      }
    }
    const C all = rm::value_of<C>(key, K(0));
    near = sizeof(T) < 8 && __all_sync(~0u, least - all >= -C(kNear));
    return all;
  }

  // Whether f(element's operands) is within kNear of 0 for all of this warp.
  template <class F>
  __device__ __forceinline__ bool all_near(const F& f) const {
    bool near = sizeof(T) < 8;
    if constexpr (sizeof(T) < 8) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        bool run = true;
#pragma unroll
        for (int e = 0; e < kRun; ++e) {
          C in[kInputs];
          take(k, e, in);
          run = run && fabsf(f(in)) <= kNear;
        }
        near = near && (run || !valid(k));
      }
    }
    return __all_sync(~0u, near);
  }

  // f(element's operands, index, run, number in it) summed over this warp's elements.
  template <class F, class B = Nothing>
  __device__ __forceinline__ C part(const F& f, const B& before = {}) const {
    if (base >= runs) return C(-0.0);
    C sums[kRuns];
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      if (valid(k)) before(first + k * 32);
      C v[kRun];
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        C in[kInputs];
        take(k, e, in);
        v[e] = f(in, (first + k * 32) * kRun + e, k, e);
      }
      const C sum = reduce_device::join_run<rm::Add>(v);
      sums[k] = valid(k) ? sum : C(-0.0);
    }
    return join_lanes<rm::Add, kRuns, C>(sums);
  }
  // The sum of all warps' parts, in every thread of the row. shared: used for nothing else.
  __device__ __forceinline__ C joined(C part, C* shared) const {
    if (warps == 1) return part;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = part;
    __syncthreads();
    C all = shared[threadIdx.x & (warps - 1)];
#pragma unroll 1
    for (int bit = 1; bit < warps; bit *= 2) all += across(all, bit);
    return all;
  }
  template <class F, class B = Nothing>
  __device__ __forceinline__ C sum(C* shared, const F& f, const B& before = {}) const {
    return joined(part(f, before), shared);
  }

  // out = f(element's operands, index, run, number in it). kNan: it may be NaN.
  template <bool kNan = true, class V, class F, class B = Nothing>
  __device__ __forceinline__ void map(const V& out, const F& f, const B& before = {}) const {
    auto* to = reinterpret_cast<uint4*>(out.row(inside ? row : 0)) + first;
#pragma unroll
    for (int k = 0; k < kRuns; ++k) {
      if (!valid(k)) continue;
      before(first + k * 32);
      C v[kRun];
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        C in[kInputs];
        take(k, e, in);
        v[e] = f(in, (first + k * 32) * kRun + e, k, e);
      }
      store_pack<true>(to + k * 32, 0, pack_of<T, kNan>(v));
    }
  }

 private:
  __device__ __forceinline__ void take(int k, int e, C (&in)[kInputs]) const {
#pragma unroll
    for (int o = 0; o < kInputs; ++o) in[o] = element_of<T>(raw[k][o], e);
  }
};

}  // namespace planck::row_device
