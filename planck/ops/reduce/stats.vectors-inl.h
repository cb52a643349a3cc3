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

// exp(x - largest); near: no x is further away than kExpNear.
template <bool kNear>
HWY_INLINE V exponential(V x, V largest) {
  const V d = hn::Sub(x, largest);
  return kNear ? vm::exp_near(d) : vm::exp_below(d);
}
HWY_INLINE V square(V x, V mean) {
  const V d = hn::Sub(x, mean);
  return hn::Mul(d, d);
}

// ---- rows --------------------------------------------------------------------------------------

// The canonical sums of `count` whole blocks, a lane for each; value(b, i) gives a vector of block
// b from its element i on.
HWY_INLINE V sum_of_block(const auto& value) {
  constexpr int kGroups = kElements / (kLanes * kLanes);
  V sums[kGroups];
  for (int g = 0; g < kGroups; ++g)
    sums[g] = dense::vector_sums<1>([&](int k) HWY_ATTR {
                return Vectors<1>{{value((g * kLanes + k) * kLanes)}};
              }).v[0];
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
  HWY_INLINE void ask(int b, int i) const {
    if (sizeof(typename S::T) * static_cast<std::size_t>(i) % 64 == 0)
      __builtin_prefetch(row + (count + b) * kElements + i, 0, 2);
  }
};

template <class S>
void blocks_of(const Blocks<S>& x, rm::Spread<float>* out) {
  BlockSums sums(x.count), squares(x.count);
  Lanes means, all;
  for (int b = 0; b < x.count; ++b)
    hn::Store(sum_of_block([&](int i) HWY_ATTR { return x.load(b, i); }), vm::D(), sums.v[b]);
  hn::Store(hn::Div(sums.all(), vm::all(kElements)), vm::D(), means.v);
  for (int b = 0; b < x.count; ++b) {
    const V mean = vm::all(means.v[b]);
    hn::Store(sum_of_block([&](int i) HWY_ATTR {
                x.ask(b, i);
                return square(x.load(b, i), mean);
              }),
              vm::D(), squares.v[b]);
  }
  hn::Store(squares.all(), vm::D(), all.v);
  for (int b = 0; b < x.count; ++b) out[b] = {kElements, means.v[b], all.v[b]};
}

template <class S>
void blocks_of(const Blocks<S>& x, rm::ExpSum<float>* out) {
  BlockSums sums(x.count);
  Lanes all;
  bool near[kLanes];
  for (int b = 0; b < x.count; ++b) {
    const dense::Range range = dense::range(S(), x.row + b * kElements, kElements, 0);
    out[b].largest = rm::value_of<float>(dense::largest_key(range, 0), 0);
    near[b] = out[b].largest - rm::value_of<float>(range.least, 0) <= vm::kExpNear;
  }
  for (int b = 0; b < x.count; ++b) {
    const V largest = vm::all(out[b].largest);
    const auto sum = [&](auto is_near) HWY_ATTR {
      return sum_of_block([&](int i) HWY_ATTR {
        x.ask(b, i);
        return exponential<decltype(is_near)::value>(x.load(b, i), largest);
      });
    };
    hn::Store(near[b] ? sum(std::true_type()) : sum(std::false_type()), vm::D(), sums.v[b]);
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
            return square(at.load(S(), row), vm::all(mean));
          })};
}
template <class S>
rm::ExpSum<float> short_block(const void* row, int n, rm::ExpSum<float>*) {
  const dense::Range range = dense::range(S(), row, n, 0);
  const float largest = rm::value_of<float>(dense::largest_key(range, 0), 0);
  const float sum = dense::sum(n, [&](const auto& at) HWY_ATTR {
    return exponential<false>(at.load(S(), row), vm::all(largest));
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
    std::int64_t i = 0;
    while (i + kElements <= n) {
      const int count = static_cast<int>(std::min<std::int64_t>(kLanes, (n - i) / kElements));
      blocks_of(Blocks<S>{x + i, count}, found);
      for (int b = 0; b < count; ++b) all.add(found[b]);
      i += count * kElements;
    }
    if (i < n) all.add(short_block<S>(x + i, static_cast<int>(n - i), found));
    return all.result();
  });
}

// ---- columns -----------------------------------------------------------------------------------

constexpr int kWidth = 64, kEight = 8, kSoon = 16;
using Tile = float[kElements][kWidth];

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

// Calls f(c) for the vectors of columns.
template <class F>
HWY_INLINE void each_vector(int width, const F& f) {
  for (int c = 0; c < width; c += kLanes) f(c);
}

// Sums down rows that arrive in order: the digits of a binary counter.
class Counter {
 public:
  // kRows rows, 1 or 8; value(r, c) gives a vector of row r from column c on.
  template <int kRows, class F>
  HWY_INLINE void add(int width, const F& value) {
    each_vector(width, [&](int c) HWY_ATTR {
      V sum =
          dense::sum_of_rows<kRows>([&](int r) HWY_ATTR { return Vectors<1>{{value(r, c)}}; }).v[0];
      int k = kRows == 1 ? 0 : 3;
      for (; (rows_ >> k) & 1; ++k) sum = hn::Add(digits_[k].at(c), sum);
      digits_[k].put(sum, c);
    });
    rows_ += kRows;
  }
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

// Of a block of columns: the first time over its rows, and the second.
struct SpreadColumns {
  struct First {
    Counter sums;
    template <int kRows, class F>
    HWY_INLINE void take(int width, const F& value) {
      sums.add<kRows>(width, value);
    }
  };
  struct Second {
    Columns<float> means;
    Counter squares;

