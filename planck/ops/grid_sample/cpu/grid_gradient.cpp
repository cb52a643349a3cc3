// dgrid on the CPU: one term per channel from the rows of a point's taps, summed in the pairwise
// order.
#include "planck/ops/grid_sample/cpu/gradients.h"

namespace planck {

namespace {

// Where a component of dgrid goes.
struct GridPlanes {
  Walk walk;
  std::int64_t batch_stride, component_stride;
};

GridPlanes grid_planes(const View& v) {
  const int dims = v.shape.rank() - 2;
  NestStrides extent{}, stride{};
  for (int d = 0; d < dims; ++d) {
    extent[static_cast<std::size_t>(d)] = v.shape[1 + d];
    stride[static_cast<std::size_t>(d)] = v.strides[1 + d];
  }
  return {walk_of(make_nest(dims, extent, {&stride, 1}), 0), v.strides[0], v.strides[dims + 1]};
}

// sum = what dgrid holds + sum
template <class C>
void add_old(const View& dgrid, std::int64_t first, std::int64_t stride, int count, C* sum) {
  C old[kTilePoints];
  load_portion(portion_ops(), dgrid.dtype, dgrid.data, first, stride, count, old);
  for (int i = 0; i < count; ++i) sum[i] = grid_sample_math::canonical(old[i] + sum[i]);
}

}  // namespace

template <class C>
void grid_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                   const GroupRows<C>& input, const GroupRows<C>& dout, const C* zero,
                   const View& dgrid, std::int64_t n0, std::int64_t images) {
  const SampleGeometry g = p.geometry();
  const GridPlanes to = grid_planes(dgrid);
  const auto tile_gradient = [&](std::int64_t image, std::int64_t begin, const PointTile<C>& tile,
                                 C(*out)[kTilePoints]) {
    const C* rows[kTilePoints * kMaxTaps];
    const C* of_dout[kTilePoints];
    tap_rows(p, where, tile, input.image(image), zero, rows);
    const ImageRows<C> dout_rows = dout.image(image);
    std::int64_t z = begin / (g.out[1] * g.out[2]), y = begin / g.out[2] % g.out[1],
                 x = begin % g.out[2];
    for (int i = 0; i < tile.count; ++i) {
      of_dout[i] = dout_rows(z, y, x);
      if (++x < g.out[2]) continue;
      x = 0;
      if (++y < g.out[1]) continue;
      y = 0;
      ++z;
    }
    sample_loops<C>().tile_slopes(p.mode, g.dims,
                                  {rows, of_dout, tile.axis, tile.count, g.channels,
                                   std::min(input.length, dout.length), out});
  };
  for_positions(
      stream, images, g.points(), task_positions(g.channels),
      [&](std::int64_t image, std::int64_t first, std::int64_t total) {
        PointTile<C> tile;
        C out[3][kTilePoints] = {};
        for (std::int64_t begin = first; begin < first + total; begin += kTilePoints) {
          const int count =
              static_cast<int>(std::min<std::int64_t>(kTilePoints, first + total - begin));
          if (p.mode == SampleMode::nearest) {
            std::fill_n(&out[0][0], 3 * kTilePoints, C(0));
          } else {
            where.locate(n0 + image, begin, count, tile);
            tile_gradient(image, begin, tile, out);
          }
          for (int d = 3 - g.dims; d < 3; ++d) {
            C* from = out[d];
            to.walk.runs(
                begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
                  at += (n0 + image) * to.batch_stride + (2 - d) * to.component_stride;
                  const int n = static_cast<int>(length);
                  if (p.accumulate_grid) add_old(dgrid, at, stride, n, from);
                  store_portion(portion_ops(), dgrid.dtype, dgrid.data, at, stride, n, from);
                  from += length;
                });
          }
        }
      });
}

template void grid_gradient(const Stream&, const GridSampleProblem&, const PointLocator<float>&,
                            const GroupRows<float>&, const GroupRows<float>&, const float*,
                            const View&, std::int64_t, std::int64_t);
template void grid_gradient(const Stream&, const GridSampleProblem&, const PointLocator<double>&,
                            const GroupRows<double>&, const GroupRows<double>&, const double*,
                            const View&, std::int64_t, std::int64_t);

}  // namespace planck
