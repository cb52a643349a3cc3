#include "planck/ops/conv/host/windows.h"

#include <algorithm>
#include <numeric>

namespace planck::conv_detail {

WindowAxis window_axis(const ConvProblem& p, int axis, std::int64_t first) {
  const auto a = static_cast<std::size_t>(axis);
  const std::int64_t stride = p.options.stride[a], padding = p.options.padding[a];
  const std::int64_t dilation = p.options.dilation[a], kernel = p.weight[2 + axis];
  if (p.kind != ConvKind::conv2d_input)
    return {p.extent(axis), kernel, -padding, stride, dilation, 0, 1, 0, 1, p.x[2 + axis]};
  WindowAxis w{(p.x[2 + axis] - first + stride - 1) / stride,
               0,
               0,
               1,
               0,
               0,
               stride / std::gcd(stride, dilation),
               first,
               stride,
               p.extent(axis)};
  // Taps that meet: u dilation = first + padding modulo the stride, one of any tap_step.
  const std::int64_t most = std::min(w.tap_step, kernel);
  while (w.first_tap < most && (first + padding - w.first_tap * dilation) % stride != 0)
    ++w.first_tap;
  if (w.first_tap == most) return w;
  w.taps = (kernel - w.first_tap + w.tap_step - 1) / w.tap_step;
  w.at = (first + padding - w.first_tap * dilation) / stride;
  w.per_tap = -(w.tap_step * dilation / stride);
  return w;
}

std::int64_t most_taps(const ConvProblem& p) {
  std::int64_t taps = 1;
  for (int axis = 0; axis < 2; ++axis) {
    const WindowAxis w = window_axis(p, axis, 0);
    taps *= (p.weight[2 + axis] + w.tap_step - 1) / w.tap_step;
  }
  return taps;
}

}  // namespace planck::conv_detail
