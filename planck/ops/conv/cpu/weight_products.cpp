// cpu:patches of conv2d_weight: dweight = dy × patches, summed over places of the output.
//
// x and dy are copied with channels side by side, so that each place has a row of each: filters of
// dy, and, for each row of the kernel, the columns and channels that it covers. Rows of places are
// k of a product with the tiles of loops/gemm; columns of the product are (u, v, c). A task
// owns one chunk of places and up to 60 filters × 1024 columns, whose sums wait in the workspace.
// Sums of chunks are added at the end, in ascending order.
#include <algorithm>
#include <limits>

#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/loops/parallel.h"
#include "planck/ops/conv/cpu/image.h"
#include "planck/ops/conv/cpu/kernels.h"
#include "planck/ops/conv/cpu/runs.h"
#include "planck/ops/conv/host/chunks.h"

namespace planck {

using namespace conv_detail;
using gemm::kMostDepth;
using gemm::kMostTileColumns;
using gemm::kMostTileRows;
using gemm::TileBlock;
using gemm::TileOps;

namespace {

constexpr std::int64_t kTaskRows = 60, kTaskColumns = 1024;
// So many filters of neighbouring places lie near each other: tiles read them in the copy.
constexpr std::int64_t kNearFilters = 128;
constexpr std::size_t kCopied = std::size_t{32} << 20;  // bytes of images at once
static_assert(kTaskRows % kMostTileRows == 0 && kTaskColumns % kMostTileColumns == 0);

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Shapes of the copies and of the sums, and where they lie in the workspace, in bytes.
struct Layout {
  ImageLayout x{}, dy{};
  Chunks chunks;
  std::int64_t places;        // of the output, in an image
  std::int64_t columns;       // of the product, in a group
  std::int64_t pitch;         // numbers from one filter's sums to the next's
  std::int64_t step, images;  // chunks that run together, and images they touch at most
  std::size_t x_at, dy_at, bytes;

  explicit Layout(const ConvProblem& p) : chunks(chunks_of(p)) {
    const std::size_t word = p.element_dtype == Dtype::f64 ? 8 : 4;
    std::int64_t size[2];
    for (int axis = 0; axis < 2; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      size[axis] = (p.extent(axis) - 1) * p.options.stride[a] +
                   (p.weight[2 + axis] - 1) * p.options.dilation[a] + 1;
    }
    x = {p.x[1], size[0], size[1], p.options.padding[0], p.options.padding[1], 1, true};
    dy = {p.weight[0], p.extent(0), p.extent(1), 0, 0, 1, true};
    places = p.extent(0) * p.extent(1);
    columns = p.channels() * p.taps();
    pitch = ceil_div(columns, 16) * 16;
    // As many chunks at once as fit, one at least.
    const std::size_t image = static_cast<std::size_t>(x.image() + dy.image()) * word;
    const auto fit = static_cast<std::int64_t>(kCopied / std::max<std::size_t>(image, 1));
    step = std::clamp<std::int64_t>((fit - 1) * places / std::max<std::int64_t>(chunks.length, 1),
                                    1, chunks.count);
    images = std::min(p.batch(), ceil_div(step * chunks.length, places) + 1);
    const auto aligned = [](std::size_t at) { return (at + 63) / 64 * 64; };
    x_at = aligned(static_cast<std::size_t>(chunks.count * p.weight[0] * pitch) * word);
    dy_at = aligned(x_at + static_cast<std::size_t>(images * x.image() + kSlack) * word);
    bytes = dy_at + static_cast<std::size_t>(images * dy.image() + kSlack) * word;
  }
};

template <class C>
class WeightGradient {
 public:
  WeightGradient(const Stream& stream, Workspace workspace, const ConvProblem& p,
                 const Operands& operands)
      : stream_(stream),
        p_(p),
        l_(p),
        ops_(gemm::tile_ops<C>()),
        x_(operands[conv_operand::first]),
        dy_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]) {
    auto* bytes = static_cast<std::byte*>(workspace.data);
    sums_ = reinterpret_cast<C*>(bytes);
    x_copies_ = reinterpret_cast<C*>(bytes + l_.x_at);
    dy_copies_ = reinterpret_cast<C*>(bytes + l_.dy_at);
  }

