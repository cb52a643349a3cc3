#include "tests/reference/pool.h"

#include <cmath>
#include <limits>

namespace planck {

namespace {

// The pixels of window o along one axis, and what an average counts, by the definition: tap by tap.
struct Taps {
  std::vector<std::int64_t> pixels;
  double count = 0;
};

Taps taps(const PoolProblem& p, std::size_t axis, std::int64_t in, std::int64_t out,
          std::int64_t o) {
  Taps t;
  if (p.adaptive()) {
    for (std::int64_t i = 0; i < in; ++i)
      if (i * out > o * in - out && i * out < (o + 1) * in) t.pixels.push_back(i);
    t.count = static_cast<double>(t.pixels.size());
    return t;
  }
  const std::int64_t kernel = p.options.kernel[axis], padding = p.options.padding[axis];
  const std::int64_t stride = p.options.stride[axis] == 0 ? kernel : p.options.stride[axis];
  for (std::int64_t k = 0; k < kernel; ++k) {
    const std::int64_t i = o * stride + k * p.options.dilation[axis] - padding;
    const bool inside = i >= 0 && i < in;
    if (inside) t.pixels.push_back(i);
    t.count += inside || (p.options.count_include_pad && i < in + padding);
  }
  return t;
}

// Calls f(plane, output's position, its rows' taps, its columns' taps) for every window.
template <class F>
void for_each_window(const PoolProblem& p, F&& f) {
  const Shape out = p.out_shape();
  const int r = p.x.rank() - 2, c = p.x.rank() - 1;
  for (std::int64_t plane = 0, at = 0; plane < p.planes(); ++plane)
    for (std::int64_t oh = 0; oh < out[r]; ++oh)
      for (std::int64_t ow = 0; ow < out[c]; ++ow, ++at)
        f(plane * p.x[r] * p.x[c], static_cast<std::size_t>(at), taps(p, 0, p.x[r], out[r], oh),
          taps(p, 1, p.x[c], out[c], ow));
}

}  // namespace

ReferenceOutputs pooled(const PoolProblem& p, const ReferenceValues& x) {
  const auto count = static_cast<std::size_t>(numel(p.out_shape()));
  ReferenceValues y{x.dtype, p.out_shape(), std::vector<double>(count, 0)};
  ReferenceValues indices{Dtype::i32, p.out_shape(), std::vector<double>(count, -1)};
  const std::int64_t width = p.x[p.x.rank() - 1];
  for_each_window(p, [&](std::int64_t plane, std::size_t at, const Taps& rows, const Taps& cols) {
    double sum = 0, best = x.dtype == Dtype::s8 ? -128 : -std::numeric_limits<double>::infinity();
    for (std::int64_t h : rows.pixels)
      for (std::int64_t w : cols.pixels) {
        const double v = x.at[static_cast<std::size_t>(plane + h * width + w)];
        sum += v;
        if (indices.at[at] >= 0 && !(v > best) && !(std::isnan(v) && !std::isnan(best))) continue;
        best = v;
        indices.at[at] = static_cast<double>(h * width + w);
      }
    y.at[at] = p.largest() ? best : sum / (rows.count * cols.count);
  });
  if (p.largest()) return {y, indices};
  return {y};
}

ReferenceOutputs pooled_backward(const PoolProblem& p, const ReferenceValues& dy,
                                 const ReferenceValues* indices) {
  ReferenceValues dx{dy.dtype, p.x, std::vector<double>(static_cast<std::size_t>(numel(p.x)), 0)};
  const std::int64_t width = p.x[p.x.rank() - 1];
  for_each_window(p, [&](std::int64_t plane, std::size_t at, const Taps& rows, const Taps& cols) {
    for (std::int64_t h : rows.pixels)
      for (std::int64_t w : cols.pixels) {
        double& to = dx.at[static_cast<std::size_t>(plane + h * width + w)];
        if (indices == nullptr)
          to += dy.at[at] / (rows.count * cols.count);
        else if (indices->at[at] == static_cast<double>(h * width + w))
          to += dy.at[at];
      }
  });
  return {dx};
}

}  // namespace planck
