// Gradients of learned scales and zero points in f32 arithmetic: dx and both terms of a vector of
// elements, summed in registers along the canonical tree. Groups with ordinary zero points.
//
// Along memory, a square of as many vectors as a vector has lanes becomes one vector of sums; these
// wait in an array and are halved until each run has one sum. Columns add eight rows in registers
// before they store anything.
#include "planck/loops/cpu/targets.h"
#include "planck/ops/quantize/cpu/portions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/cpu/learn_loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/loops/rows/cpu/dense-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

#if PLANCK_VECTOR_MATH
namespace {

using dense::D;
using dense::kLanes;
using dense::V;

struct Group {
  V by, minus_scale, lo, hi;  // by: the scale, or 1 / s where positions are products
};
struct Terms {
  V dx, scale, zero_point;
};

// quantize.math.h, a vector at a time.
template <bool kReciprocal>
HWY_INLINE Terms terms_of(const Group& g, V x, V dy) {
  const V v = kReciprocal ? hn::Mul(x, g.by) : hn::Div(x, g.by);
  const V t = hn::Round(v);
  const auto inside = hn::And(hn::Ge(t, g.lo), hn::Le(t, g.hi));  // NaN is not
  const V whole = hn::IfThenElseZero(hn::Eq(v, v), t);
  const V end = hn::Min(hn::Max(whole, g.lo), g.hi);
  return {hn::IfThenElseZero(inside, dense::vm::canonical(dy)),
          hn::Mul(dy, hn::IfThenElse(inside, hn::Sub(t, v), end)),
          hn::IfThenZeroElse(inside, hn::Mul(dy, g.minus_scale))};
}

HWY_INLINE bool past_caches(const Sink& to) {
  return to.stream && reinterpret_cast<std::uintptr_t>(to.data) % 64 == 0 && to.row % 64 == 0;
}

// Elements of one dtype in rows.
template <class S>
struct Elements {
  using T = typename S::T;
  const T *dy, *x;
  T* dx;
  std::int64_t dy_row, x_row, dx_row;  // in elements
  std::int64_t dy_ahead, x_ahead;      // in bytes
  bool stream;

  Elements(const Source& gradient, const Source& from, const Sink& to)
      : dy(static_cast<const T*>(gradient.data)),
        x(static_cast<const T*>(from.data)),
        dx(static_cast<T*>(to.data)),
        dy_row(gradient.row / static_cast<std::int64_t>(sizeof(T))),
        x_row(from.row / static_cast<std::int64_t>(sizeof(T))),
        dx_row(to.row / static_cast<std::int64_t>(sizeof(T))),
        dy_ahead(gradient.ahead),
        x_ahead(from.ahead),
        stream(past_caches(to)) {}

