// cuda:implicit_digits of conv2d_weight: x and dy are cut once into digits along rows of cells,
// which the copy engine brings moved by what each tap is away.
#include "planck/ops/conv/cuda/digits/digit_slopes.cuh"
#include "planck/ops/conv/cuda/digits/lay_cells_once.cuh"
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
    // Two blocks share x where filters come in pairs of tiles, else dy. Steps are of 64 bytes where
    // these leave out more zeros, a twentieth of k.
    const bool pairs = ceil_div(p_.filters(), 64) % 2 == 0;
    if (64 * 20 * steps_of(64).all < 128 * 19 * steps_of(128).all)
      return pairs ? run_tiles<DigitTiles<64, true>>() : run_tiles<DigitTiles<64, false>>();
    return pairs ? run_tiles<DigitTiles<128, true>>() : run_tiles<DigitTiles<128, false>>();
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

  // k as it is walked over: where a row of places is whole steps, the zeros behind it are left out.
  struct Steps {
    std::int64_t all, of_line, between_lines;
  };
  Steps steps_of(std::int64_t block) const {
    const std::int64_t line = std::int64_t{cells_.across.places} * cells_.images;
    if (line % block != 0) {
      const std::int64_t all = ceil_div(cells_.of_places(), block);
      return {all, all, 0};
    }
    return {cells_.down.places * (line / block), line / block,
            std::int64_t{cells_.wide} * cells_.images - line};
  }

  template <class W>
  Result<void> run_tiles() const {
    const Steps steps = steps_of(W::kBlock);
    const std::int64_t rows_at_once = W::kRows / 64 * (W::kShareRows ? 1 : 2),
                       columns_at_once = W::kColumns * (W::kShareRows ? 2 : 1);
    // A step of 128 bytes takes 2,500 clocks, what comes before and after a tile as long as two.
    const conv_detail::SlopeCuts cuts = conv_detail::cut_slopes(
        {p_.taps() * layout_.blocks, p_.groups(), rows_at_once,
         ceil_div(p_.filters(), columns_at_once), steps.all, kMostIn32Bits / W::kBlock,
         gemm_device::processors_of(stream_) / W::kCluster, 256 / W::kBlock});
    const std::size_t kept = not_cleared(cuts, rows_at_once);
    if (auto ok = lay(data_ + layout_.sums + kept, all_sums() - kept); !ok) return ok;
    const SlopeDigits product{cuts, cells_, sums(), static_cast<int>(steps.of_line),
                              static_cast<int>(steps.between_lines)};
    if (auto ok = multiply<W>(product); !ok) return ok;
    return join();
  }

  // Both operands as digits, and so many bytes as zeros.
  Result<void> lay(void* cleared, std::size_t bytes) const {
    const auto x = cell_source(x_, cells_, true, of_x_, digits(layout_.image), layout_.image_pitch);
    const auto dy =
        cell_source(dy_, cells_, false, of_dy_, digits(layout_.slopes), layout_.slope_pitch);
    const CellsAtOnce all_x(x), all_dy(dy);
    if (all_x.fits() && all_dy.fits() &&
        x.channels + dy.channels >= gemm_device::processors_of(stream_))
      return lay_both_at_once(stream_, all_x, all_dy, cleared, bytes);
    if (auto ok = find_both_magnitudes(stream_, p_, operands_, of_x_, of_dy_, keys_); !ok)
      return ok;
    return lay_both(stream_, x, dy, cleared, bytes);
  }

  // Sums from the first row on that several tiles add to are zeros before; bytes in front of it.
  std::size_t not_cleared(const conv_detail::SlopeCuts& cuts, std::int64_t rows_at_once) const {
    const SlopeSums s = sums();
    const auto first = cuts.first_cut(s.groups);
    const std::int64_t row =
        std::int64_t{first.group} * s.taps * s.blocks + first.row * rows_at_once;
    return s.many > 1 ? 0 : 8 * static_cast<std::size_t>(row * 64 * s.filters);
  }
  std::size_t all_sums() const {
    const SlopeSums s = sums();
    return 8 * static_cast<std::size_t>(s.many * s.each());
  }

  template <class W>
  Result<void> multiply(const SlopeDigits& product) const {
    const auto map_x = digit_map(digits(layout_.image), p_.x[1], cells_.of_image(),
                                 layout_.image_pitch, kDigits * cells_.parts(), 64, W::kBlock);
    if (!map_x) return tl::unexpected(map_x.error());
    const auto map_dy = digit_map(digits(layout_.slopes), p_.weight[0], cells_.of_places(),
                                  layout_.slope_pitch, kDigits, W::kOwnColumns, W::kBlock);
    if (!map_dy) return tl::unexpected(map_dy.error());
    return launch_digit_tiles<W>(stream_, *map_x, *map_dy, product);
  }

  Result<void> join() const {
    const auto count = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
    const SlopeJoin a{sums(),
                      conv_detail::windows_of(p_, 0),
                      Tensor4(x_),
                      Tensor4(dy_),
                      Tensor4(out_),
                      of_x_,
                      of_dy_,
                      static_cast<int>(ceil_div(p_.filters(), SlopeJoin::kFilters)),
                      static_cast<int>(ceil_div(p_.channels() * p_.taps(), SlopeJoin::kItems)),
                      Divisor(count(p_.taps())),
                      Divisor(count(p_.weight[3]))};
    return launch_next(stream_, "conv2d_weight", join_slopes, a.blocks(), SlopeJoin::kThreads, a);
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
