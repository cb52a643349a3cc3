// Chunks of 512 in plain loops: of f64, and for instruction sets without fused multiply-add. Others
// are in stats_rows-inl.h and stats_columns-inl.h.
#include "planck/ops/reduce/cpu/stats_loops.h"

#include <algorithm>
#include <bit>

#include "planck/loops/cpu/targets.h"
#include "planck/math/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/reduce/cpu/stats_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/rows/cpu/lift-inl.h"
#include "planck/loops/rows/cpu/tree-inl.h"
#include "planck/ops/reduce/cpu/stats_columns-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace rm = reduce_math;

constexpr int kRows = static_cast<int>(rm::kStatChunk), kWidth = 64, kEight = 8;

template <class C>
C sum_of_exponentials(C largest, C sum) {
  return largest == -C(__builtin_inff()) ? C(0) : sum;
}

// ---- a chunk of a row: x, and an array that may hold x -----------------------------------------

template <class C>
void chunk(const C* x, int n, C* values, rm::Spread<C>& out) {
  alignas(64) C work[kRows / 2];
  const C mean = tree_of<rm::Add>(x, n, work) / static_cast<C>(n);
  for (int i = 0; i < n; ++i) values[i] = rm::square(x[i], mean);
  out = {static_cast<C>(n), mean, tree_of<rm::Add>(values, n, values)};
}
template <class C>
void chunk(const C* x, int n, C* values, rm::ExpSum<C>& out) {
  using K = rm::KeyOf<C>;
  alignas(64) K keys[kRows];
  for (int i = 0; i < n; ++i) keys[i] = rm::key_of(x[i], K(0));
  const C largest = rm::value_of<C>(tree_of<rm::Largest>(keys, n, keys), K(0));
  const C center = math::center_of_terms(largest);
  for (int i = 0; i < n; ++i) values[i] = math::exp_term(x[i] - center);
  out = {largest, sum_of_exponentials(largest, tree_of<rm::Add>(values, n, values))};
}

template <template <class> class S, class C>
S<C> row(const Source& from, std::int64_t n) {
  alignas(64) C values[kRows];
  rm::JoinCounter<JoinStats, S<C>> all;
  for (std::int64_t i = 0; i < n; i += kRows) {
    const int m = static_cast<int>(std::min<std::int64_t>(kRows, n - i));
    Source here = from;
    here.data = static_cast<const std::byte*>(from.data) +
                i * static_cast<std::int64_t>(storage_bytes(from.dtype));
    S<C> found;
    chunk(elements<C>(here, 0, m, values), m, values, found);
    all.add(found);
  }
  return all.result();
}

// ---- a chunk of each of kWidth columns ---------------------------------------------------------

template <class C>
using Tile = C[kRows][kWidth];

template <int kCount, class C>
HWY_INLINE C sum_down(const C (*rows)[kWidth], int j) {
  if constexpr (kCount == 1)
    return rows[0][j];
  else
    return sum_down<kCount / 2>(rows, j) + sum_down<kCount / 2>(rows + kCount / 2, j);
}

// The sums of columns, from sums of 2^k rows that arrive in order: digits of a binary counter.
template <class C>
class ColumnSums {
 public:
  template <int kCount>
  void add(const C (*rows)[kWidth]) {
    alignas(64) C sum[kWidth];
    for (int j = 0; j < kWidth; ++j) sum[j] = sum_down<kCount>(rows, j);
    int k = std::countr_zero(static_cast<unsigned>(kCount));
    for (; (count_ >> k) & 1; ++k)
      for (int j = 0; j < kWidth; ++j) sum[j] = digits_[k][j] + sum[j];
    std::copy_n(sum, kWidth, digits_[k]);
    count_ += kCount;
  }
  void result(C* out) const {
    bool any = false;
    for (int k = 0; (count_ >> k) != 0; ++k) {
      if (((count_ >> k) & 1) == 0) continue;
      for (int j = 0; j < kWidth; ++j) out[j] = any ? digits_[k][j] + out[j] : digits_[k][j];
      any = true;
    }
  }

 private:
  int count_ = 0;  // of rows
  alignas(64) C digits_[10][kWidth];
};

template <class C>
void sum_columns(const Tile<C>& x, int count, C* out) {
  ColumnSums<C> sums;
  int r = 0;
  for (; r + kEight <= count; r += kEight) sums.template add<kEight>(x + r);
  if (count & 4) sums.template add<4>(x + r), r += 4;
  if (count & 2) sums.template add<2>(x + r), r += 2;
  if (count & 1) sums.template add<1>(x + r);
  sums.result(out);
}

