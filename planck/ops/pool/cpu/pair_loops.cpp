#include "planck/ops/pool/cpu/pair_loops.h"

#include "planck/loops/cpu/targets.h"
#include "planck/ops/pool/pool.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/pool/cpu/pair_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace pm = pool_math;

// One row of windows: its pixels above and below, the position of the first above.
template <class C>
struct Row {
  C *above, *below, *windows;
  std::int32_t* indices;
  std::int64_t n;
  std::int32_t first, width;
};

template <class V>
HWY_INLINE V canonical(V v) {
  const hn::DFromV<V> d;
  return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(d, math::nan_of(hn::TFromD<decltype(d)>{})));
}

// Each function does windows [i, n) in whole vectors of d, or one by one, and says how far it came.

struct Largest {
  template <class D>
  static HWY_INLINE std::int64_t vectors(D d, const Row<float>& r, std::int64_t i) {
    const hn::RebindToSigned<D> di;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto evens = hn::ShiftLeft<1>(hn::Iota(di, 0));
    const auto one = hn::Set(di, 1), width = hn::Set(di, r.width);
    for (; i + lanes <= r.n; i += lanes) {
      hn::Vec<D> best, next, below_even, below_odd;
      hn::LoadInterleaved2(d, r.above + 2 * i, best, next);
      hn::LoadInterleaved2(d, r.below + 2 * i, below_even, below_odd);
      const auto above = hn::Add(hn::Set(di, r.first + static_cast<std::int32_t>(2 * i)), evens);
      const auto below = hn::Add(above, width);
      auto at = above;
      const auto take = [&](hn::Vec<D> v, auto where) {
        const auto wins = hn::AndNot(hn::Le(v, best), hn::Eq(best, best));  // pool_math::wins
        best = hn::IfThenElse(wins, v, best);
        at = hn::IfThenElse(hn::RebindMask(di, wins), where, at);
      };
      take(next, hn::Add(above, one));
      take(below_even, below);
      take(below_odd, hn::Add(below, one));
      hn::StoreU(canonical(best), d, r.windows + i);
      hn::StoreU(at, di, r.indices + i);
    }
    return i;
  }
  template <class C>
  static HWY_INLINE void one(const Row<C>& r, std::int64_t i) {
    const C v[4] = {r.above[2 * i], r.above[2 * i + 1], r.below[2 * i], r.below[2 * i + 1]};
    const std::int32_t above = r.first + static_cast<std::int32_t>(2 * i), below = above + r.width;
    const std::int32_t where[4] = {above, above + 1, below, below + 1};
    C best = v[0];
    std::int32_t at = above;
    for (int k = 1; k < 4; ++k) {
      const bool wins = pm::wins(v[k], best);
      best = wins ? v[k] : best;
      at = wins ? where[k] : at;
    }
    r.windows[i] = math::canonical(best);
    r.indices[i] = at;
  }
};

struct LargestBackward {
  template <class D>
  static HWY_INLINE std::int64_t vectors(D d, const Row<float>& r, std::int64_t i) {
    const hn::RebindToSigned<D> di;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto evens = hn::ShiftLeft<1>(hn::Iota(di, 0));
    const auto one = hn::Set(di, 1), width = hn::Set(di, r.width);
    for (; i + lanes <= r.n; i += lanes) {
      const auto dy = canonical(hn::Add(hn::Zero(d), hn::LoadU(d, r.windows + i)));
      const auto at = hn::LoadU(di, r.indices + i);
      const auto above = hn::Add(hn::Set(di, r.first + static_cast<std::int32_t>(2 * i)), evens);
      const auto below = hn::Add(above, width);
      const auto where = [&](auto position) {
        return hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(at, position)), dy);
      };
      hn::StoreInterleaved2(where(above), where(hn::Add(above, one)), d, r.above + 2 * i);
      hn::StoreInterleaved2(where(below), where(hn::Add(below, one)), d, r.below + 2 * i);
    }
    return i;
  }
  template <class C>
  static HWY_INLINE void one(const Row<C>& r, std::int64_t i) {
    const std::int32_t above = r.first + static_cast<std::int32_t>(2 * i), below = above + r.width;
    const std::int32_t at = r.indices[i];
    const C dy = math::canonical(C(0) + r.windows[i]);
    r.above[2 * i] = at == above ? dy : C(0);
    r.above[2 * i + 1] = at == above + 1 ? dy : C(0);
    r.below[2 * i] = at == below ? dy : C(0);
    r.below[2 * i + 1] = at == below + 1 ? dy : C(0);
  }
};

