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

  // How k is cut, so that all processors have work for about the same time: tiles that fill them
  // not at all, the rest into `rest`, and tiles of one warpgroup into cuts of twice the length. A
  // step takes 2,500 clocks, what comes before and after a tile as long as two of them.
  struct Cuts {
    std::int64_t whole, rest, half;  // whole: tiles
  };
  static Cuts choose_cuts(std::int64_t tiles, std::int64_t half_tiles, std::int64_t steps,
                          std::int64_t clusters) {
    const std::int64_t least = ceil_div(steps, kMostIn32Bits / 128);
    Cuts best{};
    std::int64_t least_cost = INT64_MAX;
    for (const std::int64_t waves : {std::int64_t{0}, least == 1 ? tiles / clusters : 0})
      for (std::int64_t c = least; c <= std::min(steps, least + 2 * clusters); ++c) {
        const Cuts cuts{waves * clusters, c, std::max(least, ceil_div(c, 2))};
        const std::int64_t units = (tiles - cuts.whole) * cuts.rest + half_tiles * cuts.half;
        const std::int64_t cost =
            waves * (steps + 2) + ceil_div(units, clusters) * (ceil_div(steps, c) + 2);
        if (cost < least_cost) best = cuts, least_cost = cost;
      }
    return best;
  }

  template <class W>
  Result<void> multiply() const {
    const std::int64_t groups = p_.groups(), blocks = p_.taps() * layout_.blocks;
    const std::int64_t of_cluster = W::kRows / 64 * (W::kShareRows ? 1 : 2);
    const std::int64_t steps = ceil_div(cells_.of_places(), W::kBlock);
    const std::int64_t alone = blocks % of_cluster == 1 ? 1 : 0;
    const gemm_device::TileWalk most = walk_over<W>((blocks - alone) * 64, p_.filters(), groups),
                                last = walk_over<W>(alone * 64, p_.filters(), groups);
    const Cuts cuts = choose_cuts(count_of(most), count_of(last), steps,
                                  gemm_device::processors_of(stream_) / W::kCluster);
    const auto walk = [&](const gemm_device::TileWalk& tiles, std::int64_t first_row,
                          std::int64_t first, std::int64_t count, std::int64_t wanted) {
      const std::int64_t of_cut = ceil_div(steps, wanted);
      return SlopeWalk{tiles,
                       static_cast<int>(first_row),
                       static_cast<int>(first),
                       static_cast<int>(count),
                       static_cast<int>(ceil_div(steps, of_cut)),
                       static_cast<int>(of_cut)};
    };
    const SlopeDigits product{
        {walk(most, 0, 0, cuts.whole, 1),
         walk(most, 0, cuts.whole, count_of(most) - cuts.whole, cuts.rest),
         walk(last, (blocks - alone) / of_cluster, 0, count_of(last), cuts.half)},
        cells_,
        sums(),
        static_cast<int>(steps)};
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
    // About two sums for each thread: what they wait for, others wait for, too.
    a.at_once = static_cast<int>(std::clamp<std::int64_t>(24 / p_.taps(), 1, 16));
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
