// var and logsumexp on the device (reduce.math.h): what a warp knows of a chunk of 512 elements in
// its registers, as a node, and nodes joined in the pairwise order.
//
// A part of a group is one or several chunks that become one node.
#pragma once

#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/exponentials.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/ops/reduce/cuda/reduce_pass.h"
#include "planck/ops/reduce/host/finish.h"
#include "planck/ops/reduce/reduce.math.h"

namespace planck::reduce_device {

inline constexpr int kChunk = static_cast<int>(rm::kStatChunk);

template <class C, bool kVar>
using Node = std::conditional_t<kVar, rm::Spread<C>, rm::ExpSum<C>>;

// parameter: the mean, or the largest of n elements.
template <bool kVar, class C>
__device__ __forceinline__ Node<C, kVar> node_of(C parameter, C sum, int n) {
  if constexpr (kVar)
    return {static_cast<C>(n), parameter, sum};
  else
    return {parameter, sum};
}

// A node in the workspace: how many elements it stands for follows from its place.
template <class C>
struct alignas(2 * sizeof(C)) StoredNode {
  C parameter, sum;
};
template <class C>
__device__ __forceinline__ StoredNode<C> stored_node(const rm::Spread<C>& v) {
  return {v.mean, v.squares};
}
template <class C>
__device__ __forceinline__ StoredNode<C> stored_node(const rm::ExpSum<C>& v) {
  return {v.largest, v.sum};
}

// Where the node of a part of a group goes: to the result, or to the workspace, [group, part].
template <class T>
struct NodeSink {
  using C = Compute<T>;
  T* out;
  AxisMap out_map;
  rm::Finish<C> finish;
  StoredNode<C>* nodes;
  std::int64_t parts = 1;

  static NodeSink make(const ReducePass& pass) {
    NodeSink s;
    s.out = static_cast<T*>(pass.out);
    s.out_map = AxisMap::of(walk_of(pass.layout.kept, 1));
    s.finish = rm::make_finish<C>(pass.problem);
    s.nodes = static_cast<StoredNode<C>*>(pass.partials);
    return s;
  }

  template <class N>
  __device__ __forceinline__ void put(std::int64_t group, std::int64_t part, const N& node) const {
    const StoredNode<C> v = stored_node(node);
    if (parts > 1)
      nodes[group * parts + part] = v;
    else
      out[out_map.offset(group)] = stored<T>(finish.of_sum(v.sum, v.parameter));
  }
};

template <class C>
__device__ __forceinline__ rm::Spread<C> lane_after(const rm::Spread<C>& v, int lanes) {
  return {__shfl_down_sync(~0u, v.n, lanes), __shfl_down_sync(~0u, v.mean, lanes),
          __shfl_down_sync(~0u, v.squares, lanes)};
}
template <class C>
__device__ __forceinline__ rm::ExpSum<C> lane_after(const rm::ExpSum<C>& v, int lanes) {
  return {__shfl_down_sync(~0u, v.largest, lanes), __shfl_down_sync(~0u, v.sum, lanes)};
}

// The nodes of lanes 0 ... count - 1 joined, in lane 0.
template <class N>
__device__ __forceinline__ N join_nodes(N own, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int bit = 1; bit < count; bit *= 2) {
    const N next = lane_after(own, bit);
    if ((lane & (2 * bit - 1)) == 0 && lane + bit < count) own = rm::joined(own, next);
  }
  return own;
}
struct JoinNodes {
  template <class N>
  __device__ static N nothing() {
    return {};
  }
  template <class N>
  __device__ static N of(const N& a, const N& b) {
    return rm::joined(a, b);
  }
};

using row_device::larger;
__device__ __forceinline__ double larger(double a, double b) { return a > b || a != a ? a : b; }

struct Larger {
  template <class C>
  __device__ static C of(C a, C b) {
    return larger(a, b);
  }
};

// In the place of elements that are not there: -0, which adds nothing, or -Inf.
template <class T, bool kVar>
__device__ __forceinline__ Pack<16> filler() {
  const std::uint32_t high = std::is_same_v<T, float>    ? (kVar ? 0x80000000u : 0xff800000u)
                             : std::is_same_v<T, double> ? (kVar ? 0x80000000u : 0xfff00000u)
                             : std::is_same_v<T, bf16>   ? (kVar ? 0x80008000u : 0xff80ff80u)
                                                         : (kVar ? 0x80008000u : 0xfc00fc00u);
  const std::uint32_t low = sizeof(T) == 8 ? 0u : high;
  return {{low, high, low, high}};
}
template <class T>
__device__ __forceinline__ void set_element(Pack<16>& p, int e, T v) {
  if constexpr (std::is_same_v<T, float>) {
    p.word[e] = __float_as_uint(v);
  } else if constexpr (std::is_same_v<T, double>) {
    p.word[2 * e] = static_cast<std::uint32_t>(__double2loint(v));
    p.word[2 * e + 1] = static_cast<std::uint32_t>(__double2hiint(v));
  } else {
    p.word[e / 2] = __byte_perm(p.word[e / 2], v.bits, e % 2 ? 0x5410 : 0x3254);
  }
}

// A run: the elements of a pack.
template <class T>
inline constexpr int kRunOf = 16 / static_cast<int>(sizeof(T));
// Runs of a lane, k * 32 + lane, of a chunk of 512 elements.
template <class T>
inline constexpr int kChunkRuns = kChunk / 32 / kRunOf<T>;
template <class T>
using ChunkPacks = Pack<16>[kChunkRuns<T>];

