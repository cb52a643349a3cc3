#include "planck/ops/conv/cpu/lines.h"

#include <algorithm>

#include "planck/loops/cpu/portions.h"

namespace planck::conv_detail {

namespace {

// The places [low, high) of [0, n) for which 0 <= at + a * step < extent; step > 0.
struct Inside {
  std::int64_t low, high;
  Inside(std::int64_t at, std::int64_t step, std::int64_t extent, std::int64_t n)
      : low(at >= 0 ? 0 : std::min(n, (-at + step - 1) / step)),
        high(at >= extent ? 0 : std::min(n, (extent - at + step - 1) / step)) {
    high = std::max(low, high);
  }
};

// A block of elements of an operand, and where each goes.
struct Block {
  std::int64_t at, inner_stride, outer_stride;  // in memory
  std::int64_t inner, outer;                    // how many
  std::int64_t inner_step, outer_step;          // in the panel
};

void move(const View& v, const Block& b, float* out) {
  if (v.dtype == Dtype::f32) {
    const float* const from = static_cast<const float*>(v.data) + b.at;
    for (std::int64_t o = 0; o < b.outer; ++o) {
      const float* line = from + o * b.outer_stride;
      float* to = out + o * b.outer_step;
      if (b.inner_stride == 1 && b.inner_step == 1)
        std::copy_n(line, b.inner, to);
      else
        for (std::int64_t i = 0; i < b.inner; ++i) to[i * b.inner_step] = line[i * b.inner_stride];
    }
    return;
  }
  float line[kPortion];
  for (std::int64_t o = 0; o < b.outer; ++o)
    for (std::int64_t i = 0; i < b.inner; i += kPortion) {
      const auto n = static_cast<int>(std::min<std::int64_t>(kPortion, b.inner - i));
      float* const to = out + o * b.outer_step + i * b.inner_step;
      portion_ops().load_f32(v.dtype, v.data, b.at + o * b.outer_stride + i * b.inner_stride,
                             b.inner_stride, n, b.inner_step == 1 ? to : line);
      for (int e = 0; e < n && b.inner_step != 1; ++e) to[e * b.inner_step] = line[e];
    }
}

// The axis that is dense in memory is the inner one, unless it is much shorter.
Block along(Block b) {
  const bool dense = b.inner_stride == 1 || b.outer_stride != 1;
  if (dense ? 8 * b.inner >= b.outer : 8 * b.outer < b.inner) return b;
  return {b.at, b.outer_stride, b.inner_stride, b.outer, b.inner, b.outer_step, b.inner_step};
}

void zero(std::int64_t a, std::int64_t a_step, std::int64_t b, std::int64_t b_step, float* out) {
  for (std::int64_t i = 0; i < a; ++i)
    for (std::int64_t j = 0; j < b; ++j) out[i * a_step + j * b_step] = 0;
}

void drop_not_finite(std::int64_t n, float* values) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = values[i] - values[i] == 0 ? values[i] : 0;
}

// Calls fill(first row, rows, where to, row step, k step) for each panel.
template <class Fill>
void for_panels(std::int64_t count, std::int64_t k, int width, float* out, const Fill& fill) {
  if (width == 1) return fill(0, count, out, k, 1);
  for (std::int64_t r = 0; r < count; r += width) {
    const std::int64_t n = std::min<std::int64_t>(width, count - r);
    float* const panel = out + r * k;
    if (n < width) std::fill_n(panel, width * k, 0.0f);
    fill(r, n, panel, 1, width);
  }
}

std::int64_t packed(std::int64_t count, std::int64_t k, int width) {
  return (count + width - 1) / width * width * k;
}

}  // namespace

void WindowMatrix::fill(std::int64_t p0, std::int64_t places, std::int64_t k0, std::int64_t depth,
                        float* out, std::int64_t place_step, std::int64_t k_step) const {
  for (std::int64_t k = k0; k < k0 + depth;) {
    const std::int64_t tap = k / w_.tap_depth, c = k % w_.tap_depth;
    const std::int64_t n = std::min(w_.tap_depth - c, k0 + depth - k);
    const std::int64_t real = std::clamp<std::int64_t>(w_.channels - c, 0, n);
    float* const to = out + (k - k0) * k_step;
    if (real > 0) fill_tap(tap, c, real, p0, places, to, place_step, k_step);
    zero(places, place_step, n - real, k_step, to + real * k_step);
    k += n;
  }
}

