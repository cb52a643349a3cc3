// Workspace of the CUDA kernels, also known to builds without CUDA.
#include "planck/core/workspace.h"

#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/ops/grid_sample/cuda/layout.h"

namespace planck {

namespace {

constexpr std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Elements in a vector of 16 bytes.
std::int64_t vector_elements(Dtype dtype) {
  return 16 / static_cast<std::int64_t>(storage_bytes(dtype));
}

// Whether 2-D bilinear sampling may gain from channels that lie together.
bool worth_a_copy(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  return p.mode == SampleMode::bilinear && g.dims == 2 && g.channels >= 16 &&
         g.channels % vector_elements(p.dtype) == 0;
}

std::int64_t cells_of(const GridSampleProblem& p, std::int64_t size) {
  using namespace grid_sample_math;
  if (p.mode == SampleMode::nearest) return size;
  if (p.mode == SampleMode::bilinear) return size + 1;
  return cubic_cells(make_axis<float, std::int64_t>(size, p.padding, p.align_corners));
}

}  // namespace

std::string grid_sample_backward_cuda_refusal(const GridSampleProblem& p) {
  const std::int64_t points = p.geometry().points();
  if (points <= BinLayout::kMostPoints) return "";
  return "sorts up to 2^30 points of an image, there are " + std::to_string(points);
}

bool staged_forward(const GridSampleProblem& p) { return !p.backward && worth_a_copy(p); }

bool has_vector_rows(const View& v) {
  const std::int64_t vector = vector_elements(v.dtype);
  if (v.strides[1] != 1 || v.shape[1] % vector != 0) return false;
  for (int d = 0; d < v.shape.rank(); ++d)
    if (d != 1 && v.shape[d] > 1 && v.strides[d] % vector != 0) return false;
  return reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
}

BinLayout bin_layout(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  BinLayout l;
  l.tiled =
      p.mode == SampleMode::bilinear && g.dims == 2 && g.in[1] < (1 << 30) && g.in[2] < (1 << 30);
  l.batch = g.batch;
  l.points = g.points();
  if (l.tiled) {
    l.across = up(g.in[2], BinLayout::kTileWidth);
    l.bins = l.across * up(g.in[1], BinLayout::kTileHeight);
    l.copies = 4;
  } else {
    std::int64_t all = 1;
    for (int a = 0; a < 3; ++a) {
      l.cells[a] = a < g.dims ? cells_of(p, g.in[2 - a]) : 1;
      all *= l.cells[a];
    }
    l.bins = up(all, BinLayout::kCellsOfRun);
  }
  // Some thousands of warps, a whole number of rounds of 32 points each.
  constexpr std::int64_t kWarps = 2048, kBand = 4096;
  const std::int64_t each = up(l.points, up(kWarps, l.batch > 0 ? l.batch : 1));
  l.segment = up(each < 256 ? 256 : each, 32) * 32;
  l.segments =
      l.points > 0 ? up(l.points, l.segment) : 1;  // at least one, to clear what is counted
  l.bands = up(l.bins, kBand);
  l.band = up(l.bins, l.bands);

  std::int64_t at = 0;
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t from = at;
    at = up(at + bytes, kWorkspaceAlignment) * static_cast<std::int64_t>(kWorkspaceAlignment);
    return static_cast<std::size_t>(from);
  };
  const std::int64_t all_bins = l.batch * l.bins, all = l.batch * l.copies * l.points;
  l.control = take(64);
  l.cursors = take(4 * l.batch);
  l.placed = l.tiled ? take(4 * all_bins * BinLayout::kApart) : 0;
  l.cleared = static_cast<std::size_t>(at);
  if (l.tiled) {
    l.crowded = take(8 * all_bins);
    l.lists = take(4 * all_bins * BinLayout::kRound);
  }
  // Where points are sorted into bins, the copies have had their use.
  const std::int64_t shared = at;
  l.counts = take(4 * all_bins * l.segments);
  l.totals = take(4 * all_bins);
  l.starts = take(4 * all_bins);
  l.entries = take(4 * all);
  l.sorted = take(4 * all);
  l.cell_starts = take(4 * all_bins * (l.bin_cells() + 1));
  l.busy = take(8 * (l.batch * l.points * p.taps() / BinLayout::kAlone));
  const std::int64_t end = at;
  l.staged = l.tiled && worth_a_copy(p);
  if (l.staged) {
    at = shared;
    const auto image = l.batch * g.channels * static_cast<std::int64_t>(storage_bytes(p.dtype));
    l.dout_rows = take(image * l.points);
    l.input_rows = take(image * g.pixels());
  }
  l.bytes = static_cast<std::size_t>(end > at ? end : at);
  return l;
}

std::size_t grid_sample_cuda_workspace(const GridSampleProblem& p) {
  if (!staged_forward(p)) return 0;
  return kWorkspaceAlignment + static_cast<std::size_t>(numel(p.input)) * storage_bytes(p.dtype);
}

std::size_t grid_sample_no_copy_cuda_workspace(const GridSampleProblem&) { return 0; }

std::size_t grid_sample_backward_cuda_workspace(const GridSampleProblem& p) {
  return bin_layout(p).bytes;
}

std::size_t grid_sample_backward_atomic_cuda_workspace(const GridSampleProblem&) { return 0; }

// dtheta: sums of 1,024 positions each.
std::size_t affine_grid_cuda_workspace(const AffineGridProblem& p) {
  if (!p.backward) return 0;
  std::int64_t positions = 1;
  for (int d = 2; d < p.size.rank(); ++d) positions *= p.size[d];
  return static_cast<std::size_t>(p.size[0] * p.dims() * (p.dims() + 1) * up(positions, 1024)) *
         storage_bytes(compute_dtype(p.dtype));
}

}  // namespace planck
