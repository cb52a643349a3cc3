// Coordinate and weight math of grid_sample and affine_grid: scalar, host and device, no memory.
// Compiled for both, so that every kernel of the family reads the same elements with the same
// weights. The formulas are in grid_sample.h.
//
// C is the compute type: f64 for f64 tensors, f32 for f32, f16 and bf16. I holds indices: int64, or
// int32 where every extent is below 2^30. No function makes an index from a coordinate that an
// input of `size` elements does not reach.
#pragma once

#include <cstdint>

#include "planck/core/macros.h"

namespace planck {

enum class SampleMode : std::uint8_t { bilinear, nearest, bicubic };  // bilinear: trilinear in 3-D
enum class SamplePadding : std::uint8_t { zeros, border, reflection };

}  // namespace planck

namespace planck::grid_sample_math {

PLANCK_HD float floor_of(float v) { return __builtin_floorf(v); }
PLANCK_HD double floor_of(double v) { return __builtin_floor(v); }
PLANCK_HD float rint_of(float v) { return __builtin_rintf(v); }
PLANCK_HD double rint_of(double v) { return __builtin_rint(v); }
// Exact on every device. Not for the usual path: it is slow.
PLANCK_HD float fmod_of(float a, float b) { return __builtin_fmodf(a, b); }
PLANCK_HD double fmod_of(double a, double b) { return __builtin_fmod(a, b); }

// Every NaN that a kernel computes is stored as this one: the sign and payload of a NaN differ
// between processors.
PLANCK_HD float canonical(float v) { return v == v ? v : __builtin_nanf(""); }
PLANCK_HD double canonical(double v) { return v == v ? v : __builtin_nan(""); }

template <class C>
PLANCK_HD bool is_finite(C v) {
  return v - v == C(0);
}

// ---- one axis of the input ----

template <class C, class I>
struct Axis {
  I size;
  C extent, last;  // size and size − 1, rounded to C
  SamplePadding padding;
  bool align;

