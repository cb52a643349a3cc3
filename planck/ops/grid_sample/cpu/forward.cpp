// grid_sample forward on the CPU.
//
// cpu:channels_last   images are brought to channels-last rows of the compute type, a few at a time
//                     (unless they are rows already), and every point adds up its taps' rows, all
//                     channels at once; tiles of 64 points go back to the output's layout. Reads
//                     are whole rows wherever the points fall
// cpu:direct          taps are gathered from the input as it is: for few points, and for callers
//                     without workspace
//
// cpu:channels_last, one thread, f32, ms:
//   N8 C32 128 × 128   copy of the input                                    1.2
//                      plain loops over channels and squares of 4            18
//                      squares of 16                                        8.7
//                      sums as vectors                                      4.9
//                      streaming stores                                     4.1
//                      the same, a random grid                              5.4
//   N8 C3 256 × 256    copy of the input                                    0.45
//                      first version                                        18
//                      rows of four channels in place of padding to 16      8.3
//                      dense loads of the grid                              4.9
#include "planck/ops/grid_sample/cpu/kernels.h"
#include "planck/ops/grid_sample/cpu/nearest.h"
#include "planck/ops/grid_sample/cpu/points.h"
#include "planck/ops/grid_sample/cpu/staging.h"

namespace planck {

namespace {

std::int64_t staged_row(const GridSampleProblem& p) { return row_length(p.geometry().channels); }

std::size_t image_bytes(const GridSampleProblem& p) {
  return static_cast<std::size_t>(p.geometry().pixels() * staged_row(p)) *
         storage_bytes(compute_dtype(p.dtype));
}

// A gathered tap costs about as much as staging eight elements.
bool worth_staging(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  return g.points() * p.taps() >= g.pixels() / 8;
}

// Points of one tile: rows are the taps' rows from channel c0 on.
template <class C>
void sum_taps(const GridSampleProblem& p, const PointTile<C>& tile, const C* const* rows,
              const C* weights, std::int64_t channels, C* out, int step) {
  if (p.mode == SampleMode::bicubic)
    sample_loops<C>().cubic_sums(rows, weights, tile.count, channels, out, step);
  else
    sample_loops<C>().weighted_sums(rows, weights, nullptr, p.taps(), tile.count, channels, out,
                                    step);
}

template <class C>
struct Buffers {
  PointTile<C> tile;
  const C* rows[kTilePoints * kMaxTaps];
  C weights[kTilePoints * kMaxTaps];
  alignas(64) C sums[kTileElements];

