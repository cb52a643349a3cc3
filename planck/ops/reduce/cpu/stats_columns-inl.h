// Chunks of 512 down dense columns of f32, f16 and bf16 over vectors, bit for bit those of
// stats_loops.cpp. Include within foreach_target's passes, after planck/loops/cpu/steps-inl.h.
//
// A tile of kWidth columns is copied while it is read, because rows that lie a power of two apart
// would not stay in a cache. It is worked on in place: the second time over eight of its rows, then
// the first over the eight of the next tile that take their place.
//
// f32 [8192, 8192], two threads, share of the ceiling:                    var  logsumexp
//   a panel of all rows, the second time from the third-level cache      0.51       0.43
//   tiles, one pass after the other                                      0.58       0.46
//   tiles of 64 columns                                                  0.47       0.46
//   in place, vector by vector                                           0.66       0.57
// Requests to memory and the copy's way through the second-level cache hold each other up.
#if defined(PLANCK_REDUCE_STATS_COLUMNS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_REDUCE_STATS_COLUMNS_INL_H_
#undef PLANCK_REDUCE_STATS_COLUMNS_INL_H_
#else
#define PLANCK_REDUCE_STATS_COLUMNS_INL_H_
#endif

#include "planck/ops/reduce/cpu/stats_rows-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::stat_vectors {

constexpr int kWidth = 256, kEight = 8;
constexpr int kSoon = 8;    // rows below that are prefetched
constexpr int kAsked = 32;  // columns per prefetch: processors fetch lines in pairs

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

// The first time over the rows of a chunk of each column, and the second.
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
