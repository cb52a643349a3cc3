// "cpu:rows": any windows. Forward, element by element; backward, a row of the image at a time, to
// which the windows that reach it add in their order: the same sums as pixel by pixel, with one
// division a window and row.
#include "planck/ops/pool/kernels.h"
#include "planck/ops/pool/planes.cpu.h"

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
                         const auto best = pm::largest(from, axes, oh, ow);
                         value = static_cast<T>(best.value);
                         chosen[oh * indices.row + ow * indices.column] = best.position;
                       } else if constexpr (!std::same_as<T, std::int8_t>) {
                         value = static_cast<T>(pm::average(from, axes, oh, ow));
                       }
                     }
                 });
}

// Pixels [begin, begin + n) of row h.
struct Span {
  std::int64_t h, begin, n;
};

template <class T, class C>
void add_chosen(const PoolPlane<T, C>& dy, const PoolPlane<std::int32_t, std::int32_t>& indices,
                const PoolAxes& axes, const Span& s, C* sums) {
  const PoolAxis& columns = axes.columns;
  const std::int64_t first = s.h * columns.in + s.begin;
  const std::int64_t ow0 = columns.first_window(s.begin);
  const std::int64_t ow1 = columns.last_window(s.begin + s.n - 1);
  const std::int64_t oh1 = axes.rows.last_window(s.h);
  for (std::int64_t oh = axes.rows.first_window(s.h); oh < oh1; ++oh) {
    if (!axes.rows.steps_on(oh, s.h)) continue;
    for (std::int64_t ow = ow0; ow < ow1; ++ow) {
      const std::int64_t k = indices.at(oh, ow) - first, w = s.begin + k;
      if (k < 0 || k >= s.n) continue;
      if (w >= columns.begin(ow) && w < columns.end(ow) && columns.steps_on(ow, w))
        sums[k] += dy.at(oh, ow);
    }
  }
}

template <class T, class C>
void add_shares(const PoolPlane<T, C>& dy, const PoolAxes& axes, const Span& s, C* sums) {
  const std::int64_t end = s.begin + s.n;
  const std::int64_t ow0 = axes.columns.first_window(s.begin);
  const std::int64_t ow1 = axes.columns.last_window(end - 1);
  const std::int64_t oh1 = axes.rows.last_window(s.h);
  for (std::int64_t oh = axes.rows.first_window(s.h); oh < oh1; ++oh) {
    const std::int64_t along = axes.rows.count(oh);
    for (std::int64_t ow = ow0; ow < ow1; ++ow) {
      const C share = dy.at(oh, ow) / static_cast<C>(along * axes.columns.count(ow));
      const std::int64_t w0 = std::max(s.begin, axes.columns.begin(ow)) - s.begin;
      const std::int64_t w1 = std::min(end, axes.columns.end(ow)) - s.begin;
      for (std::int64_t w = w0; w < w1; ++w) sums[w] += share;
    }
  }
}

template <class T>
void backward(const Stream& stream, const PoolProblem& p, const Operands& o) {
  using C = ComputeOf<T>;
  const PoolAxes axes = p.axes();
  const Planes dy(o[0]), indices(o[p.largest() ? 1 : 0]), dx(o[p.largest() ? 2 : 1]);
  for_plane_rows(stream, p.planes(), axes.rows.in, axes.columns.in,
                 [&](std::int64_t plane, std::int64_t begin, std::int64_t end) {
                   alignas(64) C sums[kBlock];
                   const auto from = plane_of<T, C>(dy, plane);
                   for (std::int64_t h = begin; h < end; ++h)
                     for (std::int64_t w = 0; w < axes.columns.in; w += kBlock) {
                       const Span s = {h, w, std::min<std::int64_t>(kBlock, axes.columns.in - w)};
                       std::fill_n(sums, s.n, C(0));
                       if (p.largest())
                         add_chosen(from, plane_of<std::int32_t, std::int32_t>(indices, plane),
                                    axes, s, sums);
                       else
                         add_shares(from, axes, s, sums);
                       for (std::int64_t k = 0; k < s.n; ++k) sums[k] = pm::settled(sums[k]);
                       store_block(block_ops(), p.element_dtype, dx.view->data,
                                   dx.offset(plane) + h * dx.row + w * dx.column, dx.column,
                                   static_cast<int>(s.n), sums);
                     }
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
    p.backward() ? backward<T>(stream, p, o) : forward<T>(stream, p, o);
    return {};
  });
}

}  // namespace planck
