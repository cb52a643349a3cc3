// Chunks of 512 along dense rows of f32, f16 and bf16 over vectors, bit for bit those of
// stats_loops.cpp: kLanes chunks at a time, so that one tree gives a lane to each of them. Include
// within foreach_target's passes, after planck/loops/cpu/steps-inl.h.
//
// f32 [8192, 8192], two threads, share of the ceiling: var 0.76, and 0.92 where the first time over
// the chunks prefetches half of those that follow, the second the rest; logsumexp 0.8, of which
// exp, nine multiplications per vector, is two thirds.
#if defined(PLANCK_REDUCE_STATS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_STATS_ROWS_INL_H_
#undef PLANCK_REDUCE_STATS_ROWS_INL_H_
#else
#define PLANCK_REDUCE_STATS_ROWS_INL_H_
#endif

#include "planck/loops/rows/cpu/range-inl.h"
#include "planck/loops/rows/cpu/tree-inl.h"
#include "planck/ops/reduce/cpu/stats_loops.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::stat_vectors {

namespace rm = reduce_math;
namespace vm = vector_math;
using dense::Vectors;
using vm::kLanes;
using vm::V;

constexpr int kElements = static_cast<int>(rm::kStatChunk);
constexpr float kNothing = -__builtin_inff();

// Several vectors at a time: x becomes (x - mean)^2, or e(x - center), kNear where no x lies
// further below than kTermNear.
struct Same {
  template <int kCount>
  HWY_INLINE void of(V (&)[kCount]) const {}
};
struct Square {
  V mean;
  template <int kCount>
  HWY_INLINE void of(V (&x)[kCount]) const {
    for (V& v : x) v = hn::Sub(v, mean), v = hn::Mul(v, v);
  }
};
template <bool kNear>
struct Term {
  V center;
  template <int kCount>
  HWY_INLINE void of(V (&x)[kCount]) const {
    for (V& v : x) v = hn::Sub(v, center);
    for (V& v : x) v = kNear ? vm::exp_term_near(v) : vm::exp_term(v);
  }
};

// Parts of the canonical sum of a whole chunk, one per lane; load(i) gives a vector from element i
// on.
template <class Map, class F>
HWY_INLINE V sum_of_chunk(const Map& map, const F& load) {
  constexpr int kGroups = kElements / (kLanes * kLanes);
  V sums[kGroups];
  for (int g = 0; g < kGroups; ++g) {
    V fours[kLanes / 4];
    for (int k = 0; k < kLanes / 4; ++k) {
      V x[4];
      for (int i = 0; i < 4; ++i) x[i] = load(((g * kLanes / 4 + k) * 4 + i) * kLanes);
      map.of(x);
      fours[k] = dense::sums_in_parts(x[0], x[1], x[2], x[3]);
    }
    sums[g] = dense::sums_of_parts(fours);
  }
  for (int n = kGroups; n > 1; n /= 2)
    for (int g = 0; g < n / 2; ++g) sums[g] = dense::pair_sums(sums[2 * g], sums[2 * g + 1]);
  return sums[0];
}

struct Lanes {
  alignas(64) float v[kLanes];
};
struct ChunkSums {
  alignas(64) float v[kLanes][kLanes];  // of each chunk, parts of its sum

  explicit ChunkSums(int count) {
    for (int b = count; b < kLanes; ++b) hn::Store(hn::Zero(vm::D()), vm::D(), v[b]);
  }
  HWY_INLINE V all() const {
    return dense::vector_sums<1>([&](int k)
                                     HWY_ATTR { return Vectors<1>{{hn::Load(vm::D(), v[k])}}; })
        .v[0];
  }
};

// Up to kLanes whole chunks. What comes after them is prefetched meanwhile.
template <class S>
struct Chunks {
  const typename S::T* row;
  int count;

  HWY_INLINE V load(int b, int i) const { return S::load(row + b * kElements + i); }
  // Vectors of one of kTurns turns, so that several passes share the prefetching.
  template <int kTurns>
  HWY_INLINE void ask(int turn, int b, int i) const {
    if (i / kLanes % kTurns == turn) __builtin_prefetch(row + (count + b) * kElements + i, 0, 2);
  }
};

