// The kernels of map.cuh: what they know of their operands, how they load, compute and store.
//
// A function object Fn names the storage types of its inputs and output (None: no such input) and
// maps values of their compute types. Fn::pack maps a whole pack of them, Fn::words two packs of
// 16-bit floats as they lie in memory, where a function knows how.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/nest.h"
#include "planck/ops/elementwise/cuda/values.cuh"
#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck::elementwise_device {

inline constexpr int kThreads = 256, kOperands = kElementwiseOperands;

// Operands in the order of the op; the output follows the inputs. Offsets count elements.
struct Map {
  int rank, inputs;
  bool small;  // numbers of packs, or elements, and all offsets have 31 bits
  std::int64_t count, tail;
  std::int64_t extent[kMaxNestRank];
  Divisor divisor[kMaxNestRank];
  std::int64_t stride[kOperands][kMaxNestRank];
  bool constant[kOperands];  // along the innermost axis
  void* base[kOperands];

  template <int kUsed>
  __device__ __forceinline__ void locate(std::int64_t index, std::int64_t (&at)[kOperands]) const {
    if (small) {
      std::uint32_t i = static_cast<std::uint32_t>(index);
      locate_as<kUsed, std::int32_t>(
          i, at, [this](std::uint32_t v, int d) { return divisor[d].quotient(v); });
    } else {
      locate_as<kUsed, std::int64_t>(index, at,
                                     [this](std::int64_t v, int d) { return v / extent[d]; });
    }
  }

 private:
  // Offset: the type that offsets are added in.
  template <int kUsed, class Offset, class Index, class Quotient>
  __device__ __forceinline__ void locate_as(Index index, std::int64_t (&at)[kOperands],
                                            const Quotient& quotient) const {
    Offset sum[kUsed] = {};
    for (int d = rank - 1; d > 0; --d) {
      const Index rest = quotient(index, d);
      const Offset coordinate = static_cast<Offset>(index - rest * static_cast<Index>(extent[d]));
      index = rest;
#pragma unroll
      for (int k = 0; k < kUsed; ++k) sum[k] += coordinate * static_cast<Offset>(stride[k][d]);
    }
#pragma unroll
    for (int k = 0; k < kUsed; ++k)
      at[k] = sum[k] + static_cast<Offset>(index) * static_cast<Offset>(stride[k][0]);
  }
};

// The values of one thread for one input; nothing for None.
template <class T, int V>
struct Values {
  Value<T> v[V];
  __device__ __forceinline__ void load(const Map& m, int k, const std::int64_t (&at)[kOperands]) {
    load_values<T, V>(m.base[k], at[k], V > 1 && m.constant[k], v);
  }
  __device__ __forceinline__ void load(const void* base, std::int64_t at, bool constant = false) {
    load_values<T, V>(base, at, constant, v);
  }
};
template <int V>
struct Values<None, V> {
  None v[V];
  __device__ __forceinline__ void load(const Map&, int, const std::int64_t (&)[kOperands]) {}
  __device__ __forceinline__ void load(const void*, std::int64_t, bool = false) {}
};

template <class Fn>
inline constexpr int kInputs = (std::is_same_v<typename Fn::A, None> ? 0 : 1) +
                               (std::is_same_v<typename Fn::B, None> ? 0 : 1) +
                               (std::is_same_v<typename Fn::C, None> ? 0 : 1);

// A pack at once where the function knows how.
template <class Fn>
inline constexpr bool kHasPack = requires {
  Fn::kHasPack;
};
template <class Fn, int V, class A, class B, class C>
__device__ __forceinline__ void compute(const Fn& fn, const A& a, const B& b, const C& c,
                                        Value<typename Fn::Out> (&y)[V]) {
  if constexpr (V > 1 && kHasPack<Fn>) {
    fn.template pack<V>(a.v, b.v, y);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e) y[e] = fn(a.v[e], b.v[e], c.v[e]);
  }
}

// Two inputs of 16-bit floats as they lie in memory, where the function knows how.
template <class Fn>
inline constexpr bool kHasWords = requires {
  Fn::kHasWords;
};

// Loads everything before it computes anything: K packs of V elements, `step` apart.
template <class Fn, int V, int K>
__device__ __forceinline__ void map_some(const Map& m, const Fn& fn, std::int64_t first,
                                         std::int64_t step, std::int64_t count) {
  std::int64_t at[K][kOperands];
  Values<typename Fn::A, V> a[K];
  Values<typename Fn::B, V> b[K];
  Values<typename Fn::C, V> c[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * step >= count) continue;
    m.locate<kInputs<Fn> + 1>(first + k * step, at[k]);
    a[k].load(m, 0, at[k]);
    b[k].load(m, 1, at[k]);
    c[k].load(m, 2, at[k]);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * step >= count) return;
    Value<typename Fn::Out> y[V];
    compute<Fn, V>(fn, a[k], b[k], c[k], y);
    store_values<typename Fn::Out, V>(m.base[kInputs<Fn>], at[k][kInputs<Fn>], y);
  }
}

