// Blocks of dense f32, f16 and bf16 over vectors, bit for bit those of stats.loops.cpp. Include
// within foreach_target's passes, after planck/loops/steps-inl.h.
//
// Rows: kLanes blocks at a time, so that one tree gives a lane to each of them. Columns: a tile of
// kWidth columns is copied while it is read, because rows that lie a power of two apart would not
// stay in a cache; the second time over a tile alternates with the first over the next one, eight
// rows each, so that memory works while exponentials are computed.
#if defined(PLANCK_REDUCE_STATS_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_STATS_VECTORS_INL_H_
#undef PLANCK_REDUCE_STATS_VECTORS_INL_H_
#else
#define PLANCK_REDUCE_STATS_VECTORS_INL_H_
#endif

#include "planck/ops/reduce/range-inl.h"
#include "planck/ops/reduce/stats.loops.h"
#include "planck/ops/reduce/tree-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::stat_vectors {

namespace rm = reduce_math;
namespace vm = vector_math;
using dense::Vectors;
using vm::kLanes;
using vm::V;

constexpr int kElements = static_cast<int>(rm::kStatBlock);
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

// ---- rows --------------------------------------------------------------------------------------

// Parts of the canonical sum of a whole block, a lane for each; load(i) gives a vector from element
// i on.
template <class Map, class F>
HWY_INLINE V sum_of_block(const Map& map, const F& load) {
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
struct BlockSums {
  alignas(64) float v[kLanes][kLanes];  // of each block, parts of its sum

  explicit BlockSums(int count) {
    for (int b = count; b < kLanes; ++b) hn::Store(hn::Zero(vm::D()), vm::D(), v[b]);
  }
  HWY_INLINE V all() const {
    return dense::vector_sums<1>([&](int k)
                                     HWY_ATTR { return Vectors<1>{{hn::Load(vm::D(), v[k])}}; })
        .v[0];
  }
};

// Up to kLanes whole blocks. What comes after them is asked for meanwhile.
template <class S>
struct Blocks {
  const typename S::T* row;
  int count;

  HWY_INLINE V load(int b, int i) const { return S::load(row + b * kElements + i); }
  // Vectors of one of kTurns turns, so that several passes share the asking.
  template <int kTurns>
  HWY_INLINE void ask(int turn, int b, int i) const {
    if (i / kLanes % kTurns == turn) __builtin_prefetch(row + (count + b) * kElements + i, 0, 2);
  }
};

template <class S>
void blocks_of(const Blocks<S>& x, rm::Spread<float>* out) {
  BlockSums sums(x.count), squares(x.count);
  Lanes means, all;
  const auto load = [&](int turn, int b) {
    return [&x, turn, b](int i) HWY_ATTR {
      x.template ask<2>(turn, b, i);
      return x.load(b, i);
    };
  };
  for (int b = 0; b < x.count; ++b) hn::Store(sum_of_block(Same(), load(0, b)), vm::D(), sums.v[b]);
  hn::Store(hn::Div(sums.all(), vm::all(kElements)), vm::D(), means.v);
  for (int b = 0; b < x.count; ++b)
    hn::Store(sum_of_block(Square{vm::all(means.v[b])}, load(1, b)), vm::D(), squares.v[b]);
  hn::Store(squares.all(), vm::D(), all.v);
  for (int b = 0; b < x.count; ++b) out[b] = {kElements, means.v[b], all.v[b]};
}

template <class S>
void blocks_of(const Blocks<S>& x, rm::ExpSum<float>* out) {
  BlockSums sums(x.count);
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
        near[b] ? sum_of_block(Term<true>{center}, load) : sum_of_block(Term<false>{center}, load),
        vm::D(), sums.v[b]);
  }
  hn::Store(sums.all(), vm::D(), all.v);
  for (int b = 0; b < x.count; ++b) out[b].sum = out[b].largest == kNothing ? 0.0f : all.v[b];
}

