// cpu:patches of conv2d and conv2d_input: the tiles of loops/gemm over patches of the image.
//
// Images are copied with their borders, some at a time, so that an element of a patch lies at one
// offset from its place, whatever dtype, strides and padding are; weights are packed once. A task
// owns up to 120 rows × 128 places of the output: it takes patches of 32 places, 256 of k at once,
// multiplies them by all its rows, and keeps its sums until k has ended. Tiles read patches in the
// copy where a vector lies in one row of the image; else they are packed into a panel. Places of
// all images are one axis: small images fill panels too.
#include <algorithm>

#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/loops/parallel.h"
#include "planck/ops/conv/cpu/kernels.h"
#include "planck/ops/conv/cpu/phases.h"
#include "planck/ops/conv/cpu/runs.h"
#include "planck/ops/conv/cpu/weights.h"

namespace planck {

using namespace conv_detail;
using gemm::kMostDepth;
using gemm::kMostTileColumns;
using gemm::kMostTileRows;
using gemm::packed_depth;
using gemm::TileBlock;
using gemm::TileOps;

namespace {

constexpr std::int64_t kTaskRows = 120, kTaskPlaces = 128;
constexpr std::int64_t kWorthThreads = 1 << 18, kWorthTask = 1 << 16;  // multiply-adds
constexpr std::size_t kCopied = std::size_t{32} << 20;                 // bytes of images at once
static_assert(kTaskPlaces <= kMostRuns && kTaskRows % kMostTileRows == 0);

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

// Parts of the workspace, in bytes from its start.
struct Layout {
  std::int64_t images;  // that are copied at once
  std::size_t tables, weights, copies, bytes;
  Layout(const ConvProblem& p, const Phases& phases) {
    const std::size_t word = p.element_dtype == Dtype::f64 ? 8 : 4;
    const std::size_t element = p.element_dtype == Dtype::s8 ? 1 : word;
    const auto image = static_cast<std::size_t>(phases.layout().image()) * element;
    images = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(kCopied / std::max<std::size_t>(image, 1)), 1,
        std::max<std::int64_t>(p.batch(), 1));
    tables = 0;
    weights = 2 * sizeof(std::int64_t) * static_cast<std::size_t>(phases.depth());
    weights = (weights + 63) / 64 * 64;
    copies =
        weights + word * static_cast<std::size_t>(
                             p.groups() * round_up(phases.rows(), kMostTileRows) * phases.depth());
    copies = (copies + 63) / 64 * 64;
    bytes = copies + static_cast<std::size_t>(images) * image +
            static_cast<std::size_t>(kSlack) * element;
  }
};

// C: what is summed in; T: what images are copied as.
template <class C, class T>
class Product {
 public:
  Product(const Stream& stream, Workspace workspace, const ConvProblem& p, const Operands& operands)
      : stream_(stream),
        p_(p),
        phases_(p),
        ops_(gemm::tile_ops<C>()),
        image_(operands[conv_operand::first]),
        weight_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        padded_rows_(round_up(phases_.rows(), ops_.rows)) {
    const Layout layout(p, phases_);
    auto* bytes = static_cast<std::byte*>(workspace.data);
    images_ = layout.images;
    at_ = reinterpret_cast<std::int64_t*>(bytes + layout.tables);
    a_ = reinterpret_cast<C*>(bytes + layout.weights);
    copies_ = reinterpret_cast<T*>(bytes + layout.copies);
  }

  void run() {
    pack_all_weights();
    for (std::int64_t n = 0; n < p_.batch(); n += images_) {
      const std::int64_t count = std::min(images_, p_.batch() - n);
      copy_images(stream_, phases_.layout(), image_, n, count, copies_);
      std::int64_t before = 0;  // k of the phases so far
      for (std::int64_t f = 0; f < phases_.count(); ++f) {
        const Phase phase = phases_.phase(f);
        run_phase(phase, before, n, count);
        before += phase.depth;
      }
    }
  }

 private:
  // Where phase, group and step of k begin in the packed weights.
  C* weights_of(const Phase& phase, std::int64_t before, std::int64_t group,
                std::int64_t k0) const {
    return a_ + padded_rows_ * (p_.groups() * before + group * packed_depth<C>(phase.depth) +
                                packed_depth<C>(k0));
  }

