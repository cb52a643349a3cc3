// Which elements of an image the kernel covers at a place of the output, as a matrix of windows:
// one row for each place, one column for each k = (tap, channel). What the kernels of tensor_core
// and exact agree on, on both devices.
//
//   conv2d, conv2d_weight  places (n, i, j) of y, taps (u, v), channels of x. One phase.
//   conv2d_input           places (n, h, w) of dx, channels of dy. A row h of dx meets those rows u
//                          of the kernel for which h + padding - u dilation is a multiple of the
//                          stride, the same ones for all h of one remainder: stride × stride
//                          phases, each with taps of its own.
//
// Along each axis all of this is linear, so there are no tables.
#pragma once

#include <algorithm>

#include "planck/core/macros.h"
#include "planck/ops/conv/conv.problem.h"

namespace planck::conv_detail {

struct WindowAxis {
  std::int64_t places, taps;
  std::int64_t at, per_place, per_tap;   // place a, tap k read `at + a per_place + k per_tap`
  std::int64_t first_tap, tap_step;      // tap k is kernel row first_tap + k tap_step
  std::int64_t first_place, place_step;  // place a is output row first_place + a place_step
  std::int64_t extent;                   // of the image

  PLANCK_HD std::int64_t read(std::int64_t place, std::int64_t tap) const {
    return at + place * per_place + tap * per_tap;
  }
};

struct Windows {
  WindowAxis down, across;
  std::int64_t batch, channels;
  std::int64_t tap_depth;  // k of one tap: its channels, and zeros behind them

  PLANCK_HD std::int64_t in_image() const { return down.places * across.places; }
  PLANCK_HD std::int64_t places() const { return batch * in_image(); }
  PLANCK_HD std::int64_t taps() const { return down.taps * across.taps; }
  PLANCK_HD std::int64_t depth() const { return taps() * tap_depth; }
};

// k of a tap. tensor_core: whole blocks, where there are channels for one; then no block has
// channels of two taps, and a kernel may bring a tap's channels from where they lie. Else none is
// left free between taps.
inline std::int64_t tap_depth_of(const ConvProblem& p) {
  const bool backward = p.kind == ConvKind::conv2d_input;
  const std::int64_t channels = backward ? p.filters() : p.channels();
  if (p.math != ProductMath::tensor_core || p.kind == ConvKind::conv2d_weight) return channels;
  const std::int64_t block = p.element_dtype == Dtype::f32 ? 8 : 16;
  return channels < block ? channels : (channels + block - 1) / block * block;
}

inline std::int64_t phases_across(const ConvProblem& p, int axis) {
  return p.kind != ConvKind::conv2d_input
             ? 1
             : std::min(p.options.stride[static_cast<std::size_t>(axis)], p.x[2 + axis]);
}
inline std::int64_t phases_of(const ConvProblem& p) {
  return phases_across(p, 0) * phases_across(p, 1);
}

WindowAxis window_axis(const ConvProblem& p, int axis, std::int64_t first);

// Phases count down, then across.
inline Windows windows_of(const ConvProblem& p, std::int64_t phase) {
  const std::int64_t across = phases_across(p, 1);
  return {window_axis(p, 0, phase / across), window_axis(p, 1, phase % across), p.batch(),
          p.kind == ConvKind::conv2d_input ? p.filters() : p.channels(), tap_depth_of(p)};
}

// Channels of y or dx in a group.
inline std::int64_t rows_of(const ConvProblem& p) {
  return p.kind == ConvKind::conv2d_input ? p.channels() : p.filters();
}

// No phase has more taps, or more k.
std::int64_t most_taps(const ConvProblem& p);
inline std::int64_t deepest(const ConvProblem& p) { return most_taps(p) * tap_depth_of(p); }

}  // namespace planck::conv_detail
