// cuda:places: y and dx. Shapes choose between tiles (image_tiles.cuh) and one thread per place
// (places.cuh); every sum is one chain in the promised order either way.
#include <array>
#include <numeric>

#include "planck/ops/conv/cuda/image_tiles.cuh"
#include "planck/ops/conv/cuda/kernels.h"

namespace planck {

namespace conv_device {
namespace {

using gemm_device::Tiling;

// One axis of a convolution: where places are, and how they and the taps meet the image.
struct Axis {
  std::int64_t places, first_place, place_step;
  std::int64_t taps, first_tap, tap_step;
  std::int64_t step_at, reach, origin;
};

Axis whole_axis(const ConvProblem& p, int axis) {
  const auto d = static_cast<std::size_t>(axis);
  return {p.extent(axis),
          0,
          1,
          p.weight[2 + axis],
          0,
          1,
          p.options.stride[d],
          p.options.dilation[d],
          -p.options.padding[d]};
}

// The places of dx that are `phase` modulo the stride. Tap u meets dy where
// i + padding − u · dilation is a multiple of the stride: every (stride / gcd)-th one from the
// first on.
Axis phase_of(const ConvProblem& p, int axis, std::int64_t phase) {
  const auto d = static_cast<std::size_t>(axis);
  const std::int64_t stride = p.options.stride[d], dilation = p.options.dilation[d];
  const std::int64_t taps = p.weight[2 + axis], at = phase + p.options.padding[d];
  const std::int64_t tap_step = stride / std::gcd(stride, dilation);
  std::int64_t first = 0;
  while (first < taps && first < tap_step && (at - first * dilation) % stride != 0) ++first;
  const bool any = first < taps && first < tap_step;
  return {ceil_div(p.x[2 + axis] - phase, stride),
          phase,
          stride,
          any ? ceil_div(taps - first, tap_step) : 0,
          any ? first : 0,
          tap_step,
          1,
          -(tap_step * dilation / stride),
          any ? (at - first * dilation) / stride : 0};
}

template <class T>
ConvArgs<T> arguments(const ConvProblem& p, const Operands& operands, const Axis (&axes)[2]) {
  const bool forward = p.kind == ConvKind::conv2d;
  const View &image = operands[conv_operand::first], &weight = operands[conv_operand::second];
  const View& out = operands[conv_operand::out];
  constexpr std::int64_t kChunk = 16 / sizeof(typename gemm_device::Stored<T>::Word);
  const int row = forward ? 0 : 1, summed = forward ? 1 : 0;  // axes of the weight
  ConvArgs<T> a{};
  a.image = static_cast<const T*>(image.data);
  a.weight = static_cast<const T*>(weight.data);
  a.out = static_cast<typename ConvArgs<T>::Output*>(out.data);
  for (int d = 0; d < 4; ++d) {
    a.image_strides.at[d] = image.strides[d];
    a.out_strides.at[d] = out.strides[d];
  }
  a.weight_row = weight.strides[row];
  a.weight_summed = weight.strides[summed];
  a.groups = p.groups();
  a.rows = forward ? p.filters() : p.channels();
  a.summed = static_cast<int>(forward ? p.channels() : p.filters());
  a.image_group = a.summed * image.strides[1];
  a.weight_group = p.filters() * weight.strides[0];
  a.out_group = a.rows * out.strides[1];
  a.batch = out.shape[0], a.height = axes[0].places, a.width = axes[1].places;
  a.image_height = static_cast<unsigned>(image.shape[2]);
  a.image_width = static_cast<unsigned>(image.shape[3]);
  for (int axis = 0; axis < 2; ++axis) {
    const Axis& x = axes[axis];
    a.weight += x.first_tap * weight.strides[2 + axis];
    a.weight_tap[axis] = x.tap_step * weight.strides[2 + axis];
    a.out += x.first_place * out.strides[2 + axis];
    a.out_strides.at[2 + axis] *= x.place_step;
    a.step_at[axis] = static_cast<int>(x.step_at);
    a.reach[axis] = static_cast<int>(x.reach);
    a.origin[axis] = static_cast<int>(x.origin);
  }
  const bool any = axes[0].taps * axes[1].taps > 0;
  a.places = {static_cast<int>(a.height), static_cast<int>(a.width)};
  a.taps = {any ? static_cast<int>(axes[0].taps) : 1, any ? static_cast<int>(axes[1].taps) : 1};
  if (!any) a.summed = 0;
  a.depth = a.summed * a.taps.middle * a.taps.inner;
  const auto whole = [&](std::int64_t v) { return v % kChunk == 0; };
  a.out_packs = a.out_strides.at[3] == 1 && whole(a.width) && whole(a.out_group) &&
                whole(a.out_strides.at[0]) && whole(a.out_strides.at[1]) &&
                whole(a.out_strides.at[2]) &&
                reinterpret_cast<std::uintptr_t>(a.out) % (kChunk * sizeof(*a.out)) == 0;
  return a;
}

template <class T, class Tile>
struct Tiled {
  using Word = typename gemm_device::Stored<T>::Word;
  static constexpr std::int64_t kRows = Tile::template kRows<Word>;
  static constexpr std::int64_t kColumns = Tile::template kColumns<Word>;

