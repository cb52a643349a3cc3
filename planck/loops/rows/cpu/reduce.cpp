// A row becomes one value level by level, 1,024 elements at a time: neighbours are joined, then
// neighbours of these, in the first-level cache; the results of portions of 1,024 are then joined
// like the digits of a binary counter. The compiler makes two permutations and one addition per
// vector of it, far less than memory takes.
#include "planck/loops/rows/cpu/reduce.h"

#include <algorithm>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/rows/cpu/reduce.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/rows/cpu/lift-inl.h"
#include "planck/loops/rows/cpu/reduce-inl.h"
#include "planck/loops/rows/cpu/tree-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace rm = reduce_math;

template <class A, class F>
HWY_INLINE auto with_join(Join join, F&& f) {
  if constexpr (std::is_integral_v<A>)
    if (join == Join::largest) return f(rm::Largest{});
  return join == Join::multiply ? f(rm::Multiply{}) : f(rm::Add{});
}

// Elements lifted, in place where nothing is to be done.
template <Lift kLift, class C, class A>
HWY_INLINE const A* lifted(const Source& from, int i, int m, rm::KeyOf<C> flip, C mean, C* raw,
                           A* HWY_RESTRICT out) {
  const C* HWY_RESTRICT in = elements<C>(from, i, m, raw);
  if constexpr (kLift == Lift::plain) {
    return in;
  } else {
    for (int k = 0; k < m; ++k) {
      if constexpr (kLift == Lift::square) out[k] = rm::square(in[k], mean);
      if constexpr (kLift == Lift::key) out[k] = rm::key_of(in[k], flip);
      if constexpr (kLift == Lift::index_key) out[k] = rm::index_key_of(in[k], flip);
    }
    return out;
  }
}

template <class J, Lift kLift, class C, class A>
A row_of(const ReduceStep<C>& step, const Source& from, std::int64_t n, C mean) {
  alignas(64) C raw[kPortion];
  alignas(64) A out[kPortion], work[kPortion / 2 + 1];
  const auto portion = [&](std::int64_t i, int m) {
    Source here = from;
    here.data = static_cast<const std::byte*>(from.data) +
                i * static_cast<std::int64_t>(storage_bytes(from.dtype));
    const A* values = lifted<kLift, C, A>(here, 0, m, step.flip, mean, raw, out);
    if (m < kPortion) return tree_of<J>(values, m, work);
    return tree_of_portion<J>(values, work, kLift == Lift::plain ? from.ahead : 0);
  };
  if (n <= kPortion) return n == 0 ? J::template nothing<A>() : portion(0, static_cast<int>(n));
  rm::JoinCounter<J, A> sum;
  for (std::int64_t i = 0; i < n; i += kPortion)
    sum.add(portion(i, static_cast<int>(std::min<std::int64_t>(kPortion, n - i))));
  return sum.result();
}

template <class J, Lift kLift, class C, class A>
void columns_of(const ReduceStep<C>& step, const Source* rows, int count, int n,
                A* HWY_RESTRICT out) {
  alignas(64) C raw[kReduceRows][kReduceColumns];
  alignas(64) A buffer[kReduceRows][kReduceColumns];
  const A* r[kReduceRows];
  for (int i = 0; i < count; ++i)
    r[i] = lifted<kLift, C, A>(rows[i], 0, n, step.flip, C(0), raw[i], buffer[i]);
  if (count == kReduceRows) {
    const A *HWY_RESTRICT a = r[0], *HWY_RESTRICT b = r[1], *HWY_RESTRICT c = r[2],
                          *HWY_RESTRICT d = r[3], *HWY_RESTRICT e = r[4], *HWY_RESTRICT f = r[5],
                          *HWY_RESTRICT g = r[6], *HWY_RESTRICT h = r[7];
    for (int j0 = 0; j0 < n; j0 += kChunk) {
      if constexpr (kLift == Lift::plain)
        for (int i = 0; i < kReduceRows; ++i) prefetch_ahead(r[i] + j0, rows[0].ahead);
      const int end = std::min(n, j0 + kChunk);
      for (int j = j0; j < end; ++j)
        out[j] = J::template of<A>(
            J::template of<A>(J::template of<A>(a[j], b[j]), J::template of<A>(c[j], d[j])),
            J::template of<A>(J::template of<A>(e[j], f[j]), J::template of<A>(g[j], h[j])));
    }
    return;
  }
  for (int m = count; m > 1; m = (m + 1) / 2) {
    for (int i = 0; i < m / 2; ++i) {
      const A *left = r[2 * i], *right = r[2 * i + 1];
      A* to = buffer[i];  // element j is written after both that it is made of are read
#pragma GCC ivdep
      for (int j = 0; j < n; ++j) to[j] = J::template of<A>(left[j], right[j]);
      r[i] = to;
    }
    if (m % 2) r[m / 2] = r[m - 1];
  }
  std::copy_n(r[0], n, out);
}