// A shorter block.
template <class S>
rm::Spread<float> short_block(const void* row, int n, rm::Spread<float>*) {
  const auto count = static_cast<float>(n);
  const float mean =
      dense::sum(n, [&](const auto& at) HWY_ATTR { return at.load(S(), row); }) / count;
  return {count, mean, dense::sum(n, [&](const auto& at) HWY_ATTR {
            const V d = hn::Sub(at.load(S(), row), vm::all(mean));
            return hn::Mul(d, d);
          })};
}
template <class S>
rm::ExpSum<float> short_block(const void* row, int n, rm::ExpSum<float>*) {
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
      if (count > 0) blocks_of(Blocks<S>{x + i, count}, found);
      i += count * kElements;
      if (count < kLanes && i < n) {
        found[count++] = short_block<S>(x + i, static_cast<int>(n - i), found);
        i = n;
      }
      all.add(tree_of<JoinStats>(found, count, found));
    }
    return all.result();
  });
}

// ---- columns -----------------------------------------------------------------------------------

constexpr int kWidth = 256, kEight = 8, kSoon = 8, kAsked = 32;

// A number for each column of a tile.
template <class T>
struct Columns {
  alignas(64) T v[kWidth];
  HWY_INLINE auto at(int c) const { return hn::Load(hn::ScalableTag<T>(), v + c); }
  template <class Vec>
  HWY_INLINE void put(Vec x, int c) {
    hn::Store(x, hn::ScalableTag<T>(), v + c);
  }
};

// Sums down rows that arrive in order, 1 or 8 at a time: the digits of a binary counter.
class Counter {
 public:
  template <int kRows>
  HWY_INLINE void add(int c, const V (&x)[kRows]) {
    V sum = dense::sum_of_rows<kRows>([&](int r) HWY_ATTR { return Vectors<1>{{x[r]}}; }).v[0];
    int k = kRows == 1 ? 0 : 3;
    for (; (rows_ >> k) & 1; ++k) sum = hn::Add(digits_[k].at(c), sum);
    digits_[k].put(sum, c);
  }
  void next(int rows) { rows_ += rows; }
  HWY_INLINE V result(int c) const {
    int k = 0;
    while (((rows_ >> k) & 1) == 0) ++k;
    V sum = digits_[k].at(c);
    for (++k; (rows_ >> k) != 0; ++k)
      if ((rows_ >> k) & 1) sum = hn::Add(digits_[k].at(c), sum);
    return sum;
  }

 private:
  int rows_ = 0;
  Columns<float> digits_[10];
};

// The first time over the rows of a block of columns, and the second.
struct SpreadColumns {
  struct First {
    Counter sums;
    template <int kRows>
    HWY_INLINE void take(int c, V (&x)[kRows]) {
      sums.add(c, x);
    }
    void next(int rows) { sums.next(rows); }
  };
  struct Second {
    Columns<float> means;
    Counter squares;

    void start(const First& first, int count, int width) {
      const V n = vm::all(static_cast<float>(count));
      for (int c = 0; c < width; c += kLanes) means.put(hn::Div(first.sums.result(c), n), c);
      squares = Counter();
    }
    template <int kRows>
    HWY_INLINE void take(int c, V (&x)[kRows]) {
      Square{means.at(c)}.of(x);
      squares.add(c, x);
    }
    void next(int rows) { squares.next(rows); }
    void put(int count, int n, rm::Spread<float>* out) const {
      Columns<float> sums;
      for (int c = 0; c < n; c += kLanes) sums.put(squares.result(c), c);
      for (int j = 0; j < n; ++j) out[j] = {static_cast<float>(count), means.v[j], sums.v[j]};
    }
  };
};

struct ExpColumns {
  struct First {
    Columns<std::int32_t> most, least;

    First() {
      std::fill_n(most.v, kWidth, INT32_MIN);
      std::fill_n(least.v, kWidth, INT32_MAX);
    }
    template <int kRows>
    HWY_INLINE void take(int c, V (&x)[kRows]) {
      auto high = most.at(c), low = least.at(c);
      for (V v : x) {
        const auto key = dense::ordered(v);
        high = hn::Max(high, key);
        low = hn::Min(low, key);
      }
      most.put(high, c);
      least.put(low, c);
    }
    void next(int) {}
  };
  struct Second {
    Columns<float> largest, centers;
    Counter sums;
    bool near = true;