  // Stores dx of the vector at i of row r and returns its terms.
  template <bool kReciprocal>
  HWY_INLINE Terms at(const Group& g, int r, std::int64_t i) const {
    const T *from = x + r * x_row + i, *gradient = dy + r * dy_row + i;
    __builtin_prefetch(reinterpret_cast<const char*>(from) + x_ahead, 0, 2);
    __builtin_prefetch(reinterpret_cast<const char*>(gradient) + dy_ahead, 0, 2);
    const Terms t = terms_of<kReciprocal>(g, S::load(from), S::load(gradient));
    T* to = dx + r * dx_row + i;
    stream ? S::stream(t.dx, to) : S::store(t.dx, to);
    return t;
  }
};

// Calls f(storage, whether positions are products) with both as constants.
template <class F>
HWY_INLINE void with_kind(const PortionGroups<float>& g, Dtype t, F f) {
  dense::with_storage(t, [&](auto storage) {
    g.path == GridPath::reciprocal ? f(storage, std::true_type{}) : f(storage, std::false_type{});
  });
}

// ---- along memory ----

HWY_INLINE V fours_of(const V& a, const V& b, const V& c, const V& d) {
  return dense::pair_sums_in_parts(dense::pair_sums_in_parts(a, b),
                                   dense::pair_sums_in_parts(c, d));
}
HWY_INLINE V joined(const V (&fours)[kLanes / 4]) {
  if constexpr (kLanes == 8)
    return dense::part_sums(fours[0], fours[1]);
  else
    return dense::part_sums(dense::part_sums(fours[0], fours[1]),
                            dense::part_sums(fours[2], fours[3]));
}

// Halves both lists of `count` sums; may overwrite what lies behind them.
HWY_INLINE void halve(int count, float* a, float* b) {
  for (int c = 0; c < count; c += 2 * kLanes) {
    hn::Store(dense::pair_sums(hn::Load(D(), a + c), hn::Load(D(), a + c + kLanes)), D(),
              a + c / 2);
    hn::Store(dense::pair_sums(hn::Load(D(), b + c), hn::Load(D(), b + c + kLanes)), D(),
              b + c / 2);
  }
}

void runs(const PortionGroups<float>& groups, int count, int run, Source dy, Source x, Sink dx,
          float* scale_sums, float* zero_point_sums) {
  const PortionGroups<float> g = groups;
  constexpr int kSquare = kLanes * kLanes;
  alignas(64) float scale[kLearnElements / kLanes + 2 * kLanes];
  alignas(64) float zero_point[kLearnElements / kLanes + 2 * kLanes];
  const int n = count * run;
  with_kind(g, x.dtype, [&](auto storage, auto reciprocal) {
    const Elements<decltype(storage)> elements(dy, x, dx);
    const float* by = reciprocal ? g.inverse : g.scale;
    const auto group_at = [&](int e) HWY_ATTR {
      return Group{hn::Set(D(), by[e]), hn::Set(D(), -g.scale[e]), hn::Set(D(), g.lo[e]),
                   hn::Set(D(), g.hi[e])};
    };
    const auto square = [&](int i, auto group_of) HWY_ATTR {
      V scale_fours[kLanes / 4], zero_point_fours[kLanes / 4];
      for (int k = 0; k < kLanes; k += 4) {
        Terms t[4];
        for (int j = 0; j < 4; ++j) {
          const int at = i + (k + j) * kLanes;
          t[j] = elements.template at<reciprocal()>(group_of(at), 0, at);
        }
        scale_fours[k / 4] = fours_of(t[0].scale, t[1].scale, t[2].scale, t[3].scale);
        zero_point_fours[k / 4] =
            fours_of(t[0].zero_point, t[1].zero_point, t[2].zero_point, t[3].zero_point);
      }
      hn::Store(joined(scale_fours), D(), scale + i / kLanes);
      hn::Store(joined(zero_point_fours), D(), zero_point + i / kLanes);
    };
    if (g.layout == GroupLayout::one) {
      const Group one = group_at(0);
      for (int i = 0; i < n; i += kSquare) square(i, [&](int) HWY_ATTR { return one; });
    } else {
      for (int i = 0; i < n; i += kSquare)
        square(i, [&](int at) HWY_ATTR { return group_at(at >> g.run_shift); });
    }
  });
  int left = n / kLanes;
  for (; left > count; left /= 2) halve(left, scale, zero_point);
  std::memcpy(scale_sums, scale, static_cast<std::size_t>(count) * sizeof(float));
  std::memcpy(zero_point_sums, zero_point, static_cast<std::size_t>(count) * sizeof(float));
}

// ---- columns ----

// Terms of the columns of a vector, summed over kRows rows from r on.
template <int kRows, bool kReciprocal, class E>
HWY_INLINE Terms down(const E& elements, const Group& g, int r, int i) {
  if constexpr (kRows == 1) {
    return elements.template at<kReciprocal>(g, r, i);
  } else {
    const Terms a = down<kRows / 2, kReciprocal>(elements, g, r, i);
    const Terms b = down<kRows / 2, kReciprocal>(elements, g, r + kRows / 2, i);
    return {b.dx, hn::Add(a.scale, b.scale), hn::Add(a.zero_point, b.zero_point)};
  }
}

// Streamed stores wait until each row has a few cache lines: scattered over the rows, line by line,
// they took an eighth longer.
void columns(const PortionGroups<float>& groups, int n, Source dy, Source x, Sink dx,
             float* scale_sums, float* zero_point_sums) {
  constexpr int kAtOnce = kChunk;
  const PortionGroups<float> g = groups;
  const auto size = static_cast<std::int64_t>(storage_bytes(dx.dtype));
  const bool stream = past_caches(dx);
  alignas(64) std::byte waiting[kLearnRows * kAtOnce * sizeof(float)];
  with_kind(g, x.dtype, [&](auto storage, auto reciprocal) {
    const float* by = reciprocal ? g.inverse : g.scale;
    for (int begin = 0; begin < n; begin += kAtOnce) {
      const int count = std::min(n - begin, kAtOnce);
      const Sink to{static_cast<std::byte*>(dx.data) + begin * size, dx.dtype, false, dx.row};
      const Sink there{waiting, dx.dtype, false, kAtOnce * size};
      const Elements<decltype(storage)> elements(dy.from(begin), x.from(begin),
                                                 stream ? there : to);
      for (int i = 0; i < count; i += kLanes) {
        const int e = begin + i;
        const Group group{hn::LoadU(D(), by + e), hn::Neg(hn::LoadU(D(), g.scale + e)),
                          hn::LoadU(D(), g.lo + e), hn::LoadU(D(), g.hi + e)};
        const Terms sums = down<kLearnRows, reciprocal()>(elements, group, 0, i);
        hn::StoreU(sums.scale, D(), scale_sums + e);
        hn::StoreU(sums.zero_point, D(), zero_point_sums + e);
      }
      if (!stream) continue;
      using T = typename decltype(storage)::T;
      const hn::Rebind<T, D> whole;
      for (int r = 0; r < kLearnRows; ++r)
        for (int i = 0; i < count; i += kLanes)
          hn::Stream(hn::Load(whole, static_cast<const T*>(there.at_row(r).data) + i), whole,
                     static_cast<T*>(to.at_row(r).data) + i);
    }
  });
}

constexpr LearnLoops kLoops = {runs, columns};

}  // namespace

const LearnLoops* learn_table() { return &kLoops; }
#else
const LearnLoops* learn_table() { return nullptr; }
#endif

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(learn_table);

const LearnLoops* learn_loops() {
  static const LearnLoops* loops = HWY_DYNAMIC_DISPATCH(learn_table)();
  return loops;
}

}  // namespace planck
#endif