// A quarter is exact, or the quotient correctly rounded.
struct Average {
  template <class D>
  static HWY_INLINE std::int64_t vectors(D d, const Row<float>& r, std::int64_t i) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto quarter = hn::Set(d, 0.25f);
    for (; i + lanes <= r.n; i += lanes) {
      hn::Vec<D> a, b, c, e;
      hn::LoadInterleaved2(d, r.above + 2 * i, a, b);
      hn::LoadInterleaved2(d, r.below + 2 * i, c, e);
      const auto sum = hn::Add(hn::Add(hn::Add(hn::Add(hn::Zero(d), a), b), c), e);
      hn::StoreU(canonical(hn::Mul(sum, quarter)), d, r.windows + i);
    }
    return i;
  }
  template <class C>
  static HWY_INLINE void one(const Row<C>& r, std::int64_t i) {
    const C sum = C(0) + r.above[2 * i] + r.above[2 * i + 1] + r.below[2 * i] + r.below[2 * i + 1];
    r.windows[i] = math::canonical(sum * C(0.25));
  }
};

struct AverageBackward {
  template <class D>
  static HWY_INLINE std::int64_t vectors(D d, const Row<float>& r, std::int64_t i) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
    const auto quarter = hn::Set(d, 0.25f);
    for (; i + lanes <= r.n; i += lanes) {
      const auto part = hn::Mul(hn::LoadU(d, r.windows + i), quarter);
      const auto dx = canonical(hn::Add(hn::Zero(d), part));
      hn::StoreInterleaved2(dx, dx, d, r.above + 2 * i);
      hn::StoreInterleaved2(dx, dx, d, r.below + 2 * i);
    }
    return i;
  }
  template <class C>
  static HWY_INLINE void one(const Row<C>& r, std::int64_t i) {
    const C dx = math::canonical(C(0) + r.windows[i] * C(0.25));
    r.above[2 * i] = r.above[2 * i + 1] = r.below[2 * i] = r.below[2 * i + 1] = dx;
  }
};

// Small images have rows of a few windows: narrower vectors for what is left of one.
template <class Loop, class C>
void over_rows(const PairRows<C>& p) {
  for (std::int64_t row = 0; row < p.rows; ++row) {
    C* above = p.image + 2 * row * p.image_row;
    const Row<C> r = {above,
                      above + p.image_row,
                      p.windows + row * p.windows_row,
                      p.indices == nullptr ? nullptr : p.indices + row * p.indices_row,
                      p.n,
                      static_cast<std::int32_t>(p.first + 2 * row * p.width),
                      static_cast<std::int32_t>(p.width)};
    std::int64_t i = 0;
    if constexpr (sizeof(C) == 4) {
      i = Loop::vectors(hn::ScalableTag<C>(), r, i);
      i = Loop::vectors(hn::CappedTag<C, 8>(), r, i);
      i = Loop::vectors(hn::CappedTag<C, 4>(), r, i);
    }
    for (; i < p.n; ++i) Loop::template one<C>(r, i);
  }
}

template <class C>
inline constexpr PairLoops<C> kPairLoops = {over_rows<Largest, C>, over_rows<LargestBackward, C>,
                                            over_rows<Average, C>, over_rows<AverageBackward, C>};

}  // namespace

const PairLoops<float>* pair_loops_f32() { return &kPairLoops<float>; }
const PairLoops<double>* pair_loops_f64() { return &kPairLoops<double>; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(pair_loops_f32);
HWY_EXPORT(pair_loops_f64);

template <>
const PairLoops<float>& pair_loops<float>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(pair_loops_f32)();
  return table;
}
template <>
const PairLoops<double>& pair_loops<double>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(pair_loops_f64)();
  return table;
}

}  // namespace planck
#endif
