// The launchers of the backward kernels, for one element type.
//
// Versions tried on an H200, ms, f32 N16 C64 256^2 affine / random grid, then N16 C3 512^2. Affine:
// turned by 0.4 at most.
//   tiles in shared memory, 8 channels at a time, any strides          0.67 / 0.98   0.43 / 0.53
//   the same, 16 channels, weights kept, joined positions              0.59 / 1.48   0.37 / 0.50
//   threads read for themselves, dgrid of the tile's points            0.66 / 0.94   0.37 / 0.63
//   dgrid in blocks of its own between the tiles, 16 channels          0.48 / 0.91   0.34 / 0.63
//   the same, 8 channels; input fetched four channels a thread         0.43 / 1.01   0.34 / 0.63
//   that undone, blocks that walk, a list of the points with dgrid: by planck bench, whose grids
//   are others, 0.49 / 0.82, 0.34 / 0.49; f16 0.48 / 0.65; all points on one element 2.5
// Sorting takes 0.04 of it for 2^20 points and 0.11 for 2^22.
#pragma once

#include "planck/ops/grid_sample/gather.cuh"
#include "planck/ops/grid_sample/slopes.cuh"
#include "planck/ops/grid_sample/tiles.direct.cuh"
#include "planck/ops/grid_sample/tiles.staged.cuh"