  void pack_all_weights() {
    const std::int64_t row_stride = weight_.strides[phases_.forward() ? 0 : 1];
    // A group's first weight: filters go on from group to group.
    const std::int64_t group_stride = weight_.strides[0] * p_.filters();
    std::int64_t* weights_at = at_ + phases_.depth();
    std::int64_t before = 0;
    for (std::int64_t f = 0; f < phases_.count(); ++f) {
      const Phase phase = phases_.phase(f);
      phases_.tables(phase, weight_.strides, at_ + before, weights_at);
      const std::int64_t steps = (phase.depth + kMostDepth - 1) / kMostDepth;
      const auto part = [&](std::int64_t t) {
        const std::int64_t g = t / steps, k0 = t % steps * kMostDepth;
        pack_weights(weight_, g * group_stride, row_stride, phases_.rows(),
                     std::min<std::int64_t>(kMostDepth, phase.depth - k0), weights_at + k0,
                     ops_.rows, weights_of(phase, before, g, k0));
      };
      if (phases_.rows() * phase.depth * p_.groups() < kWorthTask)
        for (std::int64_t t = 0; t < p_.groups() * steps; ++t) part(t);
      else
        parallel_for(stream_, p_.groups() * steps, part);
      before += phase.depth;
    }
  }

  void run_phase(const Phase& phase, std::int64_t before, std::int64_t n, std::int64_t count) {
    const std::int64_t places = count * phase.rows * phase.columns;
    const std::int64_t across = (places + kTaskPlaces - 1) / kTaskPlaces;
    const std::int64_t down = (phases_.rows() + kTaskRows - 1) / kTaskRows;
    const std::int64_t parts = across * down * p_.groups();
    const auto part = [&](std::int64_t t) {
      const std::int64_t place = t % across * kTaskPlaces, group = t / across / down;
      multiply(phase, before, group, t / across % down * kTaskRows, n, place,
               std::min(kTaskPlaces, places - place));
    };
    const double each = static_cast<double>(std::min(phases_.rows(), kTaskRows)) *
                        static_cast<double>(std::min(places, kTaskPlaces)) *
                        static_cast<double>(phase.depth + 8);
    if (each * static_cast<double>(parts) < static_cast<double>(kWorthThreads)) {
      for (std::int64_t t = 0; t < parts; ++t) part(t);
      return;
    }
    const auto together = static_cast<std::int64_t>(static_cast<double>(kWorthTask) / each) + 1;
    parallel_for(stream_, (parts + together - 1) / together, [&](std::int64_t task) {
      const std::int64_t end = std::min(parts, (task + 1) * together);
      for (std::int64_t t = task * together; t < end; ++t) part(t);
    });
  }

  // Runs of `count` places from `place` on, each of one row: where place (n, i, j) lies is
  // n * image + i * row + j * column.
  int runs_of(const Phase& phase, std::int64_t place, std::int64_t count, std::int64_t image,
              std::int64_t row, std::int64_t column, Run* runs) const {
    const std::int64_t size = phase.rows * phase.columns;
    std::int64_t n = place / size, i = place % size / phase.columns, j = place % phase.columns;
    int found = 0;
    for (int lane = 0; lane < count;) {
      const auto length = static_cast<int>(std::min(phase.columns - j, count - lane));
      const std::int64_t from = n * image + i * row + j * column;
      if (found > 0 && runs[found - 1].from + runs[found - 1].length * column == from)
        runs[found - 1].length += length;
      else
        runs[found++] = {from, lane, length};
      lane += length;
      j = 0;
      if (++i == phase.rows) i = 0, ++n;
    }
    return found;
  }

