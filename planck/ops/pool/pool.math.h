// Which pixels a pooling window has, which windows a pixel has, and what one element of a result
// is. Both devices compile it.
#pragma once

#include <cstdint>

#include "planck/math/float_bits.h"

namespace planck {

// Windows along one axis of an image.
struct PoolAxis {
  std::int64_t in = 1, out = 1;                                    // pixels, windows
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;  // kernel 0: adaptive
  bool padding_counts = false;                                     // in the size of a window

  // The first tap of window o, which may lie in the padding.
  PLANCK_HD std::int64_t start(std::int64_t o) const {
    return kernel == 0 ? o * in / out : o * stride - padding;
  }
  // Pixels of window o: begin, begin + dilation, … below end; none where begin >= end.
  PLANCK_HD std::int64_t begin(std::int64_t o) const {
    const std::int64_t s = start(o);
    return s >= 0 ? s : s + (dilation - 1 - s) / dilation * dilation;
  }
  PLANCK_HD std::int64_t end(std::int64_t o) const {
    const std::int64_t e =
        kernel == 0 ? ((o + 1) * in + out - 1) / out : start(o) + (kernel - 1) * dilation + 1;
    return e < in ? e : in;
  }
  // What an average divides by, along this axis.
  PLANCK_HD std::int64_t count(std::int64_t o) const {
    if (!padding_counts) return end(o) - begin(o);
    const std::int64_t s = start(o), e = s + kernel, last = in + padding;
    return (e < last ? e : last) - s;
  }

