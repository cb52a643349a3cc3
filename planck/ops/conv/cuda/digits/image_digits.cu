// cuda:implicit_digits: exact convolutions whose digits the copy engine brings window by window.
// Image and filters are cut once into the workspace, sums go where they belong.
#include "planck/ops/conv/cuda/digits/digit_patches.cuh"
#include "planck/ops/conv/cuda/digits/digit_windows.cuh"
#include "planck/ops/conv/cuda/digits/lay_digits.cuh"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/cuda/places_out.cuh"

namespace planck {

namespace conv_device {
namespace {

class DigitImages {
 public:
  DigitImages(const Stream& stream, Workspace workspace, const ConvProblem& p,
              const Operands& operands)
      : stream_(stream),
        p_(p),
        image_(operands[conv_operand::first]),
        weight_(operands[conv_operand::second]),
        out_(operands[conv_operand::out]),
        layout_(p),
        keys_(p),
        blocks_(conv_detail::windows_of(p, 0).channels, layout_.block),
        data_(static_cast<char*>(workspace.data)),
        images_(data_ + layout_.magnitudes.of_image, keys_.of_image),
        weights_(data_ + layout_.magnitudes.of_other, keys_.of_other),
        operands_(operands) {}

  Result<void> run() const {
    const conv_detail::WindowCuts cuts = cuts_of(conv_detail::windows_of(p_, 0));
    const std::size_t counted = 8 * static_cast<std::size_t>(keys_.of_other);
    const std::int64_t cut_tiles = 2 * (cuts.pairs - cuts.whole);
    const std::size_t behind =
        cut_tiles == 0 ? 0
                       : layout_.sums - layout_.magnitudes.of_other - counted +
                             static_cast<std::size_t>(cut_tiles * DigitLayout::kSumBytes);
    if (auto ok = find_both_magnitudes(stream_, p_, operands_, images_, weights_, keys_, behind);
        !ok)
      return ok;
    bool laid = false;
    for (std::int64_t phase = 0; phase < conv_detail::phases_of(p_); ++phase)
      if (auto ok = run_phase(conv_detail::windows_of(p_, phase), laid); !ok) return ok;
    return {};
  }

 private:
  // Two blocks share windows where filters come in pairs of tiles, else filters.
  bool share_windows() const { return ceil_div(conv_detail::rows_of(p_), 64) % 2 == 0; }
  gemm_device::TileWalk walk(const Windows& w) const {
    const std::int64_t rows = conv_detail::rows_of(p_);
    return share_windows() ? walk_over<DigitTiles<64, true>>(w.places(), rows, p_.groups())
                           : walk_over<DigitTiles<64, false>>(w.places(), rows, p_.groups());
  }

  // Sums in memory have room for one product's tiles, not for several phases'.
  conv_detail::WindowCuts cuts_of(const Windows& w) const {
    const bool alone = conv_detail::phases_of(p_) == 1;
    return conv_detail::cut_windows(count_of(walk(w)), w.taps() * (blocks_.padded / blocks_.block),
                                    gemm_device::processors_of(stream_) / 2,
                                    alone ? DigitLayout::kMostCutTiles / 2 : 0);
  }

  template <class T>
  T* part(std::size_t at) const {
    return reinterpret_cast<T*>(data_ + at);
  }
  std::int8_t* image_digits() const { return part<std::int8_t>(layout_.image); }
  std::int8_t* filter_digits() const { return part<std::int8_t>(layout_.filters); }