void WindowMatrix::fill_tap(std::int64_t tap, std::int64_t channel, std::int64_t channels,
                            std::int64_t p0, std::int64_t places, float* out,
                            std::int64_t place_step, std::int64_t k_step) const {
  const View& v = *image_.view;
  const Strides& s = v.strides;
  const std::int64_t wide = w_.across.places, high = w_.down.places;
  std::int64_t j = p0 % wide, i = p0 / wide % high, n = p0 / wide / high;
  for (std::int64_t done = 0; done < places;) {
    const std::int64_t length = std::min(wide - j, places - done);
    const std::int64_t h = w_.down.read(i, tap / w_.across.taps);
    const std::int64_t w = w_.across.read(j, tap % w_.across.taps);
    const bool in_rows = h >= 0 && h < w_.down.extent;
    Inside in(w, w_.across.per_place, w_.across.extent, in_rows ? length : 0);
    if (!in_rows) in.low = in.high = length;
    float* const to = out + done * place_step;
    zero(in.low, place_step, channels, k_step, to);
    if (in.high > in.low)
      move(
          v,
          along({n * s[0] + (image_.channel + channel) * s[1] + h * s[2] +
                     (w + in.low * w_.across.per_place) * s[3],
                 s[1], w_.across.per_place * s[3], channels, in.high - in.low, k_step, place_step}),
          to + in.low * place_step);
    zero(length - in.high, place_step, channels, k_step, to + in.high * place_step);
    done += length;
    j = 0;
    if (++i == high) i = 0, ++n;
  }
}

void WindowRows::pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k,
                      int width, float* out) const {
  for_panels(count, k, width, out,
             [&](std::int64_t r, std::int64_t n, float* to, std::int64_t row_step,
                 std::int64_t k_step) { matrix.fill(first + r, n, k0, k, to, row_step, k_step); });
  if (!matrix.finite()) drop_not_finite(packed(count, k, width), out);
}

void WindowColumns::pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k,
                         int width, float* out) const {
  for_panels(
      count, k, width, out,
      [&](std::int64_t r, std::int64_t n, float* to, std::int64_t row_step, std::int64_t k_step) {
        matrix.fill(begin + k0, k, first + r, n, to, k_step, row_step);
      });
  if (!matrix.finite()) drop_not_finite(packed(count, k, width), out);
}

WeightRows::WeightRows(const ConvProblem& p, const Windows& w, const View& weight,
                       std::int64_t group, bool finite)
    : w_(w), weight_(weight), finite_(finite) {
  const Strides& s = weight.strides;
  const bool forward = p.kind == ConvKind::conv2d;
  first_ = group * p.filters() * s[0] + w.down.first_tap * s[2] + w.across.first_tap * s[3];
  row_ = s[forward ? 0 : 1], channel_ = s[forward ? 1 : 0];
  down_ = w.down.tap_step * s[2], across_ = w.across.tap_step * s[3];
}

void WeightRows::pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k,
                      int width, float* out) const {
  for_panels(
      count, k, width, out,
      [&](std::int64_t r, std::int64_t n, float* to, std::int64_t row_step, std::int64_t k_step) {
        for (std::int64_t at = k0; at < k0 + k;) {
          const std::int64_t tap = at / w_.tap_depth, c = at % w_.tap_depth;
          const std::int64_t depth = std::min(w_.tap_depth - c, k0 + k - at);
          const std::int64_t real = std::clamp<std::int64_t>(w_.channels - c, 0, depth);
          float* const tap_to = to + (at - k0) * k_step;
          if (real > 0)
            move(weight_,
                 along({offset(first + r, tap, c), channel_, row_, real, n, k_step, row_step}),
                 tap_to);
          zero(n, row_step, depth - real, k_step, tap_to + real * k_step);
          at += depth;
        }
      });
  if (!finite_) drop_not_finite(packed(count, k, width), out);
}

}  // namespace planck::conv_detail
