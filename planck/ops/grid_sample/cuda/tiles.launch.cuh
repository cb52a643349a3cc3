// The launchers of the kernels for tiles, for one element type.
//
// Versions tried on an H200, ms, f32, affine / random grid. Affine: turned by 0.4 at most.
//                                                                  N16 C64 256^2  N16 C3 512^2
//   tiles in shared memory, 8 channels at a time, any strides      0.67 / 0.98    0.43 / 0.53
//   the same, 16 channels, weights kept, joined positions          0.59 / 1.48    0.37 / 0.50
//   threads read for themselves, dgrid of the tile's points        0.66 / 0.94    0.37 / 0.63
//   dgrid in blocks of its own between the tiles, 16 channels      0.48 / 0.91    0.34 / 0.63
//   the same, 8 channels; input fetched four channels per thread   0.43 / 1.01    0.34 / 0.63
//   that undone, blocks that walk, a list of the points with
//   dgrid (by planck bench, whose grids are others; f16
//   0.48 / 0.65; all points on one element 2.5)                    0.49 / 0.82    0.34 / 0.49
//   lists of tiles in place of sorted bins; dgrid of few
//   channels on the way                                            0.43 /  -      0.25 /  -
//   dout by way of shared memory, 16 bytes of channels per
//   round; lists by the block (f16 0.44)                           0.41 / 0.76    0.24 / 0.48
//   16-bit rows of 8 bytes, put together one round after they
//   were fetched (f16 0.40, dinput alone 0.29 -> 0.18); six
//   blocks in place of five for few channels (eight: 0.25 / 0.54)  0.41 / 0.75    0.236 / 0.48
//   lists by the warp, without barriers; few channels of dout go
//   with their points to shared memory, five blocks (four:
//   0.231 / 0.43; six: 0.213 / 0.44)                               0.41 / 0.75    0.203 / 0.42
//   weights of few channels not stored but made again: fewer
//   conflicts of banks                                             0.41 / 0.75    0.197 / 0.41
//   three blocks in place of four with dgrid of f32 (five: 0.68;
//   f16 with three: no gain)                                       0.40 / 0.75    0.197 / 0.41
// No gain: dgrid of many channels by boxes of the input (boxes.cuh) in a kernel of its own 0.50, by
// warps of 8 x 4 points 0.44, of 16 x 2 0.416; lists that are read before their length is known, of
// many channels 0.415 / 0.759.
//
// Where the time goes:
//   random         the copy of input 0.15; dgrid and the copy of dout 0.30; dinput 0.25 with four
//                  points at once per lane (0.34 where lanes look points up for each other);
//                  place 0.04
//   few channels   place 0.085, of it dgrid 0.033 (by blocks, with barriers 0.109; eight blocks in
//                  place of six 0.114); tiles 0.101
#pragma once

#include "planck/ops/grid_sample/cuda/launchers.cuh"
#include "planck/ops/grid_sample/cuda/place.cuh"
#include "planck/ops/grid_sample/cuda/tiles.few.cuh"
#include "planck/ops/grid_sample/cuda/tiles.rows.cuh"