// Overwrites x.
template <class C>
void tile(Tile<C>& x, int count, int n, rm::Spread<C>* out) {
  alignas(64) C means[kWidth], squares[kWidth];
  sum_columns(x, count, means);
  for (int j = 0; j < kWidth; ++j) means[j] /= static_cast<C>(count);
  for (int r = 0; r < count; ++r)
    for (int j = 0; j < kWidth; ++j) x[r][j] = rm::square(x[r][j], means[j]);
  sum_columns(x, count, squares);
  for (int j = 0; j < n; ++j) out[j] = {static_cast<C>(count), means[j], squares[j]};
}
template <class C>
void tile(Tile<C>& x, int count, int n, rm::ExpSum<C>* out) {
  using K = rm::KeyOf<C>;
  alignas(64) K keys[kWidth];
  alignas(64) C largest[kWidth], centers[kWidth], sums[kWidth];
  std::fill_n(keys, kWidth, rm::kLeastKey<K>);
  for (int r = 0; r < count; ++r)
    for (int j = 0; j < kWidth; ++j) keys[j] = std::max(keys[j], rm::key_of(x[r][j], K(0)));
  for (int j = 0; j < kWidth; ++j) {
    largest[j] = rm::value_of<C>(keys[j], K(0));
    centers[j] = math::center_of_terms(largest[j]);
  }
  for (int r = 0; r < count; ++r)
    for (int j = 0; j < kWidth; ++j) x[r][j] = math::exp_term(x[r][j] - centers[j]);
  sum_columns(x, count, sums);
  for (int j = 0; j < n; ++j) out[j] = {largest[j], sum_of_exponentials(largest[j], sums[j])};
}

template <template <class> class S, class C>
void columns(const void* const* rows, int count, Dtype dtype, int n, S<C>* out) {
  alignas(64) Tile<C> x;
  for (int j = 0; j < n; j += kWidth) {
    const int m = std::min(kWidth, n - j);
    for (int r = 0; r < count; ++r) {
      const Source from{rows[r], dtype, 0};
      const C* here = elements<C>(from, j, m, x[r]);
      if (here != x[r]) std::copy_n(here, m, x[r]);
      std::fill(x[r] + m, x[r] + kWidth, C(0));
    }
    tile(x, count, m, out + j);
  }
}

template <class A>
void join(int n, const A* left, A* right) {
#pragma GCC ivdep
  for (int j = 0; j < n; ++j) right[j] = rm::joined(left[j], right[j]);
}

template <template <class> class S, class C>
inline constexpr StatLoops<S, C> kStats = {row<S, C>, columns<S, C>, join<S<C>>};
#if PLANCK_VECTOR_MATH
template <template <class> class S>
inline constexpr StatLoops<S, float> kStats<S, float> = {
    stat_vectors::row<S<float>>, stat_vectors::columns<S<float>>, join<S<float>>};
#endif

}  // namespace

#define PLANCK_STAT_TABLE(name, S, C) \
  const StatLoops<S, C>* name() { return &kStats<S, C>; }
PLANCK_STAT_TABLE(spread_f32, rm::Spread, float)
PLANCK_STAT_TABLE(spread_f64, rm::Spread, double)
PLANCK_STAT_TABLE(exp_sum_f32, rm::ExpSum, float)
PLANCK_STAT_TABLE(exp_sum_f64, rm::ExpSum, double)
#undef PLANCK_STAT_TABLE

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

#define PLANCK_STAT_TABLE(name, S, C)                         \
  HWY_EXPORT(name);                                           \
  template <>                                                 \
  const StatLoops<S, C>& stat_loops<S, C>() {                 \
    static const auto& table = *HWY_DYNAMIC_DISPATCH(name)(); \
    return table;                                             \
  }
PLANCK_STAT_TABLE(spread_f32, reduce_math::Spread, float)
PLANCK_STAT_TABLE(spread_f64, reduce_math::Spread, double)
PLANCK_STAT_TABLE(exp_sum_f32, reduce_math::ExpSum, float)
PLANCK_STAT_TABLE(exp_sum_f64, reduce_math::ExpSum, double)
#undef PLANCK_STAT_TABLE

}  // namespace planck
#endif
