// The launchers of the backward kernels, for one element type; tiles are in tiles.launch.cuh.
#pragma once

#include "planck/ops/grid_sample/cuda/gather.cuh"
#include "planck/ops/grid_sample/cuda/launchers.cuh"
#include "planck/ops/grid_sample/cuda/slopes.cuh"
#include "planck/ops/grid_sample/cuda/sort.cuh"

namespace planck::sample_device {

template <class T, class I>
SlopeCall<T, I> slope_call(const GridSampleProblem& p, const Operands& o) {
  SlopeCall<T, I> a = {image_of<const T, I>(o[Backward::dout]),
                       image_of<const T, I>(o[Backward::input]),
                       grid_of<const T>(o[Backward::grid]),
                       grid_of<T>(o[Backward::dgrid]),
                       frame_of<Compute<T>, I>(p),
                       5,
                       Divisor(),
                       p.accumulate_grid};
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
  t.placed = words(l.placed);
  t.lists = words(l.lists);
  t.crowded = reinterpret_cast<std::int64_t*>(base + l.crowded);
  t.crowded_count = reinterpret_cast<std::int32_t*>(base + l.control);
  t.busy = reinterpret_cast<std::int64_t*>(base + l.busy);
  t.busy_count = reinterpret_cast<unsigned long long*>(base + l.control + 16);
  t.batch = l.batch;
  t.points = l.points;
  t.bins = l.bins;
  t.bands = l.bands;
  t.band = l.band;
  t.segments = l.segments;
  t.segment = l.segment;
  t.copies = l.copies;
  t.bin_cells = l.bin_cells();
  t.tiled = l.tiled;
  return t;
}

template <class Bins>
Result<void> launch_bins(const Stream& stream, const Bins& b, const BinCall& t) {
  const auto shared = static_cast<std::size_t>(t.band) * 4;
  if (auto ok = launch_grid(stream, "grid_sample_backward count", count_bins<Bins>, t.segments,
                            t.bands, t.batch, 32, {shared, true}, b, t);
      !ok)
    return ok;
  if (auto ok = launch_grid(stream, "grid_sample_backward scan", scan_bins<>, ceil_div(t.bins, 256),
                            1, t.batch, 256, {0, true}, t);
      !ok)
    return ok;
  return launch_grid(stream, "grid_sample_backward fill", fill_bins<Bins>, t.segments, t.bands,
                     t.batch, 32, {shared, true}, b, t);
}

template <class Bins>
Result<void> launch_sort(const Stream& stream, const Bins& b, const BinCall& t) {
  const std::int64_t units = t.batch * t.bins;
  return launch_grid(stream, "grid_sample_backward sort", sort_cells<Bins>,
                     units < kWalkers ? units : kWalkers, 1, 1, 256, {0, true}, b, t);
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
                     p.accumulate,
                     t.busy,
                     t.busy_count};
  // Crowded tiles are few, if there are any.
  const std::int64_t units = t.tiled ? kWalkers : a.groups * t.batch * ceil_div(a.pixels, 256);
  if (auto ok = launch_grid(stream, "grid_sample_backward gather", gather_elements<T, kMode, kDims>,
                            units < INT32_MAX ? units : INT32_MAX, 1, 1, 256, {0, true}, a);
      !ok)
    return ok;
  return launch_grid(stream, "grid_sample_backward busy", gather_busy<T, kMode, kDims>, kWalkers, 1,
                     1, kGatherWarps * 32, {sizeof(GatherShared<C>), true}, a);
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

// Tiles with more points than a list holds, if there are any.
template <class T>
Result<void> launch_crowded(const Stream& stream, const GridSampleProblem& p, const Operands& o,
                            const BinLayout& l, const BinCall& t) {
  const TileBins<T, false> b = {
      grid_of<const T>(o[Backward::grid]), frame_of<Compute<T>, std::int32_t>(p),
      static_cast<std::int32_t>(l.across), positions_joined(o[Backward::grid], true)};
  if (auto ok = launch_bins(stream, b, t); !ok) return ok;
  if (auto ok = launch_sort(stream, b, t); !ok) return ok;
  return launch_gather<T, SampleMode::bilinear, 2>(stream, p, o, l, t);
}

template <class T>
Result<void> launch_backward(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                             const Operands& o) {
  if (!o[Backward::dinput].present || numel(p.input) == 0)
    return o[Backward::dgrid].present ? launch_dgrid<T>(stream, p, o) : Result<void>{};
  const BinLayout l = bin_layout(p);
  const BinCall t = bin_call(l, workspace);
  const auto words = static_cast<std::int64_t>(l.cleared / 4);
  if (auto ok = launch_grid(stream, "grid_sample_backward clear", clear_counts<>,
                            words < 256 * kWalkers ? ceil_div(words, 256) : kWalkers, 1, 1, 256, 0,
                            t.cursors - (l.cursors - l.control) / 4, words);
      !ok)
    return ok;
  if (!l.tiled) {
    if (auto ok = launch_cells<T>(stream, p, o, l, t); !ok) return ok;
    return o[Backward::dgrid].present ? launch_dgrid<T>(stream, p, o) : Result<void>{};
  }
  bool slopes = false;
  if (auto ok = launch_tiles<T>(stream, workspace, p, o, l, t, slopes); !ok) return ok;
  if (auto ok = launch_crowded<T>(stream, p, o, l, t); !ok) return ok;
  return o[Backward::dgrid].present && !slopes ? launch_dgrid<T>(stream, p, o) : Result<void>{};
}

}  // namespace planck::sample_device

#define PLANCK_INSTANTIATE(T)                                                                      \
  namespace planck::sample_device {                                                                \
  template Result<void> launch_dgrid<T>(const Stream&, const GridSampleProblem&, const Operands&); \
  template Result<void> launch_backward<T>(const Stream&, Workspace, const GridSampleProblem&,     \
                                           const Operands&);                                       \
  }