namespace planck::sample_device {

// Which of the kernels for tiles serve, by strides and channels.
struct TilePath {
  bool joined;                 // positions of dout, grid and dgrid one stride apart
  bool unit;                   // the input's neighbours along x lie next to each other
  bool dout_rows, input_rows;  // channels of an element together, in whole vectors of 16 bytes
  bool few, rows, direct;      // rows and direct: both are queued, and the device chooses
};
inline TilePath tile_path(const GridSampleProblem& p, const Operands& o, const BinLayout& l,
                          bool slopes) {
  const View &dout = o[Backward::dout], &input = o[Backward::input];
  const std::int64_t channels = p.geometry().channels, step = dout.strides[3];
  TilePath t = {};
  t.joined = positions_joined(o[Backward::grid], true) && positions_joined(dout, false) &&
             positions_joined(o[Backward::dgrid], true) && step <= INT32_MAX && step >= INT32_MIN;
  t.unit = !slopes || (input.strides[3] == 1 && input.shape[3] > 1);
  t.dout_rows = has_vector_rows(dout);
  t.input_rows = !slopes || has_vector_rows(input);
  t.few = channels <= 4 && t.joined && t.unit;
  t.rows = t.joined && channels > 4 && (l.staged || (t.dout_rows && t.input_rows));
  t.direct = !t.rows || (t.unit && !t.dout_rows);
  return t;
}

template <class T>
Result<void> launch_stage(const Stream& stream, const GridSampleProblem& p, const View& from, T* to,
                          const TileCall<T>& a) {
  const std::int64_t width = from.shape[3], pixels = from.shape[2] * width;
  const std::int64_t channels = from.shape[1];
  const auto launch_as = [&]<class I>(I) {
    const StageCall<T, I> stage = {image_of<const T, I>(from),
                                   to,
                                   from.shape[0],
                                   channels,
                                   pixels,
                                   ceil_div(pixels, kRowPoints),
                                   ceil_div(channels, kSlab),
                                   width,
                                   positions_joined(from, false),
                                   a.neighbours,
                                   true,
                                   a.grid,
                                   frame_of<Compute<T>, I>(p)};
    const std::int64_t units = stage.tiles * stage.slabs * stage.batch;
    return launch_grid(stream, "grid_sample_backward stage", stage_rows<T, I>,
                       units < kWalkers ? units : kWalkers, 1, 1, kThreads, {0, true}, stage);
  };
  return short_span(from) ? launch_as(std::int32_t{}) : launch_as(std::int64_t{});
}

// Channels together, in the operands or in copies.
template <bool kZeros, class T>
Result<void> launch_rows(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                         TileCall<T> a, const TilePath& path, bool slopes) {
  const std::int64_t channels = a.frame.channels, points = a.frame.points;
  const std::int64_t pixels = p.geometry().pixels(), width = p.geometry().in[2];
  if (slopes && !path.input_rows) {
    if (auto ok = launch_stage<T>(stream, p, o[Backward::input], a.input_rows, a); !ok) return ok;
    a.input = {a.input_rows, pixels * channels, 1, 0, width * channels, channels};
  }
  if (slopes) {
    const std::int64_t units = ceil_div(points, kRowPoints) * a.frame.batch, most = 132 * 8;
    if (auto ok = launch_grid(stream, "grid_sample_backward dgrid",
                              path.dout_rows ? dgrid_rows<T, false> : dgrid_rows<T, true>,
                              units < most ? units : most, 1, 1, 256, {0, true}, a);
        !ok)
      return ok;
  } else if (!path.dout_rows) {
    if (auto ok = launch_stage<T>(stream, p, o[Backward::dout], a.dout_rows, a); !ok) return ok;
  }
  if (!path.dout_rows) {
    a.dout = {a.dout_rows, points * channels, 1, 0, 0, channels};
    a.dout_step = static_cast<std::int32_t>(channels);
  }
  constexpr int kBlocks = sizeof(Compute<T>) == 8 ? 2 : 4;
  const std::int64_t units = a.tiles * a.frame.batch, most = 132 * kBlocks;
  const bool out = has_vector_rows(o[Backward::dinput]);
  return launch_grid(
      stream, "grid_sample_backward dinput",
      out ? dinput_rows<T, true, kZeros, kBlocks> : dinput_rows<T, false, kZeros, kBlocks>,
      units < most ? units : most, 1, 1, 256,
      {out ? sizeof(DinputShared<T, true>) : sizeof(DinputShared<T, false>), true}, a);
}

// The rest of the first-level cache is for what threads read.
constexpr int shared_percent(std::size_t bytes, int blocks) {
  const std::size_t all = static_cast<std::size_t>(blocks) * (bytes + 1024);
  return static_cast<int>((all * 100 + 228 * 1024 - 1) / (228 * 1024));
}

template <class T, int kChannels, bool kSlopes, Reached kReached, bool kUnit, bool kZeros,
          int kBlocks>
Result<void> launch_direct(const Stream& stream, const TileCall<T>& a) {
  const std::int64_t points = a.out_across.value * ceil_div(a.frame.out[1], 8);
  const std::int64_t most = points > a.tiles ? points : a.tiles;
  constexpr int kPercent =
      shared_percent(sizeof(DirectShared<T, kReached == Reached::joined>), kBlocks);
  return launch_grid(stream, "grid_sample_backward tiles",
                     backward_direct<T, kChannels, kSlopes, kReached, kUnit, kZeros, kBlocks>,
                     kSlopes ? 2 * most : a.tiles, 1, a.frame.batch, 256, {0, true, kPercent}, a);
}

template <class T, bool kZeros, int kFew>
Result<void> launch_few(const Stream& stream, const TileCall<T>& a, bool slopes) {
  constexpr int kBlocks = sizeof(Compute<T>) == 8 ? 3 : 5;
  const auto place = slopes ? place_points<T, kZeros, kFew> : place_points<T, kZeros, 0>;
  if (auto ok = launch_grid(stream, "grid_sample_backward place", place,
                            a.out_across.value * ceil_div(a.frame.out[1], 8), 1, a.frame.batch, 256,
                            {0, true}, a);
      !ok)
    return ok;
  return launch_grid(stream, "grid_sample_backward tiles", backward_few<T, kFew, kZeros, kBlocks>,
                     a.tiles, 1, a.frame.batch, 256,
                     {0, true, shared_percent(sizeof(FewPoints<Compute<T>, kFew>), kBlocks)}, a);
}

template <bool kZeros, class T>
Result<void> launch_kernels(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                            TileCall<T> a, const TilePath& path, bool slopes) {
  constexpr int kMany = 8, kBlocks = sizeof(Compute<T>) == 8 ? 2 : 4;
  constexpr int kSlopeBlocks = sizeof(T) == 4 ? 3 : kBlocks;
  if (!path.rows || !path.direct) a.neighbours = nullptr;
  if (path.few)
    return a.frame.channels == 3 ? launch_few<T, kZeros, 3>(stream, a, slopes)
                                 : launch_few<T, kZeros, 4>(stream, a, slopes);
  if (auto ok = launch_grid(stream, "grid_sample_backward place", place_points<T, kZeros, 0>,
                            a.out_across.value * ceil_div(a.frame.out[1], 8), 1, a.frame.batch, 256,
                            {0, true}, a);
      !ok)
    return ok;
  if (path.direct) {
    a.when_scattered = false;
    const auto ok =
        path.joined && path.unit
            ? (slopes ? launch_direct<T, kMany, true, Reached::joined, true, kZeros, kSlopeBlocks>(
                            stream, a)
                      : launch_direct<T, kMany, false, Reached::joined, true, kZeros, kBlocks>(
                            stream, a))
            : (slopes ? launch_direct<T, 8, true, Reached::anyhow, false, false, 2>(stream, a)
                      : launch_direct<T, 8, false, Reached::anyhow, false, false, 2>(stream, a));
    if (!ok) return ok;
  }
  a.when_scattered = true;
  return path.rows ? launch_rows<kZeros>(stream, p, o, a, path, slopes) : Result<void>{};
}

template <class T, bool kZeros>
Result<void> launch_tiles(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o, const BinLayout& l, const BinCall& t, bool slopes) {
  using C = Compute<T>;
  const SampleGeometry g = p.geometry();
  auto* base = static_cast<std::byte*>(workspace.data);
  const TilePath path = tile_path(p, o, l, slopes);
  const TileCall<T> a = {
      image_of<const T, std::int64_t>(o[Backward::dout]),
      image_of<const T, std::int64_t>(o[Backward::input]),
      grid_of<const T>(o[Backward::grid]),
      image_of<T, std::int64_t>(o[Backward::dinput]),
      grid_of<T>(o[Backward::dgrid]),
      frame_of<C, std::int32_t>(p),
      t,
      static_cast<std::int32_t>(l.across),
      static_cast<std::int32_t>(l.bins),
      Divisor(static_cast<std::uint32_t>(g.out[2] > 0 ? ceil_div(g.out[2], 32) : 1)),
      path.joined ? static_cast<std::int32_t>(o[Backward::dout].strides[3]) : 0,
      p.accumulate,
      p.accumulate_grid,
      reinterpret_cast<Neighbours*>(base + l.control + 8),
      false,
      reinterpret_cast<T*>(base + l.dout_rows),
      reinterpret_cast<T*>(base + l.input_rows)};
  return launch_kernels<kZeros>(stream, p, o, a, path, slopes);
}

template <class T>
Result<void> launch_tiles(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o, const BinLayout& l, const BinCall& t, bool& slopes) {
  slopes = o[Backward::dgrid].present && p.geometry().channels <= kMostTileChannels;
  return p.padding == SamplePadding::zeros
             ? launch_tiles<T, true>(stream, workspace, p, o, l, t, slopes)
             : launch_tiles<T, false>(stream, workspace, p, o, l, t, slopes);
}

}  // namespace planck::sample_device

#define PLANCK_INSTANTIATE(T)                                                                      \
  namespace planck::sample_device {                                                                \
  template Result<void> launch_tiles<T>(const Stream&, Workspace, const GridSampleProblem&,        \
                                        const Operands&, const BinLayout&, const BinCall&, bool&); \
  }
