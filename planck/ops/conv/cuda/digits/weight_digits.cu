// cuda:implicit_digits of conv2d_weight: x and dy are cut once into digits along rows of cells,
// which the copy engine brings moved by what each tap is away.
#include "planck/ops/conv/cuda/digits/digit_slopes.cuh"
#include "planck/ops/conv/cuda/digits/lay_cells.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/layout.h"

namespace planck {

namespace conv_device {
namespace {

class DigitSlopes {
 public:
  DigitSlopes(const Stream& stream, Workspace workspace, const ConvProblem& p,
              const Operands& operands)
      : stream_(stream),
        p_(p),
        x_(operands[conv_operand::first]),
        dy_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        layout_(p),
        keys_(p),
        cells_(p),
        data_(static_cast<char*>(workspace.data)),
        of_x_(data_ + layout_.magnitudes.of_image, keys_.of_image),
        of_dy_(data_ + layout_.magnitudes.of_other, keys_.of_other),
        operands_(operands) {}

  Result<void> run() const {
    const SlopeSums s = sums();
    const std::size_t behind = layout_.sums - layout_.magnitudes.of_other -
                               8 * static_cast<std::size_t>(keys_.of_other),
                      bytes = 8 * static_cast<std::size_t>(s.many * s.each());
    if (auto ok =
            find_both_magnitudes(stream_, p_, operands_, of_x_, of_dy_, keys_, behind + bytes);
        !ok)
      return ok;
    const auto x = cell_source(x_, cells_, true, of_x_, digits(layout_.image), layout_.image_pitch);
    const auto dy =
        cell_source(dy_, cells_, false, of_dy_, digits(layout_.slopes), layout_.slope_pitch);
    if (auto ok = lay_both(stream_, x, dy); !ok) return ok;
    // Two blocks share x where filters come in pairs of tiles, else dy.
    const bool pairs = ceil_div(p_.filters(), 64) % 2 == 0;
    if (auto ok = pairs ? multiply<DigitTiles<128, true>>() : multiply<DigitTiles<128, false>>();
        !ok)
      return ok;
    return join();
  }

 private:
  std::int8_t* digits(std::size_t at) const { return reinterpret_cast<std::int8_t*>(data_ + at); }
  SlopeSums sums() const {
    return {reinterpret_cast<std::int64_t*>(data_ + layout_.sums),
            static_cast<int>(p_.groups()),
            static_cast<int>(p_.taps()),
            static_cast<int>(p_.channels()),
            static_cast<int>(p_.filters()),
            static_cast<int>(layout_.blocks),
            static_cast<int>(layout_.many)};
  }

  // So many cuts of k that all processors have work, for the longest about the same; a step takes
  // 2,500 clocks, and what comes before and after a tile as long as two of them.
  static std::int64_t choose_cuts(std::int64_t tiles, std::int64_t steps, std::int64_t clusters,
                                  std::int64_t least) {
    std::int64_t best = least, least_cost = INT64_MAX;
    for (std::int64_t cuts = least; cuts <= std::min(steps, least + 2 * clusters); ++cuts) {
      const std::int64_t cost = ceil_div(tiles * cuts, clusters) * (ceil_div(steps, cuts) + 2);
      if (cost < least_cost) best = cuts, least_cost = cost;
    }
    return best;
  }

  template <class W>
  Result<void> multiply() const {
    SlopeDigits product{{}, cells_, sums(), 1, 0, 0};
    const std::int64_t groups = p_.groups(), rows = p_.taps() * layout_.blocks * 64;
    product.walk.set<W>(rows, p_.filters(), 1);
    const gemm_device::TileWalk& t = product.walk.tiles;
    const std::int64_t steps = ceil_div(cells_.of_places(), W::kBlock);
    const std::int64_t cuts = choose_cuts(groups * t.down * t.across, steps,
                                          gemm_device::processors_of(stream_) / W::kCluster,
                                          ceil_div(steps, kMostIn32Bits / W::kBlock));
    product.all_steps = static_cast<int>(steps);
    product.steps_of_cut = static_cast<int>(ceil_div(steps, cuts));
    product.cuts = static_cast<int>(ceil_div(steps, product.steps_of_cut));
    product.walk.set<W>(rows, p_.filters(), groups * product.cuts);
    const auto map_x = digit_map(digits(layout_.image), p_.x[1], cells_.of_image(),
                                 layout_.image_pitch, kDigits * cells_.parts(), 64, W::kBlock);
    if (!map_x) return tl::unexpected(map_x.error());
    const auto map_dy = digit_map(digits(layout_.slopes), p_.weight[0], cells_.of_places(),
                                  layout_.slope_pitch, kDigits, W::kOwnColumns, W::kBlock);
    if (!map_dy) return tl::unexpected(map_dy.error());
    return launch_digit_tiles<W>(stream_, *map_x, *map_dy, product);
  }

  Result<void> join() const {
    SlopeJoin a{sums(),
                conv_detail::windows_of(p_, 0),
                Tensor4(x_),
                Tensor4(dy_),
                Tensor4(out_),
                of_x_,
                of_dy_,
                1,
                0,
                0};
    a.at_once = static_cast<int>(std::clamp<std::int64_t>(64 / p_.taps(), 1, 64));
    a.filter_tiles = static_cast<int>(ceil_div(p_.filters(), kJoinFilters));
    // Blocks for all processors, rather than long lines.
    while (a.at_once > 1 && p_.groups() * a.filter_tiles * ceil_div(p_.channels(), a.at_once) < 264)
      a.at_once = (a.at_once + 1) / 2;
    a.channel_tiles = static_cast<int>(ceil_div(p_.channels(), a.at_once));
    const std::int64_t blocks = p_.groups() * a.filter_tiles * a.channel_tiles;
    const std::int64_t shared = kJoinFilters * (a.at_once * p_.taps() + 1) * 4;
    return launch_next_with(stream_, "conv2d_weight", static_cast<std::size_t>(shared), join_slopes,
                            blocks, kJoinThreads, a);
  }

  const Stream& stream_;
  const ConvProblem& p_;
  const View &x_, &dy_, &out_;
  SlopeDigitLayout layout_;
  ExactKeys keys_;
  conv_detail::Cells cells_;
  char* data_;
  Magnitudes of_x_, of_dy_;
  const Operands& operands_;
};

}  // namespace
}  // namespace conv_device

Result<void> conv_weight_implicit_digits(const Stream& stream, Workspace workspace,
                                         const ConvProblem& p, const Operands& operands) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (numel(p.weight) == 0) return {};
  if (p.y()[0] == 0) return conv_integers_cuda(stream, workspace, p, operands);  // sums of nothing
  return conv_device::DigitSlopes(stream, workspace, p, operands).run();
}

}  // namespace planck