  static std::int64_t blocks(const ConvArgs<T>& a) {
    return a.groups * ceil_div(a.rows, kRows) * ceil_div(a.batch * a.height * a.width, kColumns);
  }
  // Enough blocks to fill the device, and at most a third more rows than there are.
  static bool suits(const ConvArgs<T>& a) {
    return blocks(a) >= 100 && ceil_div(a.rows, kRows) * kRows * 3 <= a.rows * 4;
  }
  static Result<void> launch(const Stream& stream, ConvArgs<T> a) {
    a.step = a.taps.of(Tile::kDepth * gemm_device::Stored<T>::kInWord);
    return planck::launch(stream, "conv2d", convolve_tiles<T, Tile>, blocks(a), Tile::kThreads, a);
  }
};

constexpr std::int64_t kFewPlaces = 1 << 15;

template <class T>
Result<void> convolve(const Stream& stream, const ConvArgs<T>& a) {
  // For words of 4 bytes, rows × columns: 128 × 128, 64 × 128, 32 × 128, 16 × 32.
  constexpr int kShort = std::is_same_v<T, std::int8_t> ? 8 : 16;
  using Large = Tiled<T, Tiling<4, 2, 2, 2, 8, 2>>;
  using Medium = Tiled<T, Tiling<2, 2, 2, 2, 8, 3>>;
  using Wide = Tiled<T, Tiling<2, 2, 1, 2, 8, 4>>;
  using Small = Tiled<T, Tiling<1, 1, 1, 1, kShort, 10>>;
  const std::int64_t threads =
      a.batch * a.height * a.width * ceil_div(a.rows, kPlaceRows) * a.groups;
  // A thread of few waits for each tap: where sums are long, tiles that load ahead are done sooner.
  const bool waits = a.depth >= 64 && threads <= kFewPlaces;
  if ((a.rows < 4 && !waits) || a.depth < 8) {
    return planck::launch(stream, "conv2d", convolve_places<T>, ceil_div(threads, kPlaceThreads),
                          kPlaceThreads, a);
  }
  if (Large::suits(a)) return Large::launch(stream, a);
  if (Medium::suits(a)) return Medium::launch(stream, a);
  if (Wide::suits(a)) return Wide::launch(stream, a);
  return Small::launch(stream, a);
}

template <class T>
Result<void> run(const Stream& stream, const ConvProblem& p, const Operands& operands) {
  if (p.kind == ConvKind::conv2d)
    return convolve(stream, arguments<T>(p, operands, {whole_axis(p, 0), whole_axis(p, 1)}));
  for (std::int64_t i = 0; i < std::min(p.options.stride[0], p.x[2]); ++i)
    for (std::int64_t j = 0; j < std::min(p.options.stride[1], p.x[3]); ++j)
      if (auto ok =
              convolve(stream, arguments<T>(p, operands, {phase_of(p, 0, i), phase_of(p, 1, j)}));
          !ok)
        return ok;
  return {};
}

}  // namespace
}  // namespace conv_device

Result<void> conv_cuda(const Stream& stream, Workspace, const ConvProblem& p,
                       const Operands& operands) {
  if (numel(operands[conv_operand::out].shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (p.element_dtype == Dtype::s8) return conv_device::run<std::int8_t>(stream, p, operands);
  return visit_float(p.element_dtype, [&](auto type) {
    return conv_device::run<typename decltype(type)::type>(stream, p, operands);
  });
}

}  // namespace planck
