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

// One plane of a tensor; T as stored, C as computed with.
template <class T, class C>
struct PoolPlane {
  const T* data;
  std::int64_t row, column;  // strides
  PLANCK_HD C at(std::int64_t r, std::int64_t c) const {
    return static_cast<C>(data[r * row + c * column]);
  }
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

// The first largest pixel of a window.
template <class T, class C>
PLANCK_HD Largest<C> largest(const PoolPlane<T, C>& x, const PoolAxes& axes, std::int64_t oh,
                             std::int64_t ow) {
  const std::int64_t h1 = axes.rows.end(oh), w0 = axes.columns.begin(ow), w1 = axes.columns.end(ow);
  C best = lowest(C{});
  std::int64_t position = -1;
  for (std::int64_t h = axes.rows.begin(oh); h < h1; h += axes.rows.dilation)
    for (std::int64_t w = w0; w < w1; w += axes.columns.dilation) {
      const C v = x.at(h, w);
      const bool takes = (position < 0) | wins(v, best);  // no branch: which one wins is chance
      best = takes ? v : best;
      position = takes ? h * axes.columns.in + w : position;
    }
  return {settled(best), static_cast<std::int32_t>(position)};
}

// The gradient of a pixel: what the windows that chose it have, in their order.
template <class T, class C>
PLANCK_HD C largest_gradient(const PoolPlane<T, C>& dy,
                             const PoolPlane<std::int32_t, std::int32_t>& indices,
                             const PoolAxes& axes, std::int64_t h, std::int64_t w) {
  const std::int64_t position = h * axes.columns.in + w;
  const std::int64_t oh1 = axes.rows.last_window(h);
  const std::int64_t ow0 = axes.columns.first_window(w), ow1 = axes.columns.last_window(w);
  C sum = 0;
  for (std::int64_t oh = axes.rows.first_window(h); oh < oh1; ++oh) {
    if (!axes.rows.steps_on(oh, h)) continue;
    for (std::int64_t ow = ow0; ow < ow1; ++ow)
      if (indices.at(oh, ow) == position && axes.columns.steps_on(ow, w)) sum += dy.at(oh, ow);
  }
  return settled(sum);
}

template <class T, class C>
PLANCK_HD C average(const PoolPlane<T, C>& x, const PoolAxes& axes, std::int64_t oh,
                    std::int64_t ow) {
  const std::int64_t h1 = axes.rows.end(oh), w0 = axes.columns.begin(ow), w1 = axes.columns.end(ow);
  C sum = 0;
  for (std::int64_t h = axes.rows.begin(oh); h < h1; ++h)
    for (std::int64_t w = w0; w < w1; ++w) sum += x.at(h, w);
  return settled(sum / static_cast<C>(axes.rows.count(oh) * axes.columns.count(ow)));
}

template <class T, class C>
PLANCK_HD C average_gradient(const PoolPlane<T, C>& dy, const PoolAxes& axes, std::int64_t h,
                             std::int64_t w) {
  const std::int64_t oh1 = axes.rows.last_window(h);
  const std::int64_t ow0 = axes.columns.first_window(w), ow1 = axes.columns.last_window(w);
  C sum = 0;
  for (std::int64_t oh = axes.rows.first_window(h); oh < oh1; ++oh) {
    const std::int64_t along = axes.rows.count(oh);
    for (std::int64_t ow = ow0; ow < ow1; ++ow)
      sum += dy.at(oh, ow) / static_cast<C>(along * axes.columns.count(ow));
  }
  return settled(sum);
}

}  // namespace pool_math

}  // namespace planck
