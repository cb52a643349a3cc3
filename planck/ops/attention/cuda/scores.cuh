// What becomes of one query and key: products of both meanings, scores, slopes, what dropout keeps.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/random.cuh"
#include "planck/math/products/tensor_core.h"
#include "planck/ops/attention/attention.math.h"

namespace planck::attention_device {

namespace element = attention_math;
namespace rule = math::tensor_core;
using Index = std::int64_t;

struct Operand {
  void* data;
  Index stride[4];
};

struct Call {
  Operand q, k, v, mask, y, lse, dy, dq, dk, dv;
  Index batch, heads, groups, queries, keys;
  int width, out_width;
  double scale;
  Index window;
  bool causal, masked, boolean, alibi, drops;
  void* delta;  // of the compute type, [N, H, delta_rows]
  Index delta_rows;
  bool packs;       // of warpgroups: rows of results are whole chunks of 16 bytes
  double soft_cap;  // 0: none
  double dropout;
  RandomPlace random;
  Index first_query, first_key, all_queries, all_keys;  // of packed sequences; dropout counts these
};

template <class T>
__device__ const T* at_row(const Operand& x, Index n, Index head, Index row) {
  return static_cast<const T*>(x.data) + n * x.stride[0] + head * x.stride[1] + row * x.stride[2];
}

template <class T>
using FormatOf =
    std::conditional_t<std::is_same_v<T, bf16>, rule::Bf16,
                       std::conditional_t<std::is_same_v<T, f16>, rule::F16, rule::Tf32>>;

// Weights of 128 rows, in shared memory: as they are (chain), or as bits of the format.
template <class T, bool kChain>
using Weight = std::conditional_t<kChain, Compute<T>, typename FormatOf<T>::Bits>;

template <class T, bool kChain>
__device__ Weight<T, kChain> weight_of(Compute<T> p) {
  if constexpr (kChain)
    return p;
  else if constexpr (sizeof(T) == 2)
    return static_cast<std::uint16_t>(rounded_pair<T>(p, 0.0f));
  else
    return math::bits_of(p) & 0xffffe000u;
}

template <class T, bool kChain>
__device__ Compute<T> product(const T* a, Index a_step, const T* b, Index b_step, int n) {
  if constexpr (kChain) {
    Compute<T> c = 0;
    for (int i = 0; i < n; ++i) c = math::fma_of(widen(a[i * a_step]), widen(b[i * b_step]), c);
    return c;
  } else {
    using Bits = typename FormatOf<T>::Bits;
    return rule::product<FormatOf<T>>(reinterpret_cast<const Bits*>(a), a_step,
                                      reinterpret_cast<const Bits*>(b), b_step, n);
  }
}

// c + the sum of weights[i] * x[i], i < n <= 128; where a weight is 0 so is the other factor.
template <class T, bool kChain>
__device__ Compute<T> add_weighted(Compute<T> c, const Weight<T, kChain>* weights, const T* x,
                                   Index step, int n) {
  if constexpr (kChain) {
    for (int i = 0; i < n; ++i)
      if (weights[i] != 0) c = math::fma_of(weights[i], widen(x[i * step]), c);
  } else {
    using Format = FormatOf<T>;
    using Bits = typename Format::Bits;
    for (int first = 0; first < n; first += Format::kBlock) {
      Bits a[Format::kBlock], b[Format::kBlock];
      for (int i = 0; i < Format::kBlock; ++i) {
        a[i] = first + i < n ? weights[first + i] : Bits{0};
        const bool zero = static_cast<Bits>(a[i] << 1) == 0;
        b[i] = zero ? Bits{0} : reinterpret_cast<const Bits*>(x)[(first + i) * step];
      }
      c = rule::add_block<Format>(c, a, b);
    }
  }
  return c;
}

template <class T>
__device__ void store(const Operand& x, Index n, Index head, Index row, int column, Compute<T> v) {
  T* const to = const_cast<T*>(at_row<T>(x, n, head, row)) + column * x.stride[3];
  if constexpr (sizeof(T) == 2)
    *to = T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(v, 0.0f)));
  else
    *to = canonical_nan(v);
}

// Keys that query i sees, and queries that see key j: [first, end).
struct Range {
  Index first, end;
  __device__ bool has(Index x) const { return first <= x && x < end; }
};
__device__ inline Index clamped(Index x, Index most) { return x < 0 ? 0 : x > most ? most : x; }
__device__ inline Range keys_of(const Call& c, Index i) {
  if (!c.causal) return {0, c.keys};
  const Index end = clamped(i + c.keys - c.queries + 1, c.keys);
  return {c.window == 0 ? 0 : clamped(end - c.window, c.keys), end};
}
__device__ inline Range queries_of(const Call& c, Index j) {
  if (!c.causal) return {0, c.queries};
  const Index first = j - (c.keys - c.queries);
  return {clamped(first, c.queries),
          c.window == 0 ? c.queries : clamped(first + c.window, c.queries)};
}