    Second() = default;
    Second(const First& first, int count, int width) {
      const V n = vm::all(static_cast<float>(count));
      each_vector(width, [&](int c) HWY_ATTR { means.put(hn::Div(first.sums.result(c), n), c); });
    }
    template <int kRows, class F>
    HWY_INLINE void take(int width, const F& value) {
      squares.add<kRows>(width,
                         [&](int r, int c) HWY_ATTR { return square(value(r, c), means.at(c)); });
    }
    void put(int count, int n, rm::Spread<float>* out) const {
      Columns<float> sums;
      each_vector(n, [&](int c) HWY_ATTR { sums.put(squares.result(c), c); });
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
    template <int kRows, class F>
    HWY_INLINE void take(int width, const F& value) {
      each_vector(width, [&](int c) HWY_ATTR {
        auto high = most.at(c), low = least.at(c);
        for (int r = 0; r < kRows; ++r) {
          const auto key = dense::ordered(value(r, c));
          high = hn::Max(high, key);
          low = hn::Min(low, key);
        }
        most.put(high, c);
        least.put(low, c);
      });
    }
  };
  struct Second {
    Columns<float> largest;
    Counter sums;
    bool near = true;

    Second() = default;
    Second(const First& first, int, int width) {
      for (int j = 0; j < width; ++j) {
        const dense::Range range{first.least.v[j], first.most.v[j]};
        largest.v[j] = rm::value_of<float>(dense::largest_key(range, 0), 0);
        near &= largest.v[j] - rm::value_of<float>(range.least, 0) <= vm::kExpNear;
      }
    }
    template <int kRows, class F>
    HWY_INLINE void take(int width, const F& value) {
      near ? add<true, kRows>(width, value) : add<false, kRows>(width, value);
    }
    void put(int, int n, rm::ExpSum<float>* out) const {
      Columns<float> all;
      each_vector(n, [&](int c) HWY_ATTR { all.put(sums.result(c), c); });
      for (int j = 0; j < n; ++j)
        out[j] = {largest.v[j], largest.v[j] == kNothing ? 0.0f : all.v[j]};
    }

   private:
    template <bool kNear, int kRows, class F>
    HWY_INLINE void add(int width, const F& value) {
      Columns<float> terms[kRows];
      each_vector(width, [&](int c) HWY_ATTR {
        for (int r = 0; r < kRows; ++r)
          terms[r].put(exponential<kNear>(value(r, c), largest.at(c)), c);
      });
      sums.add<kRows>(width, [&](int r, int c) HWY_ATTR { return terms[r].at(c); });
    }
  };
};
template <class Stat>
using ColumnsOf =
    std::conditional_t<std::is_same_v<Stat, rm::Spread<float>>, SpreadColumns, ExpColumns>;

// A vector of a row of m columns from column c on; what is missing is 0.
template <class S>
HWY_INLINE V load_some(const typename S::T* row, int c, int m) {
  if (HWY_LIKELY(m - c >= kLanes)) return S::load(row + c);
  return dense::Some{c, m - c}.load(S(), row);
}

template <class S, class Stat>
void columns_as(const void* const* rows, int count, int n, Stat* out) {
  using Of = ColumnsOf<Stat>;
  alignas(64) Tile tiles[2];
  typename Of::Second second;
  int before = 0;  // columns of the tile before
  for (int j = 0;; j += kWidth) {
    const int m = std::clamp(n - j, 0, kWidth);
    const int width = (m + kLanes - 1) / kLanes * kLanes;
    const int width_before = (before + kLanes - 1) / kLanes * kLanes;
    Tile &here = tiles[j / kWidth % 2], &last = tiles[1 - j / kWidth % 2];
    typename Of::First first;
    const auto take = [&](auto some, int r) HWY_ATTR {
      constexpr int kRows = decltype(some)::value;
      second.template take<kRows>(
          width_before, [&](int i, int c) HWY_ATTR { return hn::Load(vm::D(), last[r + i] + c); });
      first.template take<kRows>(width, [&](int i, int c) HWY_ATTR {
        const auto* row = static_cast<const typename S::T*>(rows[r + i]) + j;
        const int soon = r + i + kSoon;
        __builtin_prefetch(static_cast<const typename S::T*>(
                               rows[soon < count ? soon : std::min(soon - count, count - 1)]) +
                               (soon < count ? j : j + kWidth) + c,
                           0, 2);
        const V x = load_some<S>(row, c, m);
        hn::Store(x, vm::D(), here[r + i] + c);
        return x;
      });
    };
    int r = 0;
    for (; r + kEight <= count; r += kEight) take(std::integral_constant<int, kEight>(), r);
    for (; r < count; ++r) take(std::integral_constant<int, 1>(), r);
    if (before > 0) second.put(count, before, out + j - kWidth);
    if (m == 0) return;
    second = typename Of::Second(first, count, width);
    before = m;
  }
}

template <class Stat>
void columns(const void* const* rows, int count, Dtype dtype, std::int64_t, int n, Stat* out) {
  dense::with_storage(dtype,
                      [&](auto storage) { columns_as<decltype(storage)>(rows, count, n, out); });
}

}  // namespace planck::HWY_NAMESPACE::stat_vectors
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH
#endif  // per-target include guard
