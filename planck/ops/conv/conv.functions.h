// Convolutions on tensors: of images, of lines, which are images of height 1, and of volumes, whose
// taps along depth are channels of an image.
#pragma once

#include "planck/ops/conv/conv.ops.h"
#include "planck/ops/elementwise/elementwise.functions.h"
#include "planck/ops/matmul/matmul.functions.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck {

// x [N, C, H, W], weight [F, C / groups, KH, KW] → [N, F, OH, OW]; integers are s8 and give i32.
// What a product means is `math`, else what the device of the tensors says.
template <class B, class K>
Tensor<B, K> conv2d(const Tensor<B, K>& x, const Tensor<B, K>& weight,
                    const Conv2dOptions& options = {}, std::optional<ProductMath> math = {}) {
  return call(Conv2d{options, math}, x, weight);
}

// The gradient of conv2d by its input, as a function of its own: x [N, F, H, W], weight
// [F, C / groups, KH, KW] → [N, C, OH, OW], OH = (H − 1) stride − 2 padding + (KH − 1) dilation + 1
// + output_padding, which is less than stride.
template <class B>
Tensor<B> conv_transpose2d(const Tensor<B>& x, const Tensor<B>& weight,
                           const Conv2dOptions& options = {},
                           std::array<std::int64_t, 2> output_padding = {0, 0},
                           std::optional<ProductMath> math = {}) {
  if (x.rank() != 4 || weight.rank() != 4)
    refuse("conv_transpose2d: x has shape {}, weight {}: both need four axes",
           {x.shape(), weight.shape()});
  std::array<std::int64_t, 2> size{};
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (output_padding[a] < 0 || output_padding[a] >= options.stride[a])
      refuse("conv_transpose2d: output_padding is {}, must be less than stride, {}",
             {output_padding[a], options.stride[a]});
    size[a] = (x.extent(2 + axis) - 1) * options.stride[a] - 2 * options.padding[a] +
              (weight.extent(2 + axis) - 1) * options.dilation[a] + 1 + output_padding[a];
  }
  return call(Conv2dInput{options, size, math}, x, weight);
}

struct Conv1dOptions {
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;

  bool operator==(const Conv1dOptions&) const = default;
};

namespace conv_detail {

inline Conv2dOptions of_line(const Conv1dOptions& o) {
  return {{1, o.stride}, {0, o.padding}, {1, o.dilation}, o.groups};
}
inline void check_rank(std::string_view op, const Shape& x, const Shape& weight, int rank,
                       std::string_view axes) {
  if (x.rank() != rank || weight.rank() != rank)
    refuse("{}: x has shape {}, weight {}: both need {} axes", {op, x, weight, axes});
}

}  // namespace conv_detail

// x [N, C, L], weight [F, C / groups, K] → [N, F, OL]: conv2d of images of height 1.
template <class B, class K>
Tensor<B, K> conv1d(const Tensor<B, K>& x, const Tensor<B, K>& weight,
                    const Conv1dOptions& options = {}, std::optional<ProductMath> math = {}) {
  conv_detail::check_rank("conv1d", x.shape(), weight.shape(), 3, "three");
  return squeeze(conv2d(unsqueeze(x, 2), unsqueeze(weight, 2), conv_detail::of_line(options), math),
                 2);
}

// The gradient of conv1d by its input, as a function of its own: x [N, F, L], weight
// [F, C / groups, K] → [N, C, OL], OL = (L − 1) stride − 2 padding + (K − 1) dilation + 1
// + output_padding, which is less than stride.
template <class B>
Tensor<B> conv_transpose1d(const Tensor<B>& x, const Tensor<B>& weight,
                           const Conv1dOptions& options = {}, std::int64_t output_padding = 0,
                           std::optional<ProductMath> math = {}) {
  conv_detail::check_rank("conv_transpose1d", x.shape(), weight.shape(), 3, "three");
  if (output_padding < 0 || output_padding >= options.stride)
    refuse("conv_transpose1d: output_padding is {}, must be less than stride, {}",
           {output_padding, options.stride});
  return squeeze(conv_transpose2d(unsqueeze(x, 2), unsqueeze(weight, 2),
                                  conv_detail::of_line(options), {0, output_padding}, math),
                 2);
}

// Triples are of depth, height and width.
struct Conv3dOptions {
  std::array<std::int64_t, 3> stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  std::int64_t groups = 1;

  bool operator==(const Conv3dOptions&) const = default;
};

// x [N, C, D, H, W], weight [F, C / groups, KD, KH, KW] → [N, F, OD, OH, OW]: conv2d of N OD images
// whose channels (c, u) are plane u of what the kernel covers along depth. So a sum goes over c, u,
// v, w in this order, and is rounded once. Takes memory for KD / stride copies of x.
template <class B, class K>
Tensor<B, K> conv3d(const Tensor<B, K>& x, const Tensor<B, K>& weight,
                    const Conv3dOptions& options = {}, std::optional<ProductMath> math = {}) {
  conv_detail::check_rank("conv3d", x.shape(), weight.shape(), 5, "five");
  const auto& [stride, padding, dilation, groups] = options;
  if (stride[0] < 1 || dilation[0] < 1 || padding[0] < 0)
    refuse(
        "conv3d: along depth, stride is {}, dilation {}, padding {}: must be at least 1, 1 and 0",
        {stride[0], dilation[0], padding[0]});
  const std::int64_t taps = weight.extent(2), reach = (taps - 1) * dilation[0],
                     padded = x.extent(2) + 2 * padding[0], n = x.extent(0);
  if (taps < 1 || padded <= reach)
    refuse("conv3d: the kernel covers {} of depth, x has {} with its padding", {reach + 1, padded});
  const std::int64_t depth = (padded - reach - 1) / stride[0] + 1;
  const Extents around = {0, 0, padding[0], 0, 0};
  const auto from = permute(padding[0] == 0 ? x : pad(x, around, around), {0, 2, 1, 3, 4});
  std::vector<Tensor<B, K>> planes;  // [N, OD, C, H, W] each
  for (std::int64_t u = 0; u < taps; ++u)
    planes.push_back(
        slice(from, 1, u * dilation[0], u * dilation[0] + (depth - 1) * stride[0] + 1, stride[0]));
  const auto images =
      reshape(stack(planes, 3), {n * depth, x.extent(1) * taps, x.extent(3), x.extent(4)});
  const auto filters = reshape(
      weight, {weight.extent(0), weight.extent(1) * taps, weight.extent(3), weight.extent(4)});
  const auto y = conv2d(
      images, filters,
      {{stride[1], stride[2]}, {padding[1], padding[2]}, {dilation[1], dilation[2]}, groups}, math);
  return permute(reshape(y, {n, depth, y.extent(1), y.extent(2), y.extent(3)}), {0, 2, 1, 3, 4});
}

}  // namespace planck