  void run() {
    const std::int64_t all = p_.batch() * l_.places, down = ceil_div(p_.filters(), kTaskRows);
    const std::int64_t across = ceil_div(l_.columns, kTaskColumns);
    for (std::int64_t chunk = 0; chunk < l_.chunks.count; chunk += l_.step) {
      const std::int64_t count = std::min(l_.step, l_.chunks.count - chunk);
      const std::int64_t begin = chunk * l_.chunks.length;
      const std::int64_t end = std::min(all, (chunk + count) * l_.chunks.length);
      first_ = begin / l_.places;
      const std::int64_t images = ceil_div(end, l_.places) - first_;
      copy_images(stream_, l_.x, x_, first_, images, x_copies_);
      copy_images(stream_, l_.dy, dy_, first_, images, dy_copies_);
      const std::int64_t each = p_.groups() * down * across;
      parallel_for(stream_, count * each, [&](std::int64_t t) {
        const std::int64_t c = chunk + t / each, from = c * l_.chunks.length;
        multiply(c, from, std::min(all, from + l_.chunks.length), t % each / across / down,
                 t / across % down * kTaskRows, t % across * kTaskColumns);
      });
    }
    parallel_for(stream_, p_.weight[0], [&](std::int64_t f) { add_up(f); });
  }

 private:
  // Columns [first, first + count) of the product as runs of a row of places.
  int runs_of(std::int64_t group, std::int64_t first, std::int64_t count, Run* runs) const {
    const std::int64_t channels = p_.channels();
    std::int64_t tap = first / channels, c = first % channels;
    int found = 0;
    for (int lane = 0; lane < count;) {
      const auto length = static_cast<int>(std::min(channels - c, count - lane));
      const std::int64_t u = tap / p_.weight[3], v = tap % p_.weight[3];
      const std::int64_t from = u * p_.options.dilation[0] * l_.x.row() +
                                l_.x.column(v * p_.options.dilation[1]) + group * channels + c;
      if (found > 0 && runs[found - 1].from + runs[found - 1].length == from)
        runs[found - 1].length += length;
      else
        runs[found++] = {from, lane, length};
      lane += length;
      c = 0;
      ++tap;
    }
    return found;
  }

  // Where places [first, first + count) lie in the copies.
  void places_at(std::int64_t first, std::int64_t count, std::int64_t* x, std::int64_t* dy) const {
    const std::int64_t width = l_.dy.width, height = l_.dy.height;
    const std::int64_t row = p_.options.stride[0] * l_.x.row();
    const std::int64_t column = l_.x.column(p_.options.stride[1]);
    std::int64_t n = first / l_.places - first_, i = first % l_.places / width, j = first % width;
    for (std::int64_t k = 0; k < count; ++k) {
      x[k] = n * l_.x.image() + i * row + j * column;
      dy[k] = (first - first_ * l_.places + k) * p_.weight[0];
      if (++j < width) continue;
      j = 0;
      if (++i == height) i = 0, ++n;
    }
  }