namespace planck::sample_device {

inline constexpr std::int64_t kWalkers = 132 * 4;  // blocks of a kernel that walks over its work
using Backward = sample_operand::Backward;

template <class T, class I>
SlopeCall<T, I> slope_call(const GridSampleProblem& p, const Operands& o) {
  SlopeCall<T, I> a = {image_of<const T, I>(o[Backward::dout]),
                       image_of<const T, I>(o[Backward::input]),
                       grid_of<const T>(o[Backward::grid]),
                       grid_of<T>(o[Backward::dgrid]),
                       frame_of<Compute<T>, I>(p),
                       5,
                       Divisor()};
  const std::int64_t width = a.frame.out[2];
  while (a.log_width > 0 && (std::int64_t{1} << (a.log_width - 1)) >= width) --a.log_width;
  a.across = Divisor(static_cast<std::uint32_t>(ceil_div(width, std::int64_t{1} << a.log_width)));
  return a;
}

template <class T, class I>
Result<void> launch_slopes(const Stream& stream, const GridSampleProblem& p, const Operands& o) {
  const SlopeCall<T, I> a = slope_call<T, I>(p, o);
  const std::int64_t tiles = a.across.value * ceil_div(a.frame.out[0] * a.frame.out[1],
                                                       std::int64_t{kThreads >> a.log_width});
  return visit_mode(p, [&](auto mode, auto dims) {
    return launch_grid(stream, "grid_sample_backward slopes",
                       slopes_direct<T, decltype(mode)::value, decltype(dims)::value, I>, tiles, 1,
                       a.frame.batch, kThreads, 0, a);
  });
}

template <class T>
Result<void> launch_dgrid(const Stream& stream, const GridSampleProblem& p, const Operands& o) {
  return short_span(o[Backward::dout]) && short_span(o[Backward::input])
             ? launch_slopes<T, std::int32_t>(stream, p, o)
             : launch_slopes<T, std::int64_t>(stream, p, o);
}

inline BinCall bin_call(const BinLayout& l, Workspace workspace) {
  auto* base = static_cast<std::byte*>(workspace.data);
  const auto words = [&](std::size_t at) { return reinterpret_cast<std::uint32_t*>(base + at); };
  BinCall t = {};
  t.cursors = words(l.cursors);
  t.counts = words(l.counts);
  t.totals = words(l.totals);
  t.starts = words(l.starts);
  t.entries = words(l.entries);
  t.sorted = words(l.sorted);
  t.cell_starts = words(l.cell_starts);
  t.crowded = reinterpret_cast<std::int64_t*>(base + l.crowded);
  t.crowded_count = reinterpret_cast<std::int32_t*>(base + l.control);
  t.batch = l.batch;
  t.points = l.points;
  t.bins = l.bins;
  t.bands = l.bands;
  t.band = l.band;
  t.segments = l.segments;
  t.segment = l.segment;
  t.copies = l.copies;
  t.bin_cells = l.bin_cells();
  t.round = BinLayout::kRound;
  t.tiled = l.tiled;
  return t;
}

template <class Bins>
Result<void> launch_bins(const Stream& stream, const Bins& b, const BinCall& t) {
  const auto shared = static_cast<std::size_t>(t.band) * 4;
  if (auto ok = launch_grid(stream, "grid_sample_backward count", count_bins<Bins>, t.segments,
                            t.bands, t.batch, 32, shared, b, t);
      !ok)
    return ok;
  if (auto ok = launch_grid(stream, "grid_sample_backward scan", scan_bins<>, ceil_div(t.bins, 256),
                            1, t.batch, 256, 0, t);
      !ok)
    return ok;
  return launch_grid(stream, "grid_sample_backward fill", fill_bins<Bins>, t.segments, t.bands,
                     t.batch, 32, shared, b, t);
}

template <class Bins>
Result<void> launch_sort(const Stream& stream, const Bins& b, const BinCall& t) {
  const std::int64_t units = t.batch * t.bins;
  return launch_grid(stream, "grid_sample_backward sort", sort_cells<Bins>,
                     units < kWalkers ? units : kWalkers, 1, 1, 256, 0, b, t);
}

template <class T, SampleMode kMode, int kDims>
Result<void> launch_gather(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                           const BinLayout& l, const BinCall& t) {
  using C = Compute<T>;
  GatherCall<T> a = {image_of<const T, std::int64_t>(o[Backward::dout]),
                     grid_of<const T>(o[Backward::grid]),
                     image_of<T, std::int64_t>(o[Backward::dinput]),
                     frame_of<C, std::int64_t>(p),
                     t,
                     {l.cells[0], l.cells[1], l.cells[2]},
                     l.across,
                     p.geometry().pixels(),
                     ceil_div(p.geometry().channels, kGatherChannels),
                     p.accumulate};
  const std::int64_t units =
      a.groups * (t.tiled ? t.batch * t.bins : t.batch * ceil_div(a.pixels, 256));
  return launch_grid(stream, "grid_sample_backward gather", gather_elements<T, kMode, kDims>,
                     units < kWalkers ? units : kWalkers, 1, 1, kGatherWarps * 32,
                     sizeof(GatherShared<C>), a);
}

// Every way of sampling but 2-D bilinear: all bins are sorted by cell, then gathered.
template <class T>
Result<void> launch_cells(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                          const BinLayout& l, const BinCall& t) {
  return visit_mode(p, [&](auto mode, auto dims) -> Result<void> {
    constexpr SampleMode kMode = decltype(mode)::value;
    constexpr int kDims = decltype(dims)::value;
    const CellBins<T, kMode, kDims> b = {grid_of<const T>(o[Backward::grid]),
                                         frame_of<Compute<T>, std::int64_t>(p),
                                         {l.cells[0], l.cells[1], l.cells[2]}};
    if (auto ok = launch_bins(stream, b, t); !ok) return ok;
    if (auto ok = launch_sort(stream, b, t); !ok) return ok;
    return launch_gather<T, kMode, kDims>(stream, p, o, l, t);
  });
}

template <class T, int kChannels, bool kSlopes, bool kZeros, int kBlocks>
Result<void> launch_staged(const Stream& stream, const TileCall<T>& a) {
  // They walk over the tiles: few blocks, soon gone where they are not meant.
  constexpr std::int64_t kAll = 132 * 12;
  const std::int64_t share = ceil_div(kAll, a.frame.batch);
  const std::int64_t blocks = share < a.tiles ? share : a.tiles;
  return launch_grid(stream, "grid_sample_backward staged tiles",
                     backward_staged<T, kChannels, kSlopes, Reached::rows, kZeros, kBlocks>, blocks,
                     1, a.frame.batch, 256, sizeof(TileShared<T, kChannels, kSlopes>), a);
}
template <class T, int kChannels, bool kSlopes, Reached kReached, bool kUnit, bool kZeros,
          int kBlocks>
Result<void> launch_direct(const Stream& stream, const TileCall<T>& a) {
  const std::int64_t points = ceil_div(a.frame.out[2], 32) * ceil_div(a.frame.out[1], 8);
  const std::int64_t most = points > a.tiles ? points : a.tiles;
  return launch_grid(stream, "grid_sample_backward tiles",
                     backward_direct<T, kChannels, kSlopes, kReached, kUnit, kZeros, kBlocks>,
                     kSlopes ? 2 * most : a.tiles, 1, a.frame.batch, 256, 0, a);
}

// With dgrid or without.
template <class T, int kChannels, Reached kReached, bool kUnit, bool kZeros, int kBlocks>
Result<void> launch_direct(const Stream& stream, const TileCall<T>& a, bool slopes) {
  return slopes ? launch_direct<T, kChannels, true, kReached, kUnit, kZeros, kBlocks>(stream, a)
                : launch_direct<T, kChannels, false, kReached, kUnit, kZeros, kBlocks>(stream, a);
}
template <class T, bool kZeros>
Result<void> launch_staged(const Stream& stream, const TileCall<T>& a, bool slopes) {
  constexpr bool kWide = sizeof(Compute<T>) == 8;
  constexpr int kChannels = kWide ? 8 : 16, kBlocks = kWide ? 2 : 3;
  return slopes ? launch_staged<T, kChannels, true, kZeros, kBlocks>(stream, a)
                : launch_staged<T, kChannels, false, kZeros, kBlocks>(stream, a);
}

// A copy of dout with its channels together, made where the grid looks scattered.
template <class T>
Result<void> launch_copy(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                         const TileCall<T>& a, T* copy, std::int32_t* scattered) {
  const SampleGeometry g = p.geometry();
  const auto launch_as = [&]<class I>(I) {
    const StageCall<T, I> stage = {image_of<const T, I>(o[Backward::dout]),
                                   copy,
                                   g.batch,
                                   g.channels,
                                   g.points(),
                                   ceil_div(g.points(), kRowPoints),
                                   ceil_div(g.channels, kSlab),
                                   g.out[2],
                                   positions_joined(o[Backward::dout], false),
                                   a.grid,
                                   frame_of<Compute<T>, I>(p),
                                   scattered};
    const std::int64_t units = stage.tiles * stage.slabs * g.batch;
    return launch_grid(stream, "grid_sample_backward stage", stage_rows<T, I>,
                       units < kWalkers ? units : kWalkers, 1, 1, kThreads, 0, stage);
  };
  return short_span(o[Backward::dout]) ? launch_as(std::int32_t{}) : launch_as(std::int64_t{});
}

// The tiles, by the kernel that suits strides and channels. Where neighbours of the grid may read
// near each other or not, both are queued, and the device chooses: the bits are the same. Returns
// where the device's choice is, or that only staged tiles were launched: they leave dgrid of the
// points in crowded tiles.
struct Launched {
  bool staged;
  const std::int32_t* scattered;
};
template <bool kZeros, class T>
Result<Launched> launch_kernels(const Stream& stream, Workspace workspace,
                                const GridSampleProblem& p, const Operands& o, const BinLayout& l,
                                TileCall<T> a, bool joined, bool slopes) {
  constexpr bool kWide = sizeof(Compute<T>) == 8;
  constexpr int kMany = 8, kFour = kWide ? 2 : 4, kTwo = 2;
  const auto with = [](Result<void> done, const Launched& how) -> Result<Launched> {
    if (!done) return tl::unexpected(done.error());
    return how;
  };
  const std::int64_t channels = a.frame.channels;
  if (joined && channels > 4 && has_vector_rows(o[Backward::dout]))
    return with(launch_staged<T, kZeros>(stream, a, slopes), {true, nullptr});
  const bool unit = !o[Backward::input].present || a.input.x == 1;
  if (!joined || !unit || (slopes && o[Backward::input].shape[3] == 1))
    return with(launch_direct<T, 8, Reached::anyhow, false, false, kTwo>(stream, a, slopes),
                {false, nullptr});
  if (channels <= 4)
    return with(launch_direct<T, 4, Reached::joined, true, kZeros, kFour>(stream, a, slopes),
                {false, nullptr});
  if (!l.staged)
    return with(launch_direct<T, kMany, Reached::joined, true, kZeros, kFour>(stream, a, slopes),
                {false, nullptr});
  auto* base = static_cast<std::byte*>(workspace.data);
  auto* scattered = reinterpret_cast<std::int32_t*>(base + l.control) + 1;
  T* copy = reinterpret_cast<T*>(base + l.copy);
  if (auto ok = launch_copy(stream, p, o, a, copy, scattered); !ok)
    return tl::unexpected(ok.error());
  a.scattered = scattered;
  if (auto ok = launch_direct<T, kMany, Reached::joined, true, kZeros, kFour>(stream, a, slopes);
      !ok)
    return tl::unexpected(ok.error());
  a.when_scattered = true;
  a.dout = {copy, a.frame.points * channels, 1, 0, 0, channels};
  return with(launch_staged<T, kZeros>(stream, a, slopes), {true, scattered});
}

inline constexpr std::int64_t kMostTileChannels = 256;  // that fit the sums of a point

template <class T, bool kZeros>
Result<void> launch_tiles(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o, const BinLayout& l, const BinCall& t) {
  using C = Compute<T>;
  const SampleGeometry g = p.geometry();
  const bool slopes = o[Backward::dgrid].present && g.channels <= kMostTileChannels;
  const TileBins<T, kZeros> b = {grid_of<const T>(o[Backward::grid]), frame_of<C, std::int32_t>(p),
                                 static_cast<std::int32_t>(l.across),
                                 static_cast<std::int32_t>(l.bins - 1),
                                 positions_joined(o[Backward::grid], true)};
  if (auto ok = launch_bins(stream, b, t); !ok) return ok;
  TileCall<T> a = {image_of<const T, std::int64_t>(o[Backward::dout]),
                   image_of<const T, std::int64_t>(o[Backward::input]),
                   b.grid,
                   image_of<T, std::int64_t>(o[Backward::dinput]),
                   grid_of<T>(o[Backward::dgrid]),
                   b.frame,
                   t,
                   b.across,
                   b.outside,
                   p.accumulate,
                   has_vector_rows(o[Backward::input]),
                   has_vector_rows(o[Backward::dinput]),
                   nullptr,
                   false};
  const bool joined = b.joined && positions_joined(o[Backward::dout], false) &&
                      positions_joined(o[Backward::dgrid], true);
  const auto how = launch_kernels<kZeros>(stream, workspace, p, o, l, a, joined, slopes);
  if (!how) return tl::unexpected(how.error());
  // Tiles with more points than fit.
  if (auto ok = launch_sort(stream, b, t); !ok) return ok;
  if (auto ok = launch_gather<T, SampleMode::bilinear, 2>(stream, p, o, l, t); !ok) return ok;
  if (!o[Backward::dgrid].present) return {};
  if (!slopes) return launch_dgrid<T>(stream, p, o);
  if (!how->staged) return {};
  const std::int64_t slices = ceil_div(l.points, kThreads);  // of a crowded tile
  return launch_grid(stream, "grid_sample_backward crowded slopes",
                     slopes_listed<T, TileBins<T, kZeros>>, kWalkers / 8, slices < 16 ? slices : 16,
                     1, kThreads, 0, slope_call<T, std::int64_t>(p, o), b, t, how->scattered);
}

template <class T>
Result<void> launch_backward(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                             const Operands& o) {
  if (!o[Backward::dinput].present || numel(p.input) == 0)
    return o[Backward::dgrid].present ? launch_dgrid<T>(stream, p, o) : Result<void>{};
  const BinLayout l = bin_layout(p);
  const BinCall t = bin_call(l, workspace);
  if (l.tiled)
    return p.padding == SamplePadding::zeros
               ? launch_tiles<T, true>(stream, workspace, p, o, l, t)
               : launch_tiles<T, false>(stream, workspace, p, o, l, t);
  if (auto ok = launch_cells<T>(stream, p, o, l, t); !ok) return ok;
  return o[Backward::dgrid].present ? launch_dgrid<T>(stream, p, o) : Result<void>{};
}

}  // namespace planck::sample_device