    void start(const First& first, int, int width) {
      near = true;
      for (int j = 0; j < width; ++j) {
        const dense::Range range{first.least.v[j], first.most.v[j]};
        largest.v[j] = rm::value_of<float>(dense::largest_key(range, 0), 0);
        centers.v[j] = math::center_of_terms(largest.v[j]);
        near &= rm::value_of<float>(range.least, 0) - centers.v[j] >= -vm::kTermNear;
      }
      sums = Counter();
    }
    template <int kRows>
    HWY_INLINE void take(int c, V (&x)[kRows]) {
      if (HWY_LIKELY(near))
        Term<true>{centers.at(c)}.of(x);
      else
        Term<false>{centers.at(c)}.of(x);
      sums.add(c, x);
    }
    void next(int rows) { sums.next(rows); }
    void put(int, int n, rm::ExpSum<float>* out) const {
      Columns<float> all;
      for (int c = 0; c < n; c += kLanes) all.put(sums.result(c), c);
      for (int j = 0; j < n; ++j)
        out[j] = {largest.v[j], largest.v[j] == kNothing ? 0.0f : all.v[j]};
    }
  };
};
template <class Stat>
using ColumnsOf =
    std::conditional_t<std::is_same_v<Stat, rm::Spread<float>>, SpreadColumns, ExpColumns>;

// Rows of a tile, kRows of them: the second time over what it holds, columns [0, before), and the
// first over what comes into its place, m columns of rows in memory. Vector by vector, so that one
// waits for memory while the other computes.
template <class S, int kRows, class First, class Second>
HWY_INLINE void take_rows(const typename S::T* const (&from)[kRows],
                          const typename S::T* const (&soon)[kRows], float (*tile)[kWidth],
                          int before, int m, First& first, Second& second) {
  const int whole = m / kLanes * kLanes, end = std::max(m, before);
  for (int c = 0; c < end; c += kLanes) {
    V x[kRows];
    if (c < before) {
      for (int i = 0; i < kRows; ++i) x[i] = hn::Load(vm::D(), tile[i] + c);
      second.take(c, x);
    }
    if (c >= m) continue;
    if (c < whole)
      for (int i = 0; i < kRows; ++i) x[i] = S::load(from[i] + c);
    else
      for (int i = 0; i < kRows; ++i) x[i] = dense::Some{c, m - c}.load(S(), from[i]);
    if (c % kAsked == 0)
      for (int i = 0; i < kRows; ++i) __builtin_prefetch(soon[i] + c, 0, 2);
    for (int i = 0; i < kRows; ++i) hn::Store(x[i], vm::D(), tile[i] + c);
    first.take(c, x);
  }
  second.next(kRows);
  first.next(kRows);
}

template <class S, class Stat>
void columns_as(const void* const* rows, int count, int n, Stat* out) {
  using Of = ColumnsOf<Stat>;
  using T = typename S::T;
  alignas(64) float tile[kElements][kWidth];
  typename Of::Second second;
  int before = 0;  // columns of the tile before
  for (int j = 0;; j += kWidth) {
    const int m = std::clamp(n - j, 0, kWidth);
    typename Of::First first;
    const auto take = [&](auto some, int r) HWY_ATTR {
      constexpr int kRows = decltype(some)::value;
      const T *from[kRows], *soon[kRows];
      for (int i = 0; i < kRows; ++i) {
        const int below = r + i + kSoon;  // or the first rows of the next tile
        from[i] = static_cast<const T*>(rows[r + i]) + j;
        soon[i] = static_cast<const T*>(rows[below < count ? below : below % count]) +
                  (below < count ? j : j + kWidth);
      }
      take_rows<S>(from, soon, tile + r, before, m, first, second);
    };
    int r = 0;
    for (; r + kEight <= count; r += kEight) take(std::integral_constant<int, kEight>(), r);
    for (; r < count; ++r) take(std::integral_constant<int, 1>(), r);
    if (before > 0) second.put(count, before, out + j - kWidth);
    if (m == 0) return;
    second.start(first, count, (m + kLanes - 1) / kLanes * kLanes);
    before = m;
  }
}

template <class Stat>
void columns(const void* const* rows, int count, Dtype dtype, int n, Stat* out) {
  dense::with_storage(dtype,
                      [&](auto storage) { columns_as<decltype(storage)>(rows, count, n, out); });
}

}  // namespace planck::HWY_NAMESPACE::stat_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