// The largest and the least of f32, as Extremes finds them of 16-bit floats.
struct Ends {
  int risen = INT32_MIN;
  std::uint32_t fallen = 0;

  __device__ __forceinline__ void add(std::uint32_t a, std::uint32_t b) {
    risen = __vimax3_s32(risen, static_cast<int>(a), static_cast<int>(b));
    fallen = __vimax3_u32(fallen, a, b);
  }
  // Then the largest is that nearest to 0: the least number, without a sign.
  __device__ __forceinline__ bool all_negative() const { return risen < 0; }
  // A lower bound of all, or NaN where one with a sign is.
  __device__ __forceinline__ float least() const {
    return fallen > 0x80000000u ? __uint_as_float(fallen) : 0.0f;
  }
};

// The largest of a warp's 512 elements, and for each thread's packs a lower bound of all, or NaN.
template <class T>
__device__ __forceinline__ Compute<T> chunk_largest(const ChunkPacks<T>& p, Compute<T>& least) {
  if constexpr (sizeof(T) == 4) {
    Ends ends;
#pragma unroll
    for (int k = 0; k < kChunkRuns<T>; ++k) {
      ends.add(p[k].word[0], p[k].word[1]);
      ends.add(p[k].word[2], p[k].word[3]);
    }
    least = ends.least();
    const int risen = __reduce_max_sync(~0u, ends.risen);
    float largest = __int_as_float(risen);
    if (risen < 0) {
      std::uint32_t nearest = ~0u;
#pragma unroll
      for (int k = 0; k < kChunkRuns<T>; ++k) {
        nearest = __vimin3_u32(nearest, p[k].word[0], p[k].word[1]);
        nearest = __vimin3_u32(nearest, p[k].word[2], p[k].word[3]);
      }
      largest = __uint_as_float(__reduce_min_sync(~0u, nearest));
    }
    return __any_sync(~0u, least != least) ? math::nan_of(0.0f) : largest;
  } else if constexpr (sizeof(T) == 2) {
    row_device::Extremes<T> found;
#pragma unroll
    for (int k = 0; k < kChunkRuns<T>; ++k) found.add(p[k]);
    if (found.all_negative())
#pragma unroll
      for (int k = 0; k < kChunkRuns<T>; ++k) found.add_negative(p[k]);
    least = found.least();
    return rm::value_of<float>(__reduce_max_sync(~0u, rm::key_of(found.largest(), 0)), 0);
  } else {
    double high[1] = {element_of<T>(p[0], 0)};
#pragma unroll
    for (int i = 1; i < kChunkRuns<T> * kRunOf<T>; ++i)
      high[0] = larger(high[0], element_of<T>(p[i / kRunOf<T>], i % kRunOf<T>));
    return join_warp<Larger, 1, double>(high);
  }
}

// Whether elements that are at least so large are terms without a center, of the short form.
template <class C>
__device__ __forceinline__ bool is_near(C least, C largest) {
  return sizeof(C) == 4 && math::center_of_terms(largest) == C(0) && least >= -C(row_device::kNear);
}

// f(element, its index from the lane's first on) summed over the runs of a warp.
template <class T, class F>
__device__ __forceinline__ Compute<T> chunk_sum(const ChunkPacks<T>& p, const F& f) {
  using C = Compute<T>;
  C sums[kChunkRuns<T>];
#pragma unroll
  for (int k = 0; k < kChunkRuns<T>; ++k) {
    C v[kRunOf<T>];
#pragma unroll
    for (int e = 0; e < kRunOf<T>; ++e) v[e] = f(element_of<T>(p[k], e), k * 32 * kRunOf<T> + e);
    sums[k] = join_run<rm::Add>(v);
  }
  return join_warp<rm::Add, kChunkRuns<T>, C>(sums);
}

// The node of a warp's n elements, the rest of 512 being filler, in every lane.
template <class T, bool kVar>
__device__ __forceinline__ Node<Compute<T>, kVar> chunk_node(const ChunkPacks<T>& p, int n) {
  using C = Compute<T>;
  if constexpr (kVar) {
    const C mean = chunk_sum<T>(p, [](C x, int) { return x; }) / static_cast<C>(n);
    C squares;
    if (n == kChunk) {
      squares = chunk_sum<T>(p, [&](C x, int) { return rm::square(x, mean); });
    } else {
      const int left = n - static_cast<int>(threadIdx.x) % 32 * kRunOf<T>;
      squares = chunk_sum<T>(p, [&](C x, int i) { return i < left ? rm::square(x, mean) : C(0); });
    }
    return node_of<true>(mean, squares, n);
  } else {
    C least, sum;
    const C largest = chunk_largest<T>(p, least);
    if (__builtin_expect(__all_sync(~0u, is_near(least, largest)), true)) {
      sum = chunk_sum<T>(p, [](C x, int) { return row_device::term_near(x); });
    } else {
      const C center = math::center_of_terms(largest);
      sum = chunk_sum<T>(p, [&](C x, int) { return math::exp_term(x - center); });
    }
    return node_of<false>(largest, largest == -math::infinity_of(C(0)) ? C(0) : sum, n);
  }
}

}  // namespace planck::reduce_device
