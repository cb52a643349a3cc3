#include "planck/math/products/exact_product.h"
#include "planck/ops/conv/cuda/kernels.h"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/host/cells.h"
#include "planck/ops/conv/host/walk.h"

namespace planck {

namespace conv_device {

namespace {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// exact has no order: any cut serves whose sums int64 holds.
conv_detail::Chunks whole_steps(ConvProblem p) {
  const bool exact = p.math == ProductMath::exact;
  p.math = ProductMath::tensor_core;
  conv_detail::Chunks chunks = conv_detail::chunks_of(p);
  if (exact && chunks.length > math::exact::kMostIn64Bits) {
    chunks.length = math::exact::kMostIn64Bits;
    chunks.count = conv_detail::windows_of(p, 0).places() / chunks.length + 1;
  }
  return chunks;
}

}  // namespace

ExactKeys::ExactKeys(const ConvProblem& p) : of_image(0), of_other(0) {
  if (p.math != ProductMath::exact) return;
  const bool slopes = p.kind == ConvKind::conv2d_weight;
  of_image = slopes ? p.x[1] : p.batch() * p.groups();
  of_other = slopes ? p.weight[0] : p.groups() * conv_detail::rows_of(p);
}

ImageLayout::ImageLayout(const ConvProblem& p) : ImageLayout(p, Parts{}) {}
ImageLayout::ImageLayout(const ConvProblem& p, Parts parts)
    : exact(p.math == ProductMath::exact),
      size(exact ? 1 : static_cast<std::int64_t>(bytes_for(p.element_dtype, 1))),
      pitch(pitch_of(conv_detail::deepest(p))),
      magnitudes(ExactKeys(p), parts) {
  const std::int64_t groups = p.groups(), rows = conv_detail::rows_of(p);
  const std::int64_t planes = exact ? 3 : 1;
  const std::int64_t places = conv_detail::windows_of(p, 0).places();
  slab = std::clamp<std::int64_t>(round_up(kSlabBytes / (planes * groups * pitch * size), 128),
                                  std::min<std::int64_t>(128, places),
                                  std::max<std::int64_t>(places, 1));
  weights = parts.add(planes * groups * rows * pitch * size);
  windows = parts.add(planes * groups * slab * pitch * size);
  sums = parts.add(slab * groups * rows * static_cast<std::int64_t>(bytes_for(p.element_dtype, 1)));
  row_exponents = parts.add(exact ? 4 * groups * slab : 0);
  column_exponents = parts.add(exact ? 4 * groups * rows : 0);
  waiting = parts.add(exact ? kWaitingBytes : 0);
  bytes = parts.end;
}

WeightLayout::WeightLayout(const ConvProblem& p) : WeightLayout(p, Parts{}) {}
WeightLayout::WeightLayout(const ConvProblem& p, Parts parts)
    : exact(p.math == ProductMath::exact),
      size(exact ? 1 : static_cast<std::int64_t>(bytes_for(p.element_dtype, 1))),
      chunks(whole_steps(p)),
      columns(p.channels() * p.taps()),
      magnitudes(ExactKeys(p), parts) {
  const std::int64_t planes = exact ? 3 : 1, length = std::max<std::int64_t>(chunks.length, 1);
  const std::int64_t filters = round_up(std::max<std::int64_t>(p.filters(), 1), 8);
  const std::int64_t all = round_up(std::max<std::int64_t>(columns, 1), 8);
  const std::int64_t place = planes * length * size;  // bytes of one row or column of a chunk
  // As many chunks as fit, with all columns; else as many columns of one, 256 at least.
  some = std::clamp<std::int64_t>(4 * kSlabBytes / (place * (all + filters)), 1, chunks.count);
  some_columns = all;
  if (place * all > 4 * kSlabBytes)
    some_columns = std::clamp<std::int64_t>(4 * kSlabBytes / place / 256 * 256, 256, all);
  sums = parts.add(chunks.count * p.weight[0] * columns * (exact ? 8 : 4));
  windows = parts.add(some * place * some_columns);
  slopes = parts.add(some * place * filters);
  waiting = parts.add(exact ? kWaitingBytes : 0);
  bytes = parts.end;
}

ImplicitLayout::ImplicitLayout(const ConvProblem& p) {
  const auto size = static_cast<std::int64_t>(bytes_for(p.element_dtype, 1));
  const std::int64_t chunk = 16 / size, block = conv_detail::kBlockBytes / size;
  const bool slopes_too = p.kind == ConvKind::conv2d_weight;
  const std::int64_t of_x = p.batch() * p.x[2] * p.x[3] * round_up(p.x[1], chunk) * size;
  const std::int64_t of_dy =
      p.batch() * p.extent(0) * p.extent(1) * round_up(p.weight[0], chunk) * size;
  const std::int64_t inner = p.kind == ConvKind::conv2d_input ? p.filters() : p.channels();
  const std::int64_t depth = conv_detail::most_taps(p) * round_up(inner, block),
                     rows = conv_detail::rows_of(p);
  Parts parts;
  image = parts.add(p.kind == ConvKind::conv2d_input ? of_dy : of_x);
  slopes = parts.add(slopes_too ? of_dy : 0);
  filters = parts.add(slopes_too ? 0 : rows * depth * size);
  sums = parts.add(slopes_too ? conv_detail::chunks_of(p).count * rows * depth * 4
                              : conv_detail::windows_of(p, 0).places() * rows * size);
  bytes = parts.end;
}

// Blocks of 128 bytes, unless they leave more free than blocks of 64.
DigitLayout::DigitLayout(const ConvProblem& p) : DigitLayout(p, Parts{}) {}
DigitLayout::DigitLayout(const ConvProblem& p, Parts parts)
    : block(0), magnitudes(ExactKeys(p), parts) {
  const std::int64_t channels = conv_detail::windows_of(p, 0).channels;
  block = round_up(channels, 128) == round_up(channels, 64) ? 128 : 64;
  const std::int64_t groups = p.groups(), pitch = 3 * round_up(channels, block);
  const bool backward = p.kind == ConvKind::conv2d_input;
  const std::int64_t pixels = p.batch() * (backward ? p.extent(0) * p.extent(1) : p.x[2] * p.x[3]);
  added = parts.add(kMostCutTiles * kAddedBytes), sums = parts.add(kMostCutTiles * kSumBytes);
  const ExactKeys keys(p);
  image_exponents = parts.add(4 * keys.of_image), filter_exponents = parts.add(4 * keys.of_other);
  image = parts.add(pixels * groups * pitch);
  filters = parts.add(groups * conv_detail::rows_of(p) * conv_detail::most_taps(p) * pitch);
  bytes = parts.end;
}

SlopeDigitLayout::SlopeDigitLayout(const ConvProblem& p) : SlopeDigitLayout(p, Parts{}) {}
SlopeDigitLayout::SlopeDigitLayout(const ConvProblem& p, Parts parts)
    : blocks(ceil_div(p.channels(), 64)),
      many(ceil_div(conv_detail::Cells(p).of_places(), math::exact::kMostIn64Bits)),
      sums(parts.add(8 * many * p.taps() * blocks * 64 * p.weight[0])),
      magnitudes(ExactKeys(p), parts) {
  const conv_detail::Cells cells(p);
  image_pitch = round_up(cells.of_image(), 16), slope_pitch = round_up(cells.of_places(), 16);
  image = parts.add(3 * cells.parts() * p.x[1] * image_pitch);
  slopes = parts.add(3 * p.weight[0] * slope_pitch);
  bytes = parts.end;
}

}  // namespace conv_device

std::size_t conv_weight_cuda_workspace(const ConvProblem& p) {
  const std::size_t word = p.element_dtype == Dtype::f64 ? 8 : 4;
  return static_cast<std::size_t>(conv_detail::chunks_of(p).count * numel(p.weight)) * word;
}

std::size_t conv_integers_cuda_workspace(const ConvProblem& p) {
  conv_device::Parts parts;
  conv_device::MagnitudesLayout(conv_device::ExactKeys(p), parts);
  return parts.end;
}

std::size_t conv_warpgroups_workspace(const ConvProblem& p) {
  return p.kind == ConvKind::conv2d_weight ? conv_device::WeightLayout(p).bytes
                                           : conv_device::ImageLayout(p).bytes;
}

// Rows of k are brought with 32-bit coordinates, sums of digits in int64.
std::string conv_warpgroups_refusal(const ConvProblem& p) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30, kMostDepth = std::int64_t{1} << 17;
  const auto over = [](const char* what, std::int64_t n, const char* most) {
    return std::string(what) + " " + std::to_string(n) + ", must be below " + most;
  };
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t along = p.x[2 + axis] + 2 * p.options.padding[a] + p.options.stride[a];
    if (along >= kMost) return over("pixels of a padded image:", along, "2^30");
  }
  const std::int64_t depth = conv_detail::deepest(p);
  if (p.kind != ConvKind::conv2d_weight && depth > kMostDepth)
    return over("products of a sum:", depth, "2^17");
  const std::int64_t rows = std::max(
      {numel(p.weight), p.batch() * p.x[2] * p.x[3], p.batch() * p.extent(0) * p.extent(1)});
  if (rows >= kMost) return over("weights or places:", rows, "2^30");
  const std::int64_t channels = std::max(p.x[1], p.weight[0]);
  if (channels >= 1 << 20) return over("channels:", channels, "2^20");
  if (p.groups() > 65535) return over("groups:", p.groups(), "65536");
  return "";
}

