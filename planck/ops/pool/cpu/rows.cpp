// "cpu:rows": any windows. Forward, element by element; backward, a row of the image at a time, to
// which the windows that reach it add in their order: the same sums as pixel by pixel, with one
// division per window and row, and none for a row of averages with the windows of the one before.
#include "planck/ops/pool/cpu/kernels.h"
#include "planck/ops/pool/cpu/planes.h"

namespace planck {

namespace {

namespace pm = pool_math;

template <class T>
using ComputeOf = std::conditional_t<std::same_as<T, double>, double,
                                     std::conditional_t<std::same_as<T, std::int8_t>, T, float>>;

template <class T, class C>
PoolPlane<T, C> plane_of(const Planes& planes, std::int64_t plane) {
  return {planes.at<T>(plane), planes.row, planes.column};
}

template <class T>
void forward(const Stream& stream, const PoolProblem& p, const Operands& o) {
  using C = ComputeOf<T>;
  const PoolAxes axes = p.axes();
  const Planes x(o[0]), y(o[1]), indices(o[p.largest() ? 2 : 1]);
  const std::int64_t pixels = std::max<std::int64_t>(1, axes.rows.in / axes.rows.out);
  for_plane_rows(stream, p.planes(), axes.rows.out, pixels * axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   const auto from = plane_of<T, C>(x, plane);
                   T* to = y.at<T>(plane);
                   std::int32_t* chosen = p.largest() ? indices.at<std::int32_t>(plane) : nullptr;
                   for (std::int64_t oh = begin; oh < end; ++oh)
                     for (std::int64_t ow = 0; ow < axes.columns.out; ++ow) {
                       T& value = to[oh * y.row + ow * y.column];
                       if (p.largest()) {
                         pm::Largest<C> best[1];
                         pm::largest(from, axes, pixels_of(axes, oh, ow), best);
                         value = static_cast<T>(best[0].value);
                         chosen[oh * indices.row + ow * indices.column] = best[0].position;
                       } else if constexpr (!std::same_as<T, std::int8_t>) {
                         C average[1];
                         pm::average(from, pixels_of(axes, oh, ow), pm::divisor<C>(axes, oh, ow),
                                     average);
                         value = static_cast<T>(average[0]);
                       }
                     }
                 });
}

// One window per plane: the sums of several planes side by side, each in its order, hide the
// latency of an addition (64 x 64 planes of 8 x 8, one thread: 0.18 to 0.07 ms).
template <class T>
void average_planes(const Stream& stream, const PoolProblem& p, const Operands& o) {
  using C = ComputeOf<T>;
  constexpr std::int64_t kTogether = 8;
  const PoolAxes axes = p.axes();
  const Planes x(o[0]), y(o[1]);
  const std::int64_t h0 = axes.rows.begin(0), h1 = axes.rows.end(0);
  const std::int64_t w0 = axes.columns.begin(0), w1 = axes.columns.end(0);
  const auto count = static_cast<C>(axes.rows.count(0) * axes.columns.count(0));
  const std::int64_t planes = p.planes(), groups = (planes + kTogether - 1) / kTogether;
  for_plane_rows(stream, 1, groups, kTogether * axes.rows.in * axes.columns.in,
                 [&](std::int64_t, std::int64_t begin, std::int64_t end) {
                   for (std::int64_t group = begin; group < end; ++group) {
                     const T* from[kTogether];
                     C sums[kTogether] = {};
                     for (std::int64_t k = 0; k < kTogether; ++k)
                       from[k] = x.at<T>(std::min(planes - 1, group * kTogether + k));
                     for (std::int64_t h = h0; h < h1; ++h)
                       for (std::int64_t w = w0; w < w1; ++w)
                         for (std::int64_t k = 0; k < kTogether; ++k)
                           sums[k] += static_cast<C>(from[k][h * x.row + w * x.column]);
                     for (std::int64_t k = 0; k < kTogether && group * kTogether + k < planes; ++k)
                       *y.at<T>(group * kTogether + k) =
                           static_cast<T>(pm::settled(sums[k] / count));
                   }
                 });
}

// Pixels [begin, begin + n) of a row, and the windows that reach them.
struct Span {
  Span(const PoolAxis& columns, std::int64_t first, std::int64_t count)
      : begin(first),
        n(count),
        first_window(columns.first_window(first)),
        last_window(columns.last_window(first + count - 1)) {}
  std::int64_t begin, n, first_window, last_window;
};

// Each adds to row h what the windows of row oh have for it.
template <class T, class C>
void add_chosen(const PoolPlane<T, C>& dy, const PoolPlane<std::int32_t, std::int32_t>& indices,
                const PoolAxes& axes, std::int64_t oh, std::int64_t h, const Span& s, C* sums) {
  const PoolAxis& columns = axes.columns;
  const std::int64_t first = h * columns.in + s.begin;
  for (std::int64_t ow = s.first_window; ow < s.last_window; ++ow) {
    const std::int64_t k = indices.at(oh, ow) - first, w = s.begin + k;
    if (k < 0 || k >= s.n) continue;
    if (w >= columns.begin(ow) && w < columns.end(ow) && columns.steps_on(ow, w))
      sums[k] += dy.at(oh, ow);
  }
}
template <class T, class C>
void add_shares(const PoolPlane<T, C>& dy, const PoolAxes& axes, std::int64_t oh, const Span& s,
                C* sums) {
  const std::int64_t along = axes.rows.count(oh);
  for (std::int64_t ow = s.first_window; ow < s.last_window; ++ow) {
    const C share = dy.at(oh, ow) / static_cast<C>(along * axes.columns.count(ow));
    const std::int64_t w0 = std::max(s.begin, axes.columns.begin(ow)) - s.begin;
    const std::int64_t w1 = std::min(s.begin + s.n, axes.columns.end(ow)) - s.begin;
    for (std::int64_t w = w0; w < w1; ++w) sums[w] += share;
  }
}

template <class T>
void backward(const Stream& stream, const PoolProblem& p, const Operands& o) {
  using C = ComputeOf<T>;
  const PoolAxes axes = p.axes();
  const Planes dy(o[0]), indices(o[p.largest() ? 1 : 0]), dx(o[p.largest() ? 2 : 1]);
  const bool in_place = std::same_as<T, C> && dx.column == 1;
  const auto rows = [&](std::int64_t plane, std::int64_t begin, std::int64_t end, const Span& s) {
    alignas(64) C buffer[kPortion];
    const auto from = plane_of<T, C>(dy, plane);
    PoolPlane<std::int32_t, std::int32_t> chosen{};
    if (p.largest()) chosen = plane_of<std::int32_t, std::int32_t>(indices, plane);
    const std::int64_t to = dx.offset(plane) + s.begin * dx.column;
    std::int64_t first = axes.rows.first_window(begin), last = first, first_before = -1,
                 last_before = -1;
    for (std::int64_t h = begin; h < end; ++h) {
      C* sums = buffer;
      if constexpr (std::same_as<T, C>)
        if (in_place) sums = static_cast<C*>(dx.view->data) + to + h * dx.row;
      while (first < axes.rows.out && axes.rows.end(first) <= h) ++first;
      last = std::max(first, last);
      while (last < axes.rows.out && axes.rows.start(last) <= h) ++last;
      if (!p.largest() && first == first_before && last == last_before) {  // as the row before
        if (in_place) std::copy_n(sums - dx.row, s.n, sums);
      } else {
        std::fill_n(sums, s.n, C(0));
        for (std::int64_t oh = first; oh < last; ++oh) {
          if (!p.largest())
            add_shares(from, axes, oh, s, sums);
          else if (axes.rows.steps_on(oh, h))
            add_chosen(from, chosen, axes, oh, h, s, sums);
        }
        for (std::int64_t k = 0; k < s.n; ++k) sums[k] = pm::settled(sums[k]);
      }
      first_before = first;
      last_before = last;
      if (!in_place)
        store_portion(portion_ops(), p.element_dtype, dx.view->data, to + h * dx.row, dx.column,
                      static_cast<int>(s.n), sums);
    }
  };
  for_plane_rows(stream, p.planes(), axes.rows.in, axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   const std::int64_t width = axes.columns.in;
                   for (std::int64_t w = 0; w < width; w += kPortion)
                     rows(plane, begin, end,
                          Span(axes.columns, w, std::min<std::int64_t>(kPortion, width - w)));
                 });
}

}  // namespace

Result<void> pool_rows_cpu(const Stream& stream, Workspace, const PoolProblem& p,
                           const Operands& o) {
  if (p.element_dtype == Dtype::s8) {
    forward<std::int8_t>(stream, p, o);
    return {};
  }
  return visit_float(p.element_dtype, [&](auto type) -> Result<void> {
    using T = typename decltype(type)::type;
    const PoolAxes axes = p.axes();
    if (p.backward())
      backward<T>(stream, p, o);
    else if (!p.largest() && axes.rows.out == 1 && axes.columns.out == 1)
      average_planes<T>(stream, p, o);
    else
      forward<T>(stream, p, o);
    return {};
  });
}

}  // namespace planck
