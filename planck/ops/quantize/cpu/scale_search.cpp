#include "planck/ops/quantize/scale_search.h"

#include <algorithm>
#include <type_traits>

#include "planck/loops/cpu/targets.h"
#include "planck/ops/quantize/quantize.math.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/quantize/cpu/scale_search.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/ops/quantize/cpu/grid_squares-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Σ x t / Σ t² of the codes t.
template <class C>
double fitted_scale(const C* HWY_RESTRICT x, std::int64_t n, Grid<C> g) {
  double products = 0, squares = 0;
  for (std::int64_t begin = 0; begin < n; begin += kSearchChunk) {
    const std::int64_t end = std::min(n, begin + kSearchChunk);
    C xt[kSearchLanes] = {}, tt[kSearchLanes] = {};
    std::int64_t i = begin;
    for (; i + kSearchLanes <= end; i += kSearchLanes)
      for (int l = 0; l < kSearchLanes; ++l) {
        const C t = steps_of(x[i + l], g);
        xt[l] += x[i + l] * t;
        tt[l] += t * t;
      }
    for (int l = 0; i < end; ++i, ++l) {
      const C t = steps_of(x[i], g);
      xt[l] += x[i] * t;
      tt[l] += t * t;
    }
    products += total(xt);
    squares += total(tt);
  }
  return squares > 0 ? products / squares : 0;
}

// In vectors: of plain loops with a minimum and a maximum GCC makes single elements.
template <class C>
void range_of(const C* HWY_RESTRICT x, std::int64_t n, C* lo, C* hi) {
  const hn::ScalableTag<C> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto least = hn::Zero(d), most = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x + i);
    least = hn::Min(v, least);
    most = hn::Max(v, most);
  }
  C low = hn::GetLane(hn::MinOfLanes(d, least)), high = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < n; ++i) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  *lo = low;
  *hi = high;
}

void finite_values(Dtype dtype, const void* x, std::int64_t n, float* HWY_RESTRICT out) {
  constexpr std::int64_t kPiece = 256;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const int m = static_cast<int>(std::min(n - begin, kPiece));
    float* to = out + begin;
    if (dtype == Dtype::f32)
      std::copy_n(static_cast<const float*>(x) + begin, m, to);
    else if (dtype == Dtype::f16)
      widen_f16(static_cast<const std::uint16_t*>(x) + begin, m, to, 0);
    else
      widen_bf16(static_cast<const std::uint16_t*>(x) + begin, m, to, 0);
    for (int i = 0; i < m; ++i) to[i] = to[i] - to[i] == 0 ? to[i] : 0.0f;
  }
}

void errors_f32(const float* x, std::int64_t n, const float* grids, int count, double* sums) {
  squared_errors(x, n, grids, count, sums);
}
void errors_f64(const double* x, std::int64_t n, const double* grids, int count, double* sums) {
  squared_errors(x, n, grids, count, sums);
}
double fit_f32(const float* x, std::int64_t n, const float* g) {
  return fitted_scale(x, n, Grid<float>{g[0], g[1], g[2], g[3]});
}
double fit_f64(const double* x, std::int64_t n, const double* g) {
  return fitted_scale(x, n, Grid<double>{g[0], g[1], g[2], g[3]});
}
void range_f32(const float* x, std::int64_t n, float* lo, float* hi) { range_of(x, n, lo, hi); }
void range_f64(const double* x, std::int64_t n, double* lo, double* hi) { range_of(x, n, lo, hi); }

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

namespace qm = quantize_math;

HWY_EXPORT(errors_f32);
HWY_EXPORT(errors_f64);
HWY_EXPORT(fit_f32);
HWY_EXPORT(fit_f64);
HWY_EXPORT(range_f32);
HWY_EXPORT(range_f64);
HWY_EXPORT(finite_values);

void errors_of(const float* x, std::int64_t n, const float* grids, int count, double* sums) {
  HWY_DYNAMIC_DISPATCH(errors_f32)(x, n, grids, count, sums);
}
void errors_of(const double* x, std::int64_t n, const double* grids, int count, double* sums) {
  HWY_DYNAMIC_DISPATCH(errors_f64)(x, n, grids, count, sums);
}
double fit_of(const float* x, std::int64_t n, const float* g) {
  return HWY_DYNAMIC_DISPATCH(fit_f32)(x, n, g);
}
double fit_of(const double* x, std::int64_t n, const double* g) {
  return HWY_DYNAMIC_DISPATCH(fit_f64)(x, n, g);
}
void range_of(const float* x, std::int64_t n, float* lo, float* hi) {
  HWY_DYNAMIC_DISPATCH(range_f32)(x, n, lo, hi);
}
void range_of(const double* x, std::int64_t n, double* lo, double* hi) {
  HWY_DYNAMIC_DISPATCH(range_f64)(x, n, lo, hi);
}

// 8 bits lose more by clipping than 4: their steps are finer.
double step_of(const ScaleSearch& s) { return s.q_max - s.q_min > 16 ? 0.02 : 0.045; }