  void multiply(const Phase& phase, std::int64_t before, std::int64_t group, std::int64_t row,
                std::int64_t n0, std::int64_t place, std::int64_t places) const {
    const std::int64_t rows = std::min(kTaskRows, phases_.rows() - row);
    const ImageLayout& l = phases_.layout();
    const T* image = copies_ + group * phases_.channels_in_group() * l.channel();
    const int width = (rows <= ops_.thin_rows ? ops_.thin_vectors : ops_.vectors) * ops_.lanes;
    alignas(64) C sums[kTaskRows * kTaskPlaces];
    alignas(64) C panel[kMostDepth * kMostTileColumns + kPanelSlack];
    Run runs[kMostRuns], out_runs[kMostRuns];
    // The output's places lie `apart`.
    const Strides& s = out_.strides;
    const std::int64_t column = phases_.apart(1) * s[3];
    const int out_count =
        runs_of(phase, place, places, s[0], phases_.apart(0) * s[2], column, out_runs);
    const std::int64_t first = n0 * s[0] + (group * phases_.rows() + row) * s[1] +
                               phase.first[0] * s[2] + phase.first[1] * s[3];
    // Whole vectors that lie densely in the output: sums wait there.
    bool into_out = out_.dtype == dtype_of<C> && column == 1 && places % ops_.lanes == 0;
    for (int i = 0; i < out_count; ++i) into_out &= out_runs[i].lane % width == 0;
    std::int64_t k0 = 0;
    do {
      const std::int64_t k = std::min<std::int64_t>(kMostDepth, phase.depth - k0);
      const std::int64_t depth = packed_depth<C>(k);
      const C* a = weights_of(phase, before, group, k0) + row * depth;
      int out_run = 0;
      for (std::int64_t at = 0; at < places; at += width) {
        const int columns = static_cast<int>(std::min<std::int64_t>(width, places - at));
        const int padded = static_cast<int>(round_up(columns, ops_.lanes));
        const int count =
            runs_of(phase, place + at, columns, l.image(), phases_.row_step() * l.row(), 1, runs);
        TileBlock<C> block{a,     rows,      panel,       padded, columns,
                           depth, sums + at, kTaskPlaces, k0 > 0, k0 + k == phase.depth};
        if (into_out) {
          while (out_run + 1 < out_count && out_runs[out_run + 1].lane <= at) ++out_run;
          block.sums = static_cast<C*>(out_.data) + first + out_runs[out_run].from +
                       (at - out_runs[out_run].lane);
          block.sums_step = s[1];
        }
        if constexpr (std::is_same_v<C, T>)
          if (read_in_place(runs, count, ops_.lanes, block.b_vector)) {
            block.b = image;
            block.b_at = at_ + before + k0;
          }
        if (block.b_at == nullptr) {
          if (columns < padded) std::fill(panel, panel + depth * padded, C{0});
          pack_runs(image, at_ + before + k0, k, runs, count, padded, panel);
        }
        ops_.multiply(block);
      }
      k0 += k;
    } while (k0 < phase.depth);
    for (std::int64_t r = 0; r < rows && !into_out; ++r)
      for (int i = 0; i < out_count; ++i)
        gemm::store_sums(out_.dtype, out_.data, first + r * s[1] + out_runs[i].from, column,
                         out_runs[i].length, sums + r * kTaskPlaces + out_runs[i].lane);
  }

  const Stream& stream_;
  const ConvProblem& p_;
  Phases phases_;
  const TileOps<C>& ops_;
  const View &image_, &weight_, &out_;
  std::int64_t padded_rows_, images_;
  std::int64_t* at_;  // of every phase's k in the image; then one phase's in the weights
  C* a_;
  T* copies_;
};

bool nothing_to_write(const ConvProblem& p) {
  return numel(p.kind == ConvKind::conv2d ? p.y() : p.x) == 0;
}

}  // namespace

std::size_t conv_cpu_workspace(const ConvProblem& p) {
  return nothing_to_write(p) ? 0 : Layout(p, Phases(p)).bytes;
}

Result<void> conv_cpu(const Stream& stream, Workspace workspace, const ConvProblem& p,
                      const Operands& operands) {
  if (nothing_to_write(p)) return {};
  if (p.element_dtype == Dtype::s8)
    Product<std::int32_t, std::int8_t>(stream, workspace, p, operands).run();
  else if (p.element_dtype == Dtype::f64)
    Product<double, double>(stream, workspace, p, operands).run();
  else
    Product<float, float>(stream, workspace, p, operands).run();
  return {};
}

}  // namespace planck
