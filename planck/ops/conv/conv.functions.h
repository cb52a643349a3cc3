// Convolutions on tensors.
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

}  // namespace planck