  PLANCK_HD C slope() const { return (align ? last : extent) * C(0.5); }
};

template <class C, class I>
PLANCK_HD Axis<C, I> make_axis(I size, SamplePadding padding, bool align) {
  return {size, static_cast<C>(size), static_cast<C>(size - 1), padding, align};
}

template <class I>
PLANCK_HD bool inside(I index, I size) {
  return index >= 0 && index < size;
}

// A grid coordinate as a position among the input's elements. NaN reads as −1. Infinite or NaN (an
// infinite g, align, size 1) where g is far out.
template <class C, class I>
PLANCK_HD C unnormalized(C g, const Axis<C, I>& axis) {
  const C one_up = (g == g ? g : C(-1)) + C(1);
  return axis.align ? one_up * C(0.5) * axis.last : (one_up * axis.extent - C(1)) * C(0.5);
}

// A position after padding, and its derivative by the grid coordinate.
template <class C>
struct Position {
  C s, slope;
};

// Into [0, size − 1]; no gradient passes at or beyond either end. NaN goes to 0.
template <class C, class I>
PLANCK_HD Position<C> clamped(const Position<C>& p, const Axis<C, I>& axis) {
  if (!(p.s > C(0))) return {C(0), C(0)};
  if (!(p.s < axis.last)) return {axis.last, C(0)};
  return p;
}

// Mirrored at the first and last element (align) or at their outer edges, as often as it takes;
// what is not finite goes to 0. The remainder is exact, so any finite position has one mirror image
// on all devices.
template <class C, class I>
PLANCK_HD Position<C> reflected(const Position<C>& p, const Axis<C, I>& axis) {
  const C low = axis.align ? C(0) : C(-0.5), span = axis.align ? axis.last : axis.extent;
  if (!(span > C(0)) || !is_finite(p.s)) return {C(0), C(0)};
  C x = p.s - low, slope = p.slope;
  if (x < C(0)) {
    x = -x;
    slope = -slope;
  }
  if (!(x < C(2) * span)) x = fmod_of(x, C(2) * span);
  if (!(x < span)) {
    x = C(2) * span - x;
    slope = -slope;
  }
  return clamped(Position<C>{x + low, slope}, axis);
}

// The position that bilinear and nearest sampling look at. A coordinate that is not finite passes
// no gradient.
template <class C, class I>
PLANCK_HD Position<C> source_position(C g, const Axis<C, I>& axis) {
  const C s = unnormalized(g, axis);
  const Position<C> p{s, is_finite(g) && is_finite(s) ? axis.slope() : C(0)};
  if (axis.padding == SamplePadding::border) return clamped(p, axis);
  if (axis.padding == SamplePadding::reflection) return reflected(p, axis);
  return p;
}

// ---- nearest ----

// The element nearest to the position, ties to the even one; −1 where the input does not reach.
template <class C, class I>
PLANCK_HD I nearest_index(C g, const Axis<C, I>& axis) {
  const C s = source_position(g, axis).s;
  if (!(s > C(-1)) || !(s < axis.extent)) return I(-1);
  const I index = static_cast<I>(rint_of(s));
  return inside(index, axis.size) ? index : I(-1);
}

// ---- bilinear and trilinear ----

// Elements base and base + 1 with their weights. Either may be outside: it then has the value +0.
// base is −2 where both are.
template <class C, class I>
struct LinearTaps {
  I base;
  C lower, upper;  // 1 − t and t
  C slope;         // of the position by the grid coordinate
};

template <class C, class I>
PLANCK_HD LinearTaps<C, I> linear_taps(C g, const Axis<C, I>& axis) {
  const Position<C> p = source_position(g, axis);
  if (!(p.s > C(-1)) || !(p.s < axis.extent)) return {I(-2), C(1), C(0), p.slope};
  const C below = floor_of(p.s), t = p.s - below;
  return {static_cast<I>(below), C(1) - t, t, p.slope};
}

// w · v over the four taps, in the order of memory.
template <class C>
PLANCK_HD C bilinear(C w00, C v00, C w01, C v01, C w10, C v10, C w11, C v11) {
  return ((w00 * v00 + w01 * v01) + w10 * v10) + w11 * v11;
}
// One channel's term of the gradient along an axis: dout times the difference of the values along
// it, weighted across it. a: lower across; b: upper across.
template <class C>
PLANCK_HD C bilinear_slope(C dout, C a0, C a1, C b0, C b1, C across_lower, C across_upper) {
  return dout * ((a1 - a0) * across_lower + (b1 - b0) * across_upper);
}
// The same in 3-D: f(outer, inner) is the difference along the axis, outer and inner are the other
// two axes in the order of memory.
template <class C>
PLANCK_HD C trilinear_slope(C dout, C f00, C f01, C f10, C f11, C outer_lower, C outer_upper,
                            C inner_lower, C inner_upper) {
  const C lower = f00 * inner_lower + f01 * inner_upper;
  const C upper = f10 * inner_lower + f11 * inner_upper;
  return dout * (lower * outer_lower + upper * outer_upper);
}

// ---- bicubic ----

// Taps j = 0 … 3 look at cubic_index(cell, j), with weights from t.
//
// cell: floor(s) as far as it makes a difference, counted so that the first one is 0. zeros: −1
// where no tap is inside, else floor(s) + 2. border: floor(s) clamped to [−2, size], + 2.
// reflection: floor(s) modulo the period.
template <class C, class I>
struct CubicTaps {
  I cell;
  C t;
  C slope;
};

// How far a mirrored axis goes before it repeats: 2 · size, or 2 · (size − 1) with align.
template <class C, class I>
PLANCK_HD I reflection_period(const Axis<C, I>& axis) {
  const I period = axis.align ? 2 * (axis.size - 1) : 2 * axis.size;
  return period > 0 ? period : 1;
}

template <class C, class I>
PLANCK_HD CubicTaps<C, I> cubic_taps(C g, const Axis<C, I>& axis) {
  C s = unnormalized(g, axis);
  const bool finite = is_finite(s);
  const C slope = is_finite(g) && finite ? axis.slope() : C(0);
  if (axis.padding == SamplePadding::reflection) {
    const I period = reflection_period(axis);
    const C span = static_cast<C>(period);
    if (!finite) return {I(0), C(0), slope};
    if (!(s > -span) || !(s < span)) s = fmod_of(s, span);
    const C below = floor_of(s);
    I cell = static_cast<I>(below);
    if (cell < 0) cell += period;
    if (cell < 0 || cell >= period) cell = 0;  // below = ±span, by rounding
    return {cell, s - below, slope};
  }
  const bool border = axis.padding == SamplePadding::border;
  const C below = floor_of(s), t = finite ? s - below : C(0);
  if (!(s >= C(-2))) return {border ? I(0) : I(-1), t, slope};
  if (!(s < axis.extent + C(1))) return {border ? axis.size + 2 : I(-1), t, slope};
  I base = static_cast<I>(below);
  if (base > axis.size) base = axis.size;  // extent + 1 was rounded up
  return {base + 2, t, slope};
}

// The element that tap j of a cell reads; −1 where it is outside.
template <class C, class I>
PLANCK_HD I cubic_index(I cell, int j, const Axis<C, I>& axis) {
  if (axis.padding == SamplePadding::reflection) {
    const I period = reflection_period(axis);
    I i = cell + static_cast<I>(j) - 1;
    while (i < 0) i += period;  // three times at most: periods are 1, 2 or more
    while (i >= period) i -= period;
    return i < axis.size ? i : (axis.align ? period : period - 1) - i;
  }
  const I i = cell + static_cast<I>(j) - 3;
  if (axis.padding == SamplePadding::border)
    return i < 0 ? I(0) : i < axis.size ? i : axis.size - 1;
  return inside(i, axis.size) ? i : I(-1);
}

// Cells of an axis: keys of a sort.
template <class C, class I>
PLANCK_HD I cubic_cells(const Axis<C, I>& axis) {
  return axis.padding == SamplePadding::reflection ? reflection_period(axis) : axis.size + 3;
}

// The cubic convolution kernel, a = −0.75: within one element of the position, and between one and
// two.
template <class C>
PLANCK_HD C cubic_near(C x) {
  constexpr C a = C(-0.75);
  return ((a + C(2)) * x - (a + C(3))) * x * x + C(1);
}
template <class C>
PLANCK_HD C cubic_far(C x) {
  constexpr C a = C(-0.75);
  return ((a * x - C(5) * a) * x + C(8) * a) * x - C(4) * a;
}
template <class C>
PLANCK_HD void cubic_weights(C t, C (&w)[4]) {
  w[0] = cubic_far(t + C(1));
  w[1] = cubic_near(t);
  w[2] = cubic_near(C(1) - t);
  w[3] = cubic_far(C(2) - t);
}
// Their derivatives by t.
template <class C>
PLANCK_HD void cubic_weight_slopes(C t, C (&w)[4]) {
  constexpr C a = C(-0.75);
  const C x0 = t + C(1), x2 = C(1) - t, x3 = C(2) - t;
  w[0] = (C(3) * a * x0 - C(10) * a) * x0 + C(8) * a;
  w[1] = (C(3) * (a + C(2)) * t - C(2) * (a + C(3))) * t;
  w[2] = -((C(3) * (a + C(2)) * x2 - C(2) * (a + C(3))) * x2);
  w[3] = -((C(3) * a * x3 - C(10) * a) * x3 + C(8) * a);
}
// w · v, from left to right: along x first, then of the four row sums along y.
template <class C>
PLANCK_HD C cubic_sum(const C (&w)[4], C v0, C v1, C v2, C v3) {
  return ((w[0] * v0 + w[1] * v1) + w[2] * v2) + w[3] * v3;
}

// ---- affine_grid ----

// The normalized coordinate of output element i of `size`: one rounded quotient of exact integers.
// 0 where there is only one element.
template <class C>
PLANCK_HD C base_coordinate(std::int64_t i, std::int64_t size, bool align) {
  if (size <= 1) return C(0);
  const std::int64_t steps = align ? size - 1 : size;
  return static_cast<C>(2 * i - (size - 1)) / static_cast<C>(steps);
}

}  // namespace planck::grid_sample_math
