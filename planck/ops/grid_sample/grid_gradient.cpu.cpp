// dgrid on the CPU: one term a channel from the rows of a point's taps, summed in the pairwise
// order.
#include "planck/ops/grid_sample/gradients.cpu.h"

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

template <class C>
AxisWeights<C> axis_weights(SampleMode mode, C t) {
  AxisWeights<C> w;
  if (mode == SampleMode::bicubic) {
    grid_sample_math::cubic_weights(t, w.weight);
    grid_sample_math::cubic_weight_slopes(t, w.slope);
  } else {
    w.weight[0] = C(1) - t;
    w.weight[1] = t;
  }
  return w;
}

}  // namespace

template <class C>
void grid_gradient(const Stream& stream, const GridSampleProblem& p, const PointLocator<C>& where,
                   const GroupRows<C>& input, const GroupRows<C>& dout, const C* zero,
                   const View& dgrid, std::int64_t n0, std::int64_t images) {
  const SampleGeometry g = p.geometry();
  const GridPlanes to = grid_planes(dgrid);
  const SampleLoops<C>& loops = sample_loops<C>();
  const auto slopes = p.mode == SampleMode::bicubic ? loops.bicubic_slopes
                      : g.dims == 3                 ? loops.trilinear_slopes
                                                    : loops.bilinear_slopes;
  const int taps = p.taps();
  const std::int64_t readable = std::min(input.length, dout.length);
  constexpr int kAhead = 3;  // points whose rows are asked for
  constexpr std::int64_t kLine = 64 / sizeof(C);
  const std::int64_t fetched = std::min(g.channels, 4 * kLine);
  const auto tile_gradient = [&](std::int64_t image, std::int64_t begin, PointTile<C>& tile,
                                 C(*out)[kTilePoints]) {
    const C* rows[kTilePoints * kMaxTaps];
    tap_rows(p, where, tile, input.image(image), zero, rows);
    const ImageRows<C> dout_rows = dout.image(image);
    std::int64_t at[3] = {begin / (g.out[1] * g.out[2]), begin / g.out[2] % g.out[1],
                          begin % g.out[2]};
    for (int i = 0; i < tile.count; ++i) {
      if (i + kAhead < tile.count)
        for (int r = 0; r < taps; ++r) {
          const C* coming = rows[(i + kAhead) * taps + r];
          for (std::int64_t c = 0; c < fetched; c += kLine) __builtin_prefetch(coming + c);
        }
      AxisWeights<C> axes[3];
      for (int d = 3 - g.dims; d < 3; ++d)
        axes[d - 3 + g.dims] = axis_weights(p.mode, tile.axis[d].t[i]);
      C sums[3];
      slopes(rows + i * taps, dout_rows(at[0], at[1], at[2]), axes, g.channels, readable, sums);
      for (int d = 3 - g.dims; d < 3; ++d) {
        const C slope = tile.axis[d].slope[i];
        out[d][i] =
            slope == C(0) ? C(0) : grid_sample_math::canonical(sums[d - 3 + g.dims] * slope);
      }
      if (++at[2] == g.out[2]) {
        at[2] = 0;
        if (++at[1] == g.out[1]) {
          at[1] = 0;
          ++at[0];
        }
      }
    }
  };
  for_positions(
      stream, images, g.points(), task_positions(g.channels),
      [&](std::int64_t image, std::int64_t first, std::int64_t total) {
        PointTile<C> tile;
        C out[3][kTilePoints] = {};
        for (std::int64_t begin = first; begin < first + total; begin += kTilePoints) {
          const int count =
              static_cast<int>(std::min<std::int64_t>(kTilePoints, first + total - begin));
          if (p.mode != SampleMode::nearest) {
            where.locate(n0 + image, begin, count, tile);
            tile_gradient(image, begin, tile, out);
          }
          for (int d = 3 - g.dims; d < 3; ++d) {
            const C* from = out[d];
            to.walk.runs(
                begin, count, [&](std::int64_t at, std::int64_t stride, std::int64_t length) {
                  store_block(block_ops(), dgrid.dtype, dgrid.data,
                              (n0 + image) * to.batch_stride + (2 - d) * to.component_stride + at,
                              stride, static_cast<int>(length), from);
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