// The rest of a contiguous tensor, less than a pack, has a block of its own, the last.
template <class Fn, int V, int K>
__global__ void __launch_bounds__(kThreads)
    packs_kernel(const __grid_constant__ Map m, const __grid_constant__ Fn fn) {
  if (m.tail > 0 && blockIdx.x + 1 == gridDim.x) {
    if (threadIdx.x >= m.tail) return;
    const std::int64_t element = m.count * V + threadIdx.x;
    std::int64_t at[kOperands];
#pragma unroll
    for (int k = 0; k < kOperands; ++k) at[k] = k <= kInputs<Fn> && m.constant[k] ? 0 : element;
    Values<typename Fn::A, 1> a;
    Values<typename Fn::B, 1> b;
    Values<typename Fn::C, 1> c;
    a.load(m, 0, at);
    b.load(m, 1, at);
    c.load(m, 2, at);
    const Value<typename Fn::Out> y[1] = {fn(a.v[0], b.v[0], c.v[0])};
    store_values<typename Fn::Out, 1>(m.base[kInputs<Fn>], at[kInputs<Fn>], y);
    return;
  }
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * K) + threadIdx.x;
  map_some<Fn, V, K>(m, fn, first, kThreads, m.count);
}

// Contiguous operands of whole packs.
struct Flat {
  void* base[kOperands];
  std::uint32_t packs;
};
template <class Fn, int V, int K>
__global__ void __launch_bounds__(kThreads)
    flat_kernel(const __grid_constant__ Flat m, const __grid_constant__ Fn fn) {
  const std::uint32_t first = blockIdx.x * (kThreads * K) + threadIdx.x;
  Values<typename Fn::A, V> a[K];
  Values<typename Fn::B, V> b[K];
  Values<typename Fn::C, V> c[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * kThreads >= m.packs) continue;
    const std::int64_t at = static_cast<std::int64_t>(first + k * kThreads) * V;
    a[k].load(m.base[0], at);
    b[k].load(m.base[1], at);
    c[k].load(m.base[2], at);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * kThreads >= m.packs) return;
    Value<typename Fn::Out> y[V];
    compute<Fn, V>(fn, a[k], b[k], c[k], y);
    store_values<typename Fn::Out, V>(m.base[kInputs<Fn>],
                                      static_cast<std::int64_t>(first + k * kThreads) * V, y);
  }
}

template <class Fn, int V, int K>
requires kHasWords<Fn> __global__ void __launch_bounds__(kThreads)
    flat_words_kernel(const __grid_constant__ Flat m, const __grid_constant__ Fn fn) {
  constexpr int kBytes = V * static_cast<int>(sizeof(typename Fn::Out));
  const std::uint32_t first = blockIdx.x * (kThreads * K) + threadIdx.x;
  Pack<kBytes> a[K], b[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * kThreads >= m.packs) continue;
    a[k] = load_pack<kBytes, false>(m.base[0], first + k * kThreads);
    b[k] = load_pack<kBytes, false>(m.base[1], first + k * kThreads);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * kThreads >= m.packs) return;
    store_pack<false>(m.base[2], first + k * kThreads, fn.words(a[k], b[k]));
  }
}

// Rows of whole packs along which an operand is contiguous or one value.
struct Rows {
  void* base[kOperands];
  bool constant[kOperands];
  std::uint32_t stride[kOperands];  // elements from one row to the next
  std::uint32_t packs;
  Divisor row;  // packs of a row
};
template <class Fn, int V, int K>
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const __grid_constant__ Rows m, const __grid_constant__ Fn fn) {
  const std::uint32_t first = blockIdx.x * (kThreads * K) + threadIdx.x;
  Values<typename Fn::A, V> a[K];
  Values<typename Fn::B, V> b[K];
  Values<typename Fn::C, V> c[K];
  std::int64_t to[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const std::uint32_t pack = first + k * kThreads;
    if (pack >= m.packs) continue;
    const std::uint32_t row = m.row.quotient(pack), column = (pack - row * m.row.value) * V;
    const auto at = [&](int o) {
      return static_cast<std::int64_t>(std::uint64_t{row} * m.stride[o] +
                                       (m.constant[o] ? 0 : column));
    };
    a[k].load(m.base[0], at(0), m.constant[0]);
    b[k].load(m.base[1], at(1), m.constant[1]);
    c[k].load(m.base[2], at(2), m.constant[2]);
    to[k] = at(kInputs<Fn>);
  }
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (first + k * kThreads >= m.packs) return;
    Value<typename Fn::Out> y[V];
    compute<Fn, V>(fn, a[k], b[k], c[k], y);
    store_values<typename Fn::Out, V>(m.base[kInputs<Fn>], to[k], y);
  }
}

template <class Fn>
__global__ void __launch_bounds__(kThreads)
    strided_kernel(const __grid_constant__ Map m, const __grid_constant__ Fn fn) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * 2) + threadIdx.x;
  map_some<Fn, 1, 2>(m, fn, first, kThreads, m.count);
}

}  // namespace planck::elementwise_device