  // The first phase that multiplies lays the image.
  Result<void> run_phase(const Windows& w, bool& laid) const {
    if (w.places() == 0) return {};
    if (w.depth() == 0) return put<float>(stream_, w, out_, nullptr, 0, w.places());
    const auto along = conv_detail::walk_of(w, static_cast<int>(layout_.block), p_.weight[3]);
    if (!along) return fail(ErrorCode::device, "conv2d: the copy engine refuses these windows");
    const std::int64_t rows = conv_detail::rows_of(p_);
    const WeightOperand weight{Tensor4(weight_), p_.filters(), p_.kind == ConvKind::conv2d};
    const ImageToLay image(image_, blocks_, p_.groups(), images_, image_digits(),
                           part<int>(layout_.image_exponents));
    const FiltersToLay filters(w, weight, rows, p_.groups(), blocks_, weights_, filter_digits(),
                               part<int>(layout_.filter_exponents));
    if (auto ok = lay(stream_, image, !laid, filters); !ok) return ok;
    laid = true;
    const Strides& s = out_.strides;
    const WindowDigits product{
        walk(w),
        cuts_of(w),
        {part<std::int64_t>(layout_.sums), part<unsigned>(layout_.added)},
        *along,
        static_cast<int>(w.places()),
        static_cast<int>(rows),
        static_cast<int>(p_.groups()),
        static_cast<float*>(out_.data) + w.down.first_place * s[2] + w.across.first_place * s[3],
        s[0],
        s[2] * w.down.place_step,
        s[3] * w.across.place_step,
        s[1],
        part<int>(layout_.image_exponents),
        part<int>(layout_.filter_exponents)};
    if (auto ok = multiply(product); !ok) return ok;
    return replace(w, weight, rows);
  }

  Result<void> multiply(const WindowDigits& product) const {
    if (conv_detail::phases_of(p_) == 1)
      if (const auto patches =
              digit_patches_of(product.windows, product.rows, p_.groups(), product.places,
                               gemm_device::processors_of(stream_)))
        return launch_patches(product, *patches);
    const bool pairs = share_windows();
    if (layout_.block == 64)
      return pairs ? launch_tiles<DigitTiles<64, true>>(product)
                   : launch_tiles<DigitTiles<64, false>>(product);
    return pairs ? launch_tiles<DigitTiles<128, true>>(product)
                 : launch_tiles<DigitTiles<128, false>>(product);
  }

  PixelImage pixels() const {
    const std::int64_t pitch = p_.groups() * blocks_.pitch(), wide = image_.shape[3],
                       high = image_.shape[2];
    return {image_digits(), image_.shape[0],
            pitch,          high,
            wide,           {high * wide * pitch, wide * pitch, pitch}};
  }

  Result<void> launch_patches(const WindowDigits& product, const DigitPatches& patches) const {
    const std::int64_t depth = std::int64_t{product.windows.taps} * blocks_.pitch();
    const auto map_filters =
        digit_map(filter_digits(), product.rows, depth, depth, 1, 64, DigitPatches::kBlock);
    if (!map_filters) return tl::unexpected(map_filters.error());
    return launch_digit_patches(stream_, pixels(), *map_filters, patches, product);
  }

  template <class W>
  Result<void> launch_tiles(const WindowDigits& product) const {
    const PixelImage image = pixels();
    const auto map_a = window_map<std::int8_t>(product.windows, image, W::kOwnRows);
    if (!map_a) return tl::unexpected(map_a.error());
    const std::int64_t depth = std::int64_t{product.windows.taps} * blocks_.pitch();
    const auto map_b = digit_map(filter_digits(), product.rows, depth, depth, p_.groups(),
                                 W::kOwnColumns, W::kBlock);
    if (!map_b) return tl::unexpected(map_b.error());
    return launch_digit_tiles<W>(stream_, *map_a, *map_b, product);
  }

  // Sums that met NaN or infinities.
  Result<void> replace(const Windows& w, const WeightOperand& weight, std::int64_t rows) const {
    constexpr int kThreads = 256;
    const std::int64_t all = w.places() * p_.groups() * rows;
    return launch_next(stream_, "conv2d", replace_not_finite,
                       std::min<std::int64_t>(ceil_div(all, kThreads), 528), kThreads, w,
                       Tensor4(image_), weight, Tensor4(out_), p_.groups(), rows, images_, weights_,
                       keys_.of_image, keys_.of_other);
  }

  const Stream& stream_;
  const ConvProblem& p_;
  const View &image_, &weight_, &out_;
  DigitLayout layout_;
  ExactKeys keys_;
  DigitBlocks blocks_;
  char* data_;
  Magnitudes images_, weights_;
  const Operands& operands_;
};

}  // namespace
}  // namespace conv_device

Result<void> conv_implicit_digits(const Stream& stream, Workspace workspace, const ConvProblem& p,
                                  const Operands& operands) {
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return conv_device::DigitImages(stream, workspace, p, operands).run();
}

}  // namespace planck
