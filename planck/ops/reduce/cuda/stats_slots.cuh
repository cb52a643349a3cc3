// Slots: columns of var and logsumexp as the threads of a warp see them, and what joins them.
#pragma once

#include "planck/ops/reduce/cuda/stats.cuh"

namespace planck::reduce_device {

inline constexpr int kStatRows = 16, kStatThreads = 256, kColumnWarps = kStatThreads / 32;
inline constexpr int kStatTurns = 16;

// x as [outer, length, inner]. A slot is a pack of columns of one part of a group, and 2^log2_lanes
// threads.
template <class T>
struct StatColumns {
  const T* in;
  AxisMap outer_map, reduced;
  std::int64_t outer, length, inner, packs;  // packs of a row
  int log2_lanes;
  int turns;  // chunks of 512 of a part, 2^k; 1 where a slot is less than a warp
  NodeSink<T> sink;
};

template <class T>
struct StatSlot {
  std::int64_t outer, part, pack;

  __device__ __forceinline__ StatSlot(const StatColumns<T>& a, int slot) {
    const std::int64_t number =
        (static_cast<std::int64_t>(blockIdx.x) * kStatThreads >> a.log2_lanes) + slot;
    const std::int64_t above = number / a.packs;
    pack = number - above * a.packs;
    outer = above / a.sink.parts;
    part = above - outer * a.sink.parts;
  }
  __device__ __forceinline__ std::int64_t first(const StatColumns<T>& a) const {  // row
    return part * a.turns * kChunk;
  }
  __device__ __forceinline__ int rest(const StatColumns<T>& a) const {  // rows of the part
    if (outer >= a.outer) return 0;
    return static_cast<int>(min(a.length - first(a), std::int64_t{a.turns} * kChunk));
  }
  __device__ __forceinline__ const T* base(const StatColumns<T>& a) const {  // of its columns
    return a.in + (rest(a) > 0 ? a.outer_map.offset(outer) + pack * kRunOf<T> : 0);
  }
  template <class N>
  __device__ __forceinline__ void put(const StatColumns<T>& a, int e, const N& node) const {
    const std::int64_t column = pack * kRunOf<T> + e;
    if (column < a.inner) a.sink.put(outer * a.inner + column, part, node);
  }
};

// The same number, of which the compiler knows nothing: what is seldom needed is computed again
// instead of kept.
__device__ __forceinline__ int again(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// Packs element by element.
template <class T>
__device__ __forceinline__ void take_larger(Pack<16>& a, const Pack<16>& b) {
  if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int e = 0; e < 2; ++e)
      set_element(a, e, larger(element_of<double>(a, e), element_of<double>(b, e)));
  } else {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (std::is_same_v<T, float>)
        asm("max.NaN.f32 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
      else if constexpr (std::is_same_v<T, bf16>)
        asm("max.NaN.bf16x2 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
      else
        asm("max.NaN.f16x2 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
    }
  }
}
template <class T>
__device__ __forceinline__ void take_smaller(Pack<16>& a, const Pack<16>& b) {
  if constexpr (sizeof(T) < 8)  // f64 needs none
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (std::is_same_v<T, float>)
        asm("min.f32 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
      else if constexpr (std::is_same_v<T, bf16>)
        asm("min.bf16x2 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
      else
        asm("min.f16x2 %0, %0, %1;" : "+r"(a.word[w]) : "r"(b.word[w]));
    }
}

// The largest of a thread's rows, row(k), and lower bounds of all, or NaN.
template <class T, int kRows>
__device__ __forceinline__ void largest_rows(const Pack<16> (&p)[kRows],
                                             Compute<T> (&largest)[kRunOf<T>], Pack<16>& least) {
  if constexpr (sizeof(T) == 4) {
    bool negative = false;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      Ends ends;
#pragma unroll
      for (int k = 0; k < kRows; k += 2) ends.add(p[k].word[e], p[k + 1].word[e]);
      negative = negative || ends.all_negative();
      largest[e] = __int_as_float(ends.risen);
      least.word[e] = __float_as_uint(ends.least());
    }
    if (negative)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        std::uint32_t nearest = ~0u;
#pragma unroll
        for (int k = 0; k < kRows; k += 2)
          nearest = __vimin3_u32(nearest, p[k].word[e], p[k + 1].word[e]);
        if (__float_as_int(largest[e]) < 0) largest[e] = __uint_as_float(nearest);
      }
#pragma unroll
    for (int e = 0; e < 4; ++e) largest[e] = larger(largest[e], element_of<T>(least, e));
  } else {
    Pack<16> most = p[0];
    least = most;
#pragma unroll
    for (int k = 1; k < kRows; ++k) {
      take_larger<T>(most, p[k]);
      take_smaller<T>(least, p[k]);
    }
#pragma unroll
    for (int e = 0; e < kRunOf<T>; ++e) largest[e] = element_of<T>(most, e);
  }
}

// f(kBegin) ... f(kBegin + kCount - 1) joined in the pairwise order; kCount: a power of two
template <class J, int kBegin, int kCount, class F>
__device__ __forceinline__ auto join_tree(const F& f) {
  if constexpr (kCount == 1) {
    return f(kBegin);
  } else {
    const auto left = join_tree<J, kBegin, kCount / 2>(f);
    return J::of(left, join_tree<J, kBegin + kCount / 2, kCount / 2>(f));
  }
}
// Joins the lanes of slots.
template <class J, int kCount, class C>
__device__ __forceinline__ void join_slots(C (&v)[kCount], int log2_lanes) {
#pragma unroll 1
  for (int bit = 1; bit < 1 << log2_lanes; bit *= 2)
#pragma unroll
    for (int e = 0; e < kCount; ++e) v[e] = J::of(v[e], across(v[e], bit));
}
// Joins the lanes of a warp: that of column lane % kCount.
template <class J, int kCount, class C>
__device__ __forceinline__ C join_columns(C (&v)[kCount]) {
  int bit = 1;
#pragma unroll
  for (int left = kCount / 2; left > 0; left /= 2, bit *= 2)
#pragma unroll
    for (int i = 0; i < left; ++i) v[i] = exchanged<J>(v[2 * i], v[2 * i + 1], bit);
#pragma unroll
  for (; bit < 32; bit *= 2) v[0] = J::of(v[0], across(v[0], bit));
  return v[0];
}

}  // namespace planck::reduce_device