// What scores are made of: a product, or with a cap its tanh.
template <class C>
__device__ C capped_of(const Call& c, C s) {
  if (c.soft_cap == 0) return s;
  return element::capped(s, static_cast<C>(c.scale), static_cast<C>(c.soft_cap));
}
template <class T, bool kChain>
__device__ Compute<T> query_and_key(const Call& c, Index n, Index head, Index i, Index j) {
  const Index group = head / (c.heads / c.groups);
  return product<T, kChain>(at_row<T>(c.q, n, head, i), c.q.stride[3], at_row<T>(c.k, n, group, j),
                            c.k.stride[3], c.width);
}
template <class T>
__device__ Compute<T> score_of(const Call& c, Compute<T> s, Index n, Index head, Index i, Index j) {
  using C = Compute<T>;
  const C scale = static_cast<C>(c.soft_cap == 0 ? c.scale : c.soft_cap);
  if (!c.masked && !c.alibi) return element::score(s, scale);
  C added = 0;
  if (c.masked) {
    const Index place = n * c.mask.stride[0] + head * c.mask.stride[1] + i * c.mask.stride[2] +
                        j * c.mask.stride[3];
    if (!c.boolean)
      added = C(widen(static_cast<const T*>(c.mask.data)[place]));
    else if (static_cast<const std::uint8_t*>(c.mask.data)[place] != 0)
      added = -math::infinity_of(C(0));
  }
  if (c.alibi)
    added += element::alibi(element::alibi_slope<C>(head, c.heads), i + c.keys - c.queries - j);
  return element::score(s, scale, added);
}
template <class T, bool kChain>
__device__ Compute<T> score(const Call& c, Index n, Index head, Index i, Index j) {
  return score_of<T>(c, capped_of(c, query_and_key<T, kChain>(c, n, head, i, j)), n, head, i, j);
}
template <class C>
__device__ bool keeps(const Call& c, Index n, Index head, Index i, Index j) {
  const Index row = (n * c.heads + head) * c.all_queries + c.first_query + i;
  const auto index = static_cast<std::uint64_t>(row * c.all_keys + c.first_key + j);
  return element::kept(c.random.stream(), index, static_cast<C>(1 - c.dropout));
}
template <class C>
__device__ C enlarged(const Call& c) {
  return static_cast<C>(1 / (1 - c.dropout));
}

// p, 0 where it is dropped, and ds of one query and key, of which s and dp are the products.
template <class C>
struct Slope {
  C p, ds;
};
template <class T>
__device__ Slope<Compute<T>> slope_of(const Call& c, Compute<T> s, Compute<T> dp, Compute<T> lse,
                                      Compute<T> delta, Index n, Index head, Index i, Index j) {
  using C = Compute<T>;
  const C before = capped_of(c, s);
  const C p = element::probability(score_of<T>(c, before, n, head, i, j), lse);
  const bool dropped = c.drops && !keeps<C>(c, n, head, i, j);
  if (c.drops) dp = dropped ? C(0) : dp * enlarged<C>(c);
  C ds = element::slope(p, dp, delta);
  if (c.soft_cap != 0) ds = element::slope_before_cap(ds, before);
  return {dropped ? C(0) : p, ds};
}

// A bit for each row that is done again: words of 16 rows, which begin anew with each head.
using RowBits = std::uint16_t;
struct ChosenRows {
  RowBits* bits;
  Index in_head;  // rows
  __host__ __device__ Index words() const { return (in_head + 15) / 16; }
  __device__ void set(Index head, int row, unsigned chosen) const {
    if (row < in_head) bits[head * words() + row / 16] = static_cast<RowBits>(chosen);
  }
};

// Rows of a kernel, all of them or those that are chosen. A warp calls f(row) for every `warps`-th
// row, or for the rows of so many words.
struct Rows {
  Index count;
  ChosenRows chosen;  // bits null: all
  template <class F>
  __device__ void each(Index warp, Index warps, F f) const {
    const bool all = chosen.bits == nullptr;
    const Index in_head = all ? 1 : chosen.words();
    const Index words = all ? count : count / chosen.in_head * in_head;
    for (Index first = warp; first < words; first += 32 * warps) {
      const Index own = first + static_cast<int>(threadIdx.x) % 32 * warps;
      const unsigned mine = own >= words ? 0 : all ? 1 : chosen.bits[own];
      for (unsigned found = __ballot_sync(0xffffffffu, mine != 0); found != 0; found &= found - 1) {
        const int lane = __ffs(static_cast<int>(found)) - 1;
        const Index word = first + lane * warps;
        const Index row = all ? word : word / in_head * chosen.in_head + word % in_head * 16;
        for (unsigned bits = __shfl_sync(0xffffffffu, mine, lane); bits != 0; bits &= bits - 1)
          f(row + __ffs(static_cast<int>(bits)) - 1);
      }
    }
  }
};

}  // namespace planck::attention_device