// A scale as its dtype T stores it.
template <class T>
double stored_as(double scale) {
  if constexpr (std::is_same_v<T, double>)
    return qm::positive_scale(scale, T{});
  else
    return static_cast<double>(
        static_cast<float>(qm::positive_scale(static_cast<float>(scale), T{})));
}
double stored(double scale, Dtype element) {
  return visit_float(element, [&]<class T>(std::type_identity<T>) { return stored_as<T>(scale); });
}

// Scale, inverse and ends of candidates, in the compute type.
template <class C>
struct Grids {
  C of[kScaleCandidates][4];
  int count = 0;
  void add(const ScaleSearch& s, double scale, std::int32_t z) {
    C* g = of[count++];
    g[0] = static_cast<C>(scale);
    g[1] = C(1) / static_cast<C>(scale);
    g[2] = static_cast<C>(s.q_min - z);
    g[3] = static_cast<C>(s.q_max - z);
  }
};

template <class C, class T>
ScaleSearch::Candidates candidates_as(const ScaleSearch& s, C lo, C hi) {
  ScaleSearch::Candidates all{};
  const double step = step_of(s);
  for (int k = 0; k < kScaleCandidates; ++k) {
    const C part = static_cast<C>(1 - step * k);
    const qm::DataRange<C> range{k == 0 ? lo : lo * part, k == 0 ? hi : hi * part};
    const bool empty = range.lo == 0 && range.hi == 0;
    const double scale = empty ? 1
                               : stored_as<T>(static_cast<double>(
                                     qm::dynamic_scale(range, s.symmetric, s.q_min, s.q_max)));
    all.scale[k] = scale;
    all.zero_point[k] =
        qm::dynamic_zero_point(range, static_cast<C>(scale), s.symmetric, s.q_min, s.q_max);
  }
  return all;
}
ScaleSearch::Candidates candidates_of(const ScaleSearch& s, double lo, double hi) {
  return candidates_as<double, double>(s, lo, hi);
}
ScaleSearch::Candidates candidates_of(const ScaleSearch& s, float lo, float hi) {
  switch (s.element) {
    case Dtype::f16:
      return candidates_as<float, f16>(s, lo, hi);
    case Dtype::bf16:
      return candidates_as<float, bf16>(s, lo, hi);
    default:
      return candidates_as<float, float>(s, lo, hi);
  }
}

template <class C>
SearchedGroup search(const ScaleSearch& s, const C* x, std::int64_t n) {
  C lo = 0, hi = 0;
  range_of(x, n, &lo, &hi);
  const auto all = candidates_of(s, lo, hi);
  Grids<C> grids;
  int of[kScaleCandidates];  // the candidate of each grid; equal ones are tried once
  for (int k = 0; k < kScaleCandidates; ++k) {
    if (k > 0 && all.scale[k] == all.scale[k - 1] && all.zero_point[k] == all.zero_point[k - 1])
      continue;
    of[grids.count] = k;
    grids.add(s, all.scale[k], all.zero_point[k]);
  }
  double errors[kScaleCandidates];
  errors_of(x, n, grids.of[0], grids.count, errors);
  SearchedGroup best{all.scale[0],      all.zero_point[0], all.scale[0],
                     all.zero_point[0], errors[0],         errors[0]};
  for (int c = 1; c < grids.count; ++c) {
    if (!(errors[c] < best.after)) continue;
    best.scale = all.scale[of[c]];
    best.zero_point = all.zero_point[of[c]];
    best.after = errors[c];
  }
  Grids<C> chosen;
  chosen.add(s, best.scale, best.zero_point);
  const double fit = fit_of(x, n, chosen.of[0]);
  if (!(fit > 0)) return best;
  const double refined = stored(fit, s.element);
  Grids<C> last;
  last.add(s, refined, best.zero_point);
  double error = 0;
  errors_of(x, n, last.of[0], 1, &error);
  if (error < best.after) {
    best.scale = refined;
    best.after = error;
  }
  return best;
}

template <class C>
void add_errors_of(const ScaleSearch& s, const ScaleSearch::Candidates& all, const C* x,
                   std::int64_t n, double* errors) {
  Grids<C> grids;
  for (int k = 0; k < kScaleCandidates; ++k) grids.add(s, all.scale[k], all.zero_point[k]);
  double found[kScaleCandidates];
  errors_of(x, n, grids.of[0], grids.count, found);
  for (int k = 0; k < kScaleCandidates; ++k) errors[k] += found[k];
}

}  // namespace

void finite_values(Dtype dtype, const void* x, std::int64_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(finite_values)(dtype, x, n, out);
}

SearchedGroup ScaleSearch::group(const float* x, std::int64_t n) const {
  return search(*this, x, n);
}
SearchedGroup ScaleSearch::group(const double* x, std::int64_t n) const {
  return search(*this, x, n);
}
ScaleSearch::Candidates ScaleSearch::candidates(double lo, double hi) const {
  if (element == Dtype::f64) return candidates_of(*this, lo, hi);
  return candidates_of(*this, static_cast<float>(lo), static_cast<float>(hi));
}
void ScaleSearch::add_errors(const Candidates& all, const float* x, std::int64_t n,
                             double* errors) const {
  add_errors_of(*this, all, x, n, errors);
}
void ScaleSearch::add_errors(const Candidates& all, const double* x, std::int64_t n,
                             double* errors) const {
  add_errors_of(*this, all, x, n, errors);
}

}  // namespace planck
#endif