  void multiply(std::int64_t chunk, std::int64_t begin, std::int64_t end, std::int64_t group,
                std::int64_t row, std::int64_t column) const {
    const std::int64_t rows = std::min(kTaskRows, p_.filters() - row);
    const std::int64_t columns = std::min(kTaskColumns, l_.columns - column);
    const std::int64_t filter = group * p_.filters() + row;
    const int width = (rows <= ops_.thin_rows ? ops_.thin_vectors : ops_.vectors) * ops_.lanes;
    C* const sums = sums_ + (chunk * p_.weight[0] + filter) * l_.pitch + column;
    alignas(64) C a[kTaskRows * kMostDepth + kPanelSlack];
    alignas(64) C panel[kMostDepth * kMostTileColumns + kPanelSlack];
    std::int64_t x_at[kMostDepth], dy_at[kMostDepth];
    Run runs[kMostRuns];
    std::int64_t k0 = begin;
    do {
      const std::int64_t k = std::min<std::int64_t>(kMostDepth, end - k0);
      places_at(k0, k, x_at, dy_at);
      const bool near = p_.weight[0] <= kNearFilters;
      for (std::int64_t r = 0; r < rows && !near; r += ops_.rows) {
        const auto count = static_cast<int>(std::min<std::int64_t>(ops_.rows, rows - r));
        const Run run{filter + r, 0, count};
        if (count < ops_.rows) std::fill(a + r * k, a + (r + ops_.rows) * k, C{0});
        pack_runs(dy_copies_, dy_at, k, &run, 1, ops_.rows, a + r * k);
      }
      for (std::int64_t at = 0; at < columns; at += width) {
        const int n = static_cast<int>(std::min<std::int64_t>(width, columns - at));
        const int padded = static_cast<int>(ceil_div(n, ops_.lanes)) * ops_.lanes;
        const int count = runs_of(group, column + at, n, runs);
        TileBlock<C> block{a, rows, panel, padded, n, k, sums + at, l_.pitch, k0 > begin, false};
        if (near && k > 0) {
          block.a = dy_copies_ + dy_at[0] + filter;
          block.a_step = p_.weight[0];
        }
        if (read_in_place(runs, count, ops_.lanes, block.b_vector)) {
          block.b = x_copies_;
          block.b_at = x_at;
        } else {
          if (n < padded) std::fill(panel, panel + k * padded, C{0});
          pack_runs(x_copies_, x_at, k, runs, count, padded, panel);
        }
        ops_.multiply(block);
      }
      k0 += k;
    } while (k0 < end);
  }

  // Filter f's sums of all chunks, in ascending order, to dweight.
  void add_up(std::int64_t f) const {
    C* const total = sums_ + f * l_.pitch;
    for (std::int64_t chunk = 1; chunk < l_.chunks.count; ++chunk) {
      const C* more = total + chunk * p_.weight[0] * l_.pitch;
      for (std::int64_t i = 0; i < l_.columns; ++i) total[i] += more[i];
    }
    const Strides& s = out_.strides;
    const std::int64_t taps = p_.taps(), kw = p_.weight[3];
    const bool dense = s[2] == kw * s[3] && s[1] == taps * s[3];
    const std::int64_t most = dense ? 1024 : std::min<std::int64_t>(kw, 1024);
    C line[1024];
    for (std::int64_t e = 0; e < l_.columns;) {  // (c, u, v)
      std::int64_t c = e / taps, t = e % taps;
      const std::int64_t offset = f * s[0] + c * s[1] + t / kw * s[2] + t % kw * s[3];
      const std::int64_t rest = dense ? l_.columns - e : kw - t % kw;
      const auto n = static_cast<int>(std::min(most, rest));
      for (int i = 0; i < n; ++i) {
        const C v = total[t * p_.channels() + c];
        line[i] = v == v ? v : std::numeric_limits<C>::quiet_NaN();
        if (++t == taps) t = 0, ++c;
      }
      gemm::store_sums(out_.dtype, out_.data, offset, s[3], n, line);
      e += n;
    }
  }

  const Stream& stream_;
  const ConvProblem& p_;
  Layout l_;
  const TileOps<C>& ops_;
  const View &x_, &dy_, &out_;
  C *sums_, *x_copies_, *dy_copies_;
  std::int64_t first_ = 0;  // the first image that is copied
};

}  // namespace

std::size_t conv_weight_cpu_workspace(const ConvProblem& p) {
  return numel(p.weight) == 0 ? 0 : Layout(p).bytes;
}

Result<void> conv_weight_cpu(const Stream& stream, Workspace workspace, const ConvProblem& p,
                             const Operands& operands) {
  if (numel(p.weight) == 0) return {};
  if (p.element_dtype == Dtype::f64)
    WeightGradient<double>(stream, workspace, p, operands).run();
  else
    WeightGradient<float>(stream, workspace, p, operands).run();
  return {};
}

}  // namespace planck