std::size_t conv_implicit_workspace(const ConvProblem& p) {
  return conv_device::ImplicitLayout(p).bytes;
}

namespace {

constexpr const char* kNoPixels = "the copy engine takes no images without pixels";

std::string walk_refusal(const ConvProblem& p, int block) {
  if (numel(p.x) == 0) return kNoPixels;
  for (std::int64_t phase = 0; phase < conv_detail::phases_of(p); ++phase) {
    const auto w = conv_detail::windows_of(p, phase);
    if (w.depth() > 0 && w.places() > 0 && !conv_detail::walk_of(w, block, p.weight[3]))
      return "the copy engine walks 8 pixels a step and 127 beyond a border at most";
  }
  return "";
}

}  // namespace

std::string conv_implicit_refusal(const ConvProblem& p) {
  const bool tf32 = p.element_dtype == Dtype::f32;
  if (tf32 && p.kind == ConvKind::conv2d_weight)
    return "brings dy across k, which tensor cores read of 16-bit elements alone, these are f32";
  if (p.groups() != 1)
    return "brings channels of one group, there are " + std::to_string(p.groups());
  const std::int64_t channels = conv_detail::windows_of(p, 0).channels, least = tf32 ? 8 : 16;
  if (channels < least)
    return "brings channels of one tap, " + std::to_string(least) + " or more, there are " +
           std::to_string(channels);
  if (auto refusal = conv_warpgroups_refusal(p); !refusal.empty()) return refusal;
  return walk_refusal(p, conv_detail::kBlockBytes / (tf32 ? 4 : 2));
}

