// "cpu:taps": forward, tap by tap over a row of windows, in vectors. Taps come in row-major order,
// so that every window sees its pixels in the order of its promise. [8, 16, 224, 224] f32, 3 x 3,
// stride 2, one thread, against cpu:rows: max 45 to 6.9 ms, average 17 to 5.3 ms.
#include "planck/ops/pool/cpu/counts.h"
#include "planck/ops/pool/cpu/kernels.h"
#include "planck/ops/pool/cpu/planes.h"
#include "planck/ops/pool/cpu/tap_loops.h"

namespace planck {

namespace {

template <class C>
class Taps {
 public:
  Taps(const PoolProblem& p, const Operands& o)
      : problem_(p),
        axes_(p.axes()),
        x_(o[0]),
        y_(o[1]),
        indices_(o[p.largest() ? 2 : 1]),
        in_place_(p.element_dtype == dtype_of<C> && x_.column == 1),
        windows_((kPortion - span(axes_.columns)) / axes_.columns.stride + 1),
        loops_(tap_loops<C>()) {}

  static std::int64_t span(const PoolAxis& a) { return a.dilation * (a.kernel - 1) + 1; }

  void run(std::int64_t plane, std::int64_t begin, std::int64_t end) const {
    for (std::int64_t oh = begin; oh < end; ++oh)
      for (std::int64_t c = 0; c < axes_.columns.out; c += windows_)
        portion(plane, oh, c, std::min(windows_, axes_.columns.out - c));
  }

 private:
  // Windows [first, first + n) of row oh.
  void portion(std::int64_t plane, std::int64_t oh, std::int64_t first, std::int64_t n) const {
    alignas(64) C results[kPortion], pixels[kPortion];
    alignas(64) std::int32_t chosen[kPortion];
    const bool largest = problem_.largest();
    const PoolAxis& columns = axes_.columns;
    std::fill_n(results, n, largest ? pool_math::lowest(C{}) : C(0));
    if (largest) std::fill_n(chosen, n, -1);
    const std::int64_t w0 = std::max<std::int64_t>(0, columns.start(first));
    const std::int64_t w1 = std::min(columns.in, columns.start(first + n - 1) + span(columns));
    for (std::int64_t h = axes_.rows.begin(oh); h < axes_.rows.end(oh); h += axes_.rows.dilation) {
      const std::int64_t at = x_.offset(plane) + h * x_.row + w0 * x_.column;
      const C* row = pixels;
      if (in_place_)
        row = static_cast<const C*>(x_.view->data) + at;
      else if (w0 < w1)
        load_portion(portion_ops(), problem_.element_dtype, x_.view->data, at, x_.column,
                     static_cast<int>(w1 - w0), pixels);
      for (std::int64_t k = 0; k < columns.kernel; ++k) {
        // Windows o of the portion whose tap k, at o * stride + shift, is a pixel.
        const std::int64_t shift = k * columns.dilation - columns.padding;
        const std::int64_t step = columns.stride;
        std::int64_t low = first, high = first + n;
        if (low * step + shift < 0) low = (step - 1 - shift) / step;
        if ((high - 1) * step + shift >= columns.in) high = (columns.in - shift + step - 1) / step;
        if (low >= high) continue;
        const std::int64_t w = low * step + shift;
        const Tap<C> tap = {row + (w - w0), step, static_cast<int>(high - low),
                            static_cast<std::int32_t>(h * columns.in + w)};
        if (largest)
          loops_.largest(tap, results + (low - first), chosen + (low - first));
        else
          loops_.add(tap, results + (low - first));
      }
    }
    finish(plane, oh, first, static_cast<int>(n), results, chosen);
  }

  void finish(std::int64_t plane, std::int64_t oh, std::int64_t first, int n, C* results,
              const std::int32_t* chosen) const {
    if (problem_.largest()) {
      loops_.settle(results, n);
      std::int32_t* to =
          indices_.at<std::int32_t>(plane) + oh * indices_.row + first * indices_.column;
      for (int i = 0; i < n; ++i) to[i * indices_.column] = chosen[i];
    } else {
      alignas(64) C counts[kPortion];
      window_counts(axes_.columns, axes_.rows.count(oh), first, n, counts);
      loops_.divide(results, counts, n);
    }
    store_portion(portion_ops(), problem_.element_dtype, y_.view->data,
                  y_.offset(plane) + oh * y_.row + first * y_.column, y_.column, n, results);
  }

  const PoolProblem& problem_;
  PoolAxes axes_;
  Planes x_, y_, indices_;
  bool in_place_;
  std::int64_t windows_;  // of a portion: their pixels fit a buffer
  const TapLoops<C>& loops_;
};

template <class C>
void run(const Stream& stream, const PoolProblem& p, const Operands& o) {
  const Taps<C> taps(p, o);
  const PoolAxes axes = p.axes();
  const std::int64_t height = std::max<std::int64_t>(1, axes.rows.in / axes.rows.out);
  for_plane_rows(stream, p.planes(), axes.rows.out, height * axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   taps.run(plane, begin, end);
                 });
}

}  // namespace

std::string pool_taps_refusal(const PoolProblem& p) {
  if (p.backward() && p.axes().columns.kernel > kMostTapsBackward)
    return "serves gradients of windows of up to " + std::to_string(kMostTapsBackward) + " columns";
  if (p.element_dtype == Dtype::s8) return "computes floats, x is s8";
  const PoolAxis columns = p.axes().columns;
  if (columns.kernel == 0) return "serves windows of one size";
  if (columns.out < 8) return "serves rows of 8 windows or more";
  if (const std::int64_t span = columns.dilation * (columns.kernel - 1) + 1; span > kMostTapsSpan)
    return "serves windows of up to " + std::to_string(kMostTapsSpan) + " columns, they span " +
           std::to_string(span);
  return "";
}

Result<void> pool_taps_cpu(const Stream& stream, Workspace, const PoolProblem& p,
                           const Operands& o) {
  if (p.backward()) return pool_taps_backward_cpu(stream, p, o);
  if (p.element_dtype == Dtype::f64)
    run<double>(stream, p, o);
  else
    run<float>(stream, p, o);
  return {};
}

}  // namespace planck