template <class S>
void chunks_of(const Chunks<S>& x, rm::Spread<float>* out) {
  ChunkSums sums(x.count), squares(x.count);
  Lanes means, all;
  const auto load = [&](int turn, int b) {
    return [&x, turn, b](int i) HWY_ATTR {
      x.template ask<2>(turn, b, i);
      return x.load(b, i);
    };
  };
  for (int b = 0; b < x.count; ++b) hn::Store(sum_of_chunk(Same(), load(0, b)), vm::D(), sums.v[b]);
  hn::Store(hn::Div(sums.all(), vm::all(kElements)), vm::D(), means.v);
  for (int b = 0; b < x.count; ++b)
    hn::Store(sum_of_chunk(Square{vm::all(means.v[b])}, load(1, b)), vm::D(), squares.v[b]);
  hn::Store(squares.all(), vm::D(), all.v);
  for (int b = 0; b < x.count; ++b) out[b] = {kElements, means.v[b], all.v[b]};
}

template <class S>
void chunks_of(const Chunks<S>& x, rm::ExpSum<float>* out) {
  ChunkSums sums(x.count);
  Lanes all;
  float centers[kLanes];
  bool near[kLanes];
  for (int b = 0; b < x.count; ++b) {
    const dense::Range range = dense::range(S(), x.row + b * kElements, kElements, 0);
    out[b].largest = rm::value_of<float>(dense::largest_key(range, 0), 0);
    centers[b] = math::center_of_terms(out[b].largest);
    near[b] = rm::value_of<float>(range.least, 0) - centers[b] >= -vm::kTermNear;
  }
  for (int b = 0; b < x.count; ++b) {
    const V center = vm::all(centers[b]);
    const auto load = [&](int i) HWY_ATTR {
      x.template ask<1>(0, b, i);
      return x.load(b, i);
    };
    hn::Store(
        near[b] ? sum_of_chunk(Term<true>{center}, load) : sum_of_chunk(Term<false>{center}, load),
        vm::D(), sums.v[b]);
  }
  hn::Store(sums.all(), vm::D(), all.v);
  for (int b = 0; b < x.count; ++b) out[b].sum = out[b].largest == kNothing ? 0.0f : all.v[b];
}

// A shorter chunk.
template <class S>
rm::Spread<float> short_chunk(const void* row, int n, rm::Spread<float>*) {
  const auto count = static_cast<float>(n);
  const float mean =
      dense::sum(n, [&](const auto& at) HWY_ATTR { return at.load(S(), row); }) / count;
  return {count, mean, dense::sum(n, [&](const auto& at) HWY_ATTR {
            const V d = hn::Sub(at.load(S(), row), vm::all(mean));
            return hn::Mul(d, d);
          })};
}
template <class S>
rm::ExpSum<float> short_chunk(const void* row, int n, rm::ExpSum<float>*) {
  const dense::Range range = dense::range(S(), row, n, 0);
  const float largest = rm::value_of<float>(dense::largest_key(range, 0), 0);
  const float center = math::center_of_terms(largest);
  const float sum = dense::sum(n, [&](const auto& at) HWY_ATTR {
    return vm::exp_term(hn::Sub(at.load(S(), row), vm::all(center)));
  });
  return {largest, largest == kNothing ? 0.0f : sum};
}

template <class Stat>
Stat row(const Source& from, std::int64_t n) {
  return dense::with_storage(from.dtype, [&](auto storage) HWY_ATTR {
    using S = decltype(storage);
    const auto* x = static_cast<const typename S::T*>(from.data);
    rm::JoinCounter<JoinStats, Stat> all;
    Stat found[kLanes];
    for (std::int64_t i = 0; i < n;) {
      int count = static_cast<int>(std::min<std::int64_t>(kLanes, (n - i) / kElements));
      if (count > 0) chunks_of(Chunks<S>{x + i, count}, found);
      i += count * kElements;
      if (count < kLanes && i < n) {
        found[count++] = short_chunk<S>(x + i, static_cast<int>(n - i), found);
        i = n;
      }
      all.add(tree_of<JoinStats>(found, count, found));
    }
    return all.result();
  });
}

}  // namespace planck::HWY_NAMESPACE::stat_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