  // Windows that may have pixel i: first <= o < last. With dilation some of them step over it.
  PLANCK_HD std::int64_t first_window(std::int64_t i) const {
    if (kernel == 0) return i * out / in;
    const std::int64_t reach = i + padding - (kernel - 1) * dilation;
    return reach <= 0 ? 0 : (reach + stride - 1) / stride;
  }
  PLANCK_HD std::int64_t last_window(std::int64_t i) const {
    const std::int64_t last =
        kernel == 0 ? ((i + 1) * out + in - 1) / in : (i + padding) / stride + 1;
    return last < out ? last : out;
  }
  PLANCK_HD bool steps_on(std::int64_t o, std::int64_t i) const {
    return dilation == 1 || (i - start(o)) % dilation == 0;
  }
};

struct PoolAxes {
  PoolAxis rows, columns;
};

// The pixels of a window, or the windows that may have a pixel.
struct PoolRange {
  std::int64_t h0, h1, w0, w1;
};
PLANCK_HD PoolRange pixels_of(const PoolAxes& axes, std::int64_t oh, std::int64_t ow) {
  return {axes.rows.begin(oh), axes.rows.end(oh), axes.columns.begin(ow), axes.columns.end(ow)};
}
PLANCK_HD PoolRange windows_of(const PoolAxes& axes, std::int64_t h, std::int64_t w) {
  return {axes.rows.first_window(h), axes.rows.last_window(h), axes.columns.first_window(w),
          axes.columns.last_window(w)};
}

// One plane of a tensor; T as stored, C as computed with.
template <class T, class C>
struct PoolPlane {
  const T* data;
  std::int64_t row, column;  // strides
  PLANCK_HD C at(std::int64_t r, std::int64_t c) const {
    return static_cast<C>(data[r * row + c * column]);
  }
  PLANCK_HD C at(int, std::int64_t r, std::int64_t c) const { return at(r, c); }  // one of one
};

namespace pool_math {

PLANCK_HD float lowest(float) { return -math::infinity_of(0.0f); }
PLANCK_HD double lowest(double) { return -math::infinity_of(0.0); }
PLANCK_HD std::int8_t lowest(std::int8_t) { return -128; }

PLANCK_HD float settled(float v) { return math::canonical(v); }
PLANCK_HD double settled(double v) { return math::canonical(v); }
PLANCK_HD std::int8_t settled(std::int8_t v) { return v; }

// Whether b, which comes later, replaces a: greater, or the first NaN.
template <class C>
PLANCK_HD bool wins(C b, C a) {
  return (a == a) & !(b <= a);
}

template <class C>
struct Largest {
  C value;
  std::int32_t position;
};

// Below, one element of the result in each of kPlanes planes at once. Planes: C at(q, row, column)
// of plane q.

// The first largest pixel of a window.
template <int kPlanes, class Planes, class C>
PLANCK_HD void largest(const Planes& x, const PoolAxes& axes, const PoolRange& pixels,
                       Largest<C> (&best)[kPlanes]) {
  for (auto& b : best) b = {lowest(C{}), -1};
  for (std::int64_t h = pixels.h0; h < pixels.h1; h += axes.rows.dilation)
    for (std::int64_t w = pixels.w0; w < pixels.w1; w += axes.columns.dilation) {
      const auto position = static_cast<std::int32_t>(h * axes.columns.in + w);
      C v[kPlanes];
      for (int q = 0; q < kPlanes; ++q) v[q] = x.at(q, h, w);
      for (int q = 0; q < kPlanes; ++q) {  // no branch: which one wins is chance
        const bool takes = (best[q].position < 0) | wins(v[q], best[q].value);
        best[q].value = takes ? v[q] : best[q].value;
        best[q].position = takes ? position : best[q].position;
      }
    }
  for (auto& b : best) b.value = settled(b.value);
}

// What the sum over window (oh, ow) is divided by.
template <class C>
PLANCK_HD C divisor(const PoolAxes& axes, std::int64_t oh, std::int64_t ow) {
  return static_cast<C>(axes.rows.count(oh) * axes.columns.count(ow));
}

// The gradient of a pixel: what the windows that chose it have, in their order.
template <int kPlanes, class Planes, class Indices, class C>
PLANCK_HD void largest_gradient(const Planes& dy, const Indices& indices, const PoolAxes& axes,
                                const PoolRange& windows, std::int64_t h, std::int64_t w,
                                C (&sum)[kPlanes]) {
  const std::int64_t position = h * axes.columns.in + w;
  for (C& s : sum) s = 0;
  for (std::int64_t oh = windows.h0; oh < windows.h1; ++oh) {
    if (!axes.rows.steps_on(oh, h)) continue;
    for (std::int64_t ow = windows.w0; ow < windows.w1; ++ow) {
      if (!axes.columns.steps_on(ow, w)) continue;
      std::int32_t chosen[kPlanes];
      C v[kPlanes];
      for (int q = 0; q < kPlanes; ++q) chosen[q] = indices.at(q, oh, ow), v[q] = dy.at(q, oh, ow);
      for (int q = 0; q < kPlanes; ++q) sum[q] = chosen[q] == position ? sum[q] + v[q] : sum[q];
    }
  }
  for (C& s : sum) s = settled(s);
}

template <int kPlanes, class Planes, class C>
PLANCK_HD void average(const Planes& x, const PoolRange& pixels, C count, C (&sum)[kPlanes]) {
  for (C& s : sum) s = 0;
  for (std::int64_t h = pixels.h0; h < pixels.h1; ++h)
    for (std::int64_t w = pixels.w0; w < pixels.w1; ++w) {
      C v[kPlanes];
      for (int q = 0; q < kPlanes; ++q) v[q] = x.at(q, h, w);
      for (int q = 0; q < kPlanes; ++q) sum[q] += v[q];
    }
  for (C& s : sum) s = settled(s / count);
}

template <int kPlanes, class Planes, class C>
PLANCK_HD void average_gradient(const Planes& dy, const PoolAxes& axes, const PoolRange& windows,
                                C (&sum)[kPlanes]) {
  for (C& s : sum) s = 0;
  for (std::int64_t oh = windows.h0; oh < windows.h1; ++oh)
    for (std::int64_t ow = windows.w0; ow < windows.w1; ++ow) {
      const C count = divisor<C>(axes, oh, ow);
      C v[kPlanes];
      for (int q = 0; q < kPlanes; ++q) v[q] = dy.at(q, oh, ow);
      for (int q = 0; q < kPlanes; ++q) sum[q] += v[q] / count;
    }
  for (C& s : sum) s = settled(s);
}

}  // namespace pool_math

}  // namespace planck