namespace {

std::string slope_digits_refusal(const ConvProblem& p) {
  constexpr std::int64_t kMostTaps = 256, kLeastImages = 8, kMostCells = std::int64_t{1} << 30;
  if (numel(p.x) == 0) return kNoPixels;
  if (p.taps() > kMostTaps) return "joins 256 taps at once, there are " + std::to_string(p.taps());
  const std::int64_t step = std::max(p.options.stride[0], p.options.stride[1]);
  if (step > conv_detail::kMostStep)
    return "lays cells of steps up to 8, there is one of " + std::to_string(step);
  if (p.batch() < kLeastImages)
    return "lays 16 images side by side, there are " + std::to_string(p.batch());
  const conv_detail::Cells cells(p);
  const std::int64_t lines = p.x[2] + 2 * p.options.padding[0];
  if (const std::int64_t all = lines * cells.wide * cells.images; all >= kMostCells)
    return "counts cells of a batch below 2^30, there are " + std::to_string(all);
  return "";
}

}  // namespace

std::size_t conv_implicit_digits_workspace(const ConvProblem& p) {
  if (p.kind == ConvKind::conv2d_weight) return conv_device::SlopeDigitLayout(p).bytes;
  return conv_device::DigitLayout(p).bytes;
}

std::string conv_implicit_digits_refusal(const ConvProblem& p) {
  constexpr std::int64_t kLeast = 16, kMostProducts = 65'024;
  const std::int64_t channels = conv_detail::windows_of(p, 0).channels;
  if (channels < kLeast)
    return "brings channels of one tap, 16 or more, there are " + std::to_string(channels);
  if (auto refusal = conv_warpgroups_refusal(p); !refusal.empty()) return refusal;
  if (p.kind == ConvKind::conv2d_weight) return slope_digits_refusal(p);
  const std::int64_t depth = conv_detail::deepest(p);
  if (depth > kMostProducts)
    return "sums of digits hold 65024 products in 32 bits, there are " + std::to_string(depth);
  const auto block = static_cast<int>(conv_device::DigitLayout(p).block);
  return walk_refusal(p, block);
}

}  // namespace planck
