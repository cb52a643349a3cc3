// "cpu:taps" backward: a row of the image at a time, tap by tap over the windows that reach it, the
// last tap first: then every pixel meets its windows in ascending order.
#include "planck/ops/pool/cpu/counts.h"
#include "planck/ops/pool/cpu/kernels.h"
#include "planck/ops/pool/cpu/planes.h"
#include "planck/ops/pool/cpu/tap_loops.h"

namespace planck {

namespace {

// Pixels per portion: no more windows reach them than a buffer holds.
constexpr std::int64_t kPixels = kPortion - kMostTapsSpan;

template <class C>
class TapsBackward {
 public:
  TapsBackward(const PoolProblem& p, const Operands& o)
      : problem_(p),
        axes_(p.axes()),
        dy_(o[0]),
        indices_(o[p.largest() ? 1 : 0]),
        dx_(o[p.largest() ? 2 : 1]),
        loops_(tap_loops<C>()) {}

  void run(std::int64_t plane, std::int64_t begin, std::int64_t end) const {
    const std::int64_t width = axes_.columns.in;
    for (std::int64_t w = 0; w < width; w += kPixels)
      for (std::int64_t h = begin; h < end; ++h) portion(plane, h, w, std::min(kPixels, width - w));
  }

 private:
  // Pixels [begin, begin + n) of row h.
  void portion(std::int64_t plane, std::int64_t h, std::int64_t begin, std::int64_t n) const {
    alignas(64) C sums[kPixels], shares[kPortion];
    alignas(64) std::int32_t chosen[kPortion];
    const PoolAxis& columns = axes_.columns;
    const std::int64_t step = columns.stride, first = columns.first_window(begin),
                       last = columns.last_window(begin + n - 1);
    std::fill_n(sums, n, C(0));
    const std::int64_t row_end = axes_.rows.last_window(h);
    for (std::int64_t oh = axes_.rows.first_window(h); oh < row_end && first < last; ++oh) {
      if (!axes_.rows.steps_on(oh, h)) continue;
      load(plane, oh, first, static_cast<int>(last - first), shares, chosen);
      for (std::int64_t k = columns.kernel - 1; k >= 0; --k) {
        // Windows o whose tap k, at begin + o * step + shift, is one of the pixels.
        const std::int64_t shift = k * columns.dilation - columns.padding - begin;
        std::int64_t low = first, high = last;
        if (low * step + shift < 0) low = (step - 1 - shift) / step;
        if ((high - 1) * step + shift >= n) high = (n - shift + step - 1) / step;
        if (low >= high) continue;
        const std::int64_t at = low * step + shift;
        const int count = static_cast<int>(high - low);
        if (problem_.largest())
          loops_.give(shares + (low - first), chosen + (low - first),
                      static_cast<std::int32_t>(h * columns.in + begin + at), step, count,
                      sums + at);
        else
          loops_.spread(shares + (low - first), step, count, sums + at);
      }
    }
    loops_.settle(sums, static_cast<int>(n));
    store_portion(portion_ops(), problem_.element_dtype, dx_.view->data,
                  dx_.offset(plane) + h * dx_.row + begin * dx_.column, dx_.column,
                  static_cast<int>(n), sums);
  }

  // What windows [first, first + n) of row oh have to give, and to whom.
  void load(std::int64_t plane, std::int64_t oh, std::int64_t first, int n, C* shares,
            std::int32_t* chosen) const {
    load_portion(portion_ops(), problem_.element_dtype, dy_.view->data,
                 dy_.offset(plane) + oh * dy_.row + first * dy_.column, dy_.column, n, shares);
    if (problem_.largest()) {
      portion_ops().load_i32(indices_.view->data,
                             indices_.offset(plane) + oh * indices_.row + first * indices_.column,
                             indices_.column, n, chosen);
      return;
    }
    alignas(64) C counts[kPortion];
    window_counts(axes_.columns, axes_.rows.count(oh), first, n, counts);
    loops_.divide(shares, counts, n);
  }

  const PoolProblem& problem_;
  PoolAxes axes_;
  Planes dy_, indices_, dx_;
  const TapLoops<C>& loops_;
};

template <class C>
void run(const Stream& stream, const PoolProblem& p, const Operands& o) {
  const TapsBackward<C> taps(p, o);
  const PoolAxes axes = p.axes();
  for_plane_rows(stream, p.planes(), axes.rows.in, axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   taps.run(plane, begin, end);
                 });
}

}  // namespace

Result<void> pool_taps_backward_cpu(const Stream& stream, const PoolProblem& p, const Operands& o) {
  if (p.element_dtype == Dtype::f64)
    run<double>(stream, p, o);
  else
    run<float>(stream, p, o);
  return {};
}

}  // namespace planck