template <class C, class A>
A row(const ReduceStep<C>& step, const Source& from, std::int64_t n, C mean) {
#if PLANCK_VECTOR_MATH
  if constexpr (std::is_same_v<C, float>)
    if (n > 0 && step.join != Join::multiply) return reduce_vectors::row<A>(step, from, n, mean);
#endif
  if constexpr (!std::is_same_v<A, C> || std::is_integral_v<C>)
    if (step.lift == Lift::key) return row_of<rm::Largest, Lift::key, C, A>(step, from, n, mean);
  if constexpr (std::is_same_v<A, C>) {
    if constexpr (std::is_floating_point_v<C>)
      if (step.lift == Lift::square)
        return row_of<rm::Add, Lift::square, C, A>(step, from, n, mean);
    return with_join<A>(step.join, [&](auto join) {
      return row_of<decltype(join), Lift::plain, C, A>(step, from, n, mean);
    });
  } else {
    return rm::Largest::nothing<A>();
  }
}

template <class C, class A>
void columns(const ReduceStep<C>& step, const Source* rows, int count, int n, A* out) {
#if PLANCK_VECTOR_MATH
  if constexpr (std::is_same_v<C, float>)
    if (count == kReduceRows && step.join != Join::multiply)
      return reduce_vectors::columns<A>(step, rows, n, out);
#endif
  if constexpr (!std::is_same_v<A, C> || std::is_integral_v<C>)
    if (step.lift == Lift::key)
      return columns_of<rm::Largest, Lift::key, C, A>(step, rows, count, n, out);
  if constexpr (std::is_same_v<A, C>)
    with_join<A>(step.join, [&](auto join) {
      columns_of<decltype(join), Lift::plain, C, A>(step, rows, count, n, out);
    });
}

template <class A>
void join_arrays(Join how, int n, const A* left, const A* right, A* out) {
  with_join<A>(how, [&](auto join) {
#pragma GCC ivdep
    for (int j = 0; j < n; ++j) out[j] = decltype(join)::template of<A>(left[j], right[j]);
  });
}

template <class A>
A tree(Join how, A* values, int n) {
  return with_join<A>(how, [&](auto join) { return tree_of<decltype(join)>(values, n, values); });
}

// ---- where the largest is ----------------------------------------------------------------------

template <class C>
typename FindLoops<C>::Found find_row(rm::KeyOf<C> flip, const Source& from, std::int64_t n,
                                      std::int64_t first, typename FindLoops<C>::Found best) {
  using K = rm::KeyOf<C>;
  alignas(64) C raw[kPortion];
  alignas(64) K keys[kPortion], work[kPortion / 2 + 1];
  for (std::int64_t i = 0; i < n; i += kPortion) {
    const int m = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
    Source here = from;
    here.data = static_cast<const std::byte*>(from.data) +
                i * static_cast<std::int64_t>(storage_bytes(from.dtype));
    lifted<Lift::index_key, C, K>(here, 0, m, flip, C(0), raw, keys);
    const K most = m < kPortion ? tree_of<rm::Largest>(keys, m, work)
                                : tree_of_portion<rm::Largest>(keys, work, 0);
    if (best.index >= 0 && most <= best.key) continue;
    best = {most, first + i + (std::find(keys, keys + m, most) - keys)};
  }
  return best;
}