  void weigh(const GridSampleProblem& p, int dims) {
    if (p.mode == SampleMode::bicubic)
      cubic_tap_weights(tile, weights);
    else
      tap_weights(dims, tile, weights);
  }
};

template <class C>
void sample_rows(const Stream& stream, const GridSampleProblem& p, const Operands& operands,
                 C* workspace) {
  using Role = sample_operand::Forward;
  const SampleGeometry g = p.geometry();
  const Planes in = planes_of(operands[Role::input], g.in);
  const Planes out = planes_of(operands[Role::output], g.out);
  const PointLocator<C> where(p, operands[Role::grid]);
  const bool staged = !is_rows<C>(in);
  const int taps = p.taps();
  const std::int64_t length = row_length(g.channels);
  const std::int64_t group = staged ? group_images(g.batch, image_bytes(p)) : g.batch;
  C* const zero = workspace;
  C* const rows = workspace + length;
  std::fill_n(zero, length, C(0));
  for (std::int64_t n0 = 0; n0 < g.batch; n0 += group) {
    const std::int64_t images = std::min(group, g.batch - n0);
    if (staged) stage(stream, in, n0, images, g.pixels(), rows);
    for_positions(stream, images, g.points(), task_positions(g.channels),
                  [&](std::int64_t image, std::int64_t first, std::int64_t total) {
                    const std::int64_t n = n0 + image;
                    ImageRows<C> source{rows + image * g.pixels() * length,
                                        {g.in[1] * g.in[2] * length, g.in[2] * length, length}};
                    if (!staged)
                      source = {static_cast<const C*>(in.base) + n * in.batch_stride,
                                {in.stride[0], in.stride[1], in.stride[2]}};
                    Buffers<C> b;
                    for (std::int64_t begin = first; begin < first + total; begin += kTilePoints) {
                      where.locate(n, begin,
                                   static_cast<int>(
                                       std::min<std::int64_t>(kTilePoints, first + total - begin)),
                                   b.tile);
                      tap_rows(p, where, b.tile, source, zero, b.rows);
                      b.weigh(p, g.dims);
                      for (std::int64_t c = 0; c < g.channels; c += kChannelBlock) {
                        const int channels =
                            static_cast<int>(std::min<std::int64_t>(kChannelBlock, g.channels - c));
                        if (c > 0)
                          for (int k = 0; k < b.tile.count * taps; ++k) b.rows[k] += kChannelBlock;
                        // Of a staged row the padding may be read too: whole vectors.
                        const std::int64_t read =
                            staged ? std::min<std::int64_t>(kChannelBlock, length - c) : channels;
                        sum_taps(p, b.tile, b.rows, b.weights, read, b.sums, tile_stride(channels));
                        store_rows(out, n, begin, b.tile.count, c, channels, b.sums);
                      }
                    }
                  });
  }
}

template <class C>
void sample_direct(const Stream& stream, const GridSampleProblem& p, const Operands& operands) {
  using Role = sample_operand::Forward;
  constexpr int kPoints = 4, kChannels = 64;
  const SampleGeometry g = p.geometry();
  const Planes in = planes_of(operands[Role::input], g.in);
  const Planes out = planes_of(operands[Role::output], g.out);
  const PointLocator<C> where(p, operands[Role::grid]);
  for_positions(
      stream, g.batch, g.points(), task_positions(g.channels) / 8,
      [&](std::int64_t n, std::int64_t first, std::int64_t total) {
        Buffers<C> b;
        alignas(64) C gathered[kPoints * kMaxTaps * kChannels];
        const C zero[kChannels] = {};
        for (std::int64_t begin = first; begin < first + total; begin += kPoints) {
          where.locate(n, begin,
                       static_cast<int>(std::min<std::int64_t>(kPoints, first + total - begin)),
                       b.tile);
          b.weigh(p, g.dims);
          for (std::int64_t c = 0; c < g.channels; c += kChannels) {
            const int channels =
                static_cast<int>(std::min<std::int64_t>(kChannels, g.channels - c));
            C* to = gathered;
            const auto gather = [&](std::int64_t z, std::int64_t y, std::int64_t x) {
              load_portion(portion_ops(), in.dtype, in.base,
                           n * in.batch_stride + c * in.channel_stride + z * in.stride[0] +
                               y * in.stride[1] + x * in.stride[2],
                           in.channel_stride, channels, to);
              to += kChannels;
              return to - kChannels;
            };
            tap_rows(p, where, b.tile, gather, zero, b.rows);
            sum_taps(p, b.tile, b.rows, b.weights, channels, b.sums, tile_stride(channels));
            store_rows(out, n, begin, b.tile.count, c, channels, b.sums);
          }
        }
      });
}

}  // namespace

std::size_t grid_sample_channels_last_cpu_workspace(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  if (p.mode == SampleMode::nearest || !worth_staging(p)) return 0;
  return static_cast<std::size_t>(staged_row(p)) * storage_bytes(compute_dtype(p.dtype)) +
         static_cast<std::size_t>(group_images(g.batch, image_bytes(p))) * image_bytes(p);
}

Result<void> grid_sample_channels_last_cpu(const Stream& stream, Workspace workspace,
                                           const GridSampleProblem& p, const Operands& operands) {
  if (p.mode == SampleMode::nearest || !worth_staging(p))
    return grid_sample_direct_cpu(stream, workspace, p, operands);
  if (p.dtype == Dtype::f64)
    sample_rows(stream, p, operands, static_cast<double*>(workspace.data));
  else
    sample_rows(stream, p, operands, static_cast<float*>(workspace.data));
  return {};
}

std::size_t grid_sample_direct_cpu_workspace(const GridSampleProblem&) { return 0; }

Result<void> grid_sample_direct_cpu(const Stream& stream, Workspace, const GridSampleProblem& p,
                                    const Operands& operands) {
  if (p.mode == SampleMode::nearest) return grid_sample_nearest_cpu(stream, p, operands);
  if (p.dtype == Dtype::f64)
    sample_direct<double>(stream, p, operands);
  else
    sample_direct<float>(stream, p, operands);
  return {};
}

}  // namespace planck