template <class C>
void find_columns(rm::KeyOf<C> flip, const Source* rows, int count, int n, std::int64_t first,
                  rm::KeyOf<C>* HWY_RESTRICT keys, std::int64_t* HWY_RESTRICT indices) {
  using K = rm::KeyOf<C>;
#if PLANCK_VECTOR_MATH
  if constexpr (std::is_same_v<C, float>)
    if (count == kReduceRows)
      return reduce_vectors::find_columns(flip, rows, n, first, keys, indices);
#endif
  alignas(64) C raw[kReduceColumns];
  alignas(64) K here[kReduceColumns];
  for (int r = 0; r < count; ++r) {
    lifted<Lift::index_key, C, K>(rows[r], 0, n, flip, C(0), raw, here);
    for (int j = 0; j < n; ++j) {
      const bool better = here[j] > keys[j] || indices[j] < 0;
      keys[j] = better ? here[j] : keys[j];
      indices[j] = better ? first + r : indices[j];
    }
  }
}

template <class C, class A>
inline constexpr ReduceLoops<C, A> kLoops = {row<C, A>, columns<C, A>, join_arrays<A>, tree<A>};
template <class C>
inline constexpr FindLoops<C> kFind = {find_row<C>, find_columns<C>};

}  // namespace

#define PLANCK_EXTREMES_TABLE(name, C) \
  const ReduceLoops<C, rm::KeyOf<C>>* extremes_##name() { return &kLoops<C, rm::KeyOf<C>>; }
#define PLANCK_REDUCE_TABLE(name, C)                               \
  PLANCK_EXTREMES_TABLE(name, C)                                   \
  const ReduceLoops<C, C>* sums_##name() { return &kLoops<C, C>; } \
  const FindLoops<C>* find_##name() { return &kFind<C>; }
PLANCK_REDUCE_TABLE(f32, float)
PLANCK_REDUCE_TABLE(f64, double)
PLANCK_REDUCE_TABLE(i32, std::int32_t)
PLANCK_REDUCE_TABLE(i64, std::int64_t)
PLANCK_EXTREMES_TABLE(u8, std::uint8_t)
#undef PLANCK_REDUCE_TABLE
#undef PLANCK_EXTREMES_TABLE

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

#define PLANCK_EXTREMES_TABLE(name, C)                                   \
  HWY_EXPORT(extremes_##name);                                           \
  template <>                                                            \
  const ReduceLoops<C, reduce_math::KeyOf<C>>& reduce_extremes<C>() {    \
    static const auto& table = *HWY_DYNAMIC_DISPATCH(extremes_##name)(); \
    return table;                                                        \
  }
#define PLANCK_REDUCE_TABLE(name, C)                                 \
  PLANCK_EXTREMES_TABLE(name, C)                                     \
  HWY_EXPORT(sums_##name);                                           \
  HWY_EXPORT(find_##name);                                           \
  template <>                                                        \
  const ReduceLoops<C, C>& reduce_sums<C>() {                        \
    static const auto& table = *HWY_DYNAMIC_DISPATCH(sums_##name)(); \
    return table;                                                    \
  }                                                                  \
  template <>                                                        \
  const FindLoops<C>& find_loops<C>() {                              \
    static const auto& table = *HWY_DYNAMIC_DISPATCH(find_##name)(); \
    return table;                                                    \
  }
PLANCK_REDUCE_TABLE(f32, float)
PLANCK_REDUCE_TABLE(f64, double)
PLANCK_REDUCE_TABLE(i32, std::int32_t)
PLANCK_REDUCE_TABLE(i64, std::int64_t)
PLANCK_EXTREMES_TABLE(u8, std::uint8_t)
#undef PLANCK_REDUCE_TABLE
#undef PLANCK_EXTREMES_TABLE

}  // namespace planck
#endif
