// Convolutions as values; conv.h says what they compute. Each is also written in simpler ops, for
// backends without kernels: patches of the image side by side, and a product of matrices. The bits
// of `chain` are those of the kernels then; others sum over the patches in another order.
#pragma once

#include "planck/core/exception.h"
#include "planck/ops/conv/conv.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

namespace conv_detail {

// x [N, C, H, W] → [N, G, (C / G) KH KW, OH OW]: what the kernel covers at each place of the
// output. Row and column of tap (u, v) are first[0] + u * dilation[0] and first[1] + v *
// dilation[1] of the first place; a negative dilation walks backwards.
template <class B, class K>
Tensor<B, K> patches(const Tensor<B, K>& x, std::array<std::int64_t, 2> kernel,
                     std::array<std::int64_t, 2> places, std::array<std::int64_t, 2> first,
                     std::array<std::int64_t, 2> stride, std::array<std::int64_t, 2> dilation,
                     std::int64_t groups) {
  std::vector<Tensor<B, K>> taps;
  for (std::int64_t u = 0; u < kernel[0]; ++u)
    for (std::int64_t v = 0; v < kernel[1]; ++v) {
      const std::int64_t h = first[0] + u * dilation[0], w = first[1] + v * dilation[1];
      taps.push_back(slice(slice(x, 2, h, h + (places[0] - 1) * stride[0] + 1, stride[0]), 3, w,
                           w + (places[1] - 1) * stride[1] + 1, stride[1]));
    }
  return reshape(stack(taps, 2), {x.extent(0), groups, x.extent(1) / groups * kernel[0] * kernel[1],
                                  places[0] * places[1]});
}

// Patches of an image as conv2d reads them.
template <class B, class K>
Tensor<B, K> patches(const Tensor<B, K>& x, const ConvProblem& p) {
  const auto& o = p.options;
  const Extents around = {0, 0, o.padding[0], o.padding[1]};
  return patches(pad(x, around, around), {p.weight[2], p.weight[3]}, {p.extent(0), p.extent(1)},
                 {0, 0}, o.stride, o.dilation, o.groups);
}

}  // namespace conv_detail

// x, weight → y
struct Conv2d {
  static constexpr std::string_view name = "conv2d";
  Conv2dOptions options;
  std::optional<ProductMath> math = {};  // none: as the stream of the inputs says

  Result<ConvProblem> problem(std::span<const InputSpec> in) const {
    return conv_problem(ConvKind::conv2d, options, {}, in[0], in[1], math);
  }
  template <class B, class K>
  Tensor<B, K> decompose(const Tensor<B, K>& x, const Tensor<B, K>& weight) const {
    const ConvProblem p = value_or_throw(problem(
        std::array{InputSpec{x.dtype(), x.shape()}, InputSpec{weight.dtype(), weight.shape()}}));
    const std::int64_t g = p.groups(), depth = p.channels() * p.taps();
    const auto w =
        expand(reshape(weight, {1, g, p.filters(), depth}), {p.batch(), g, p.filters(), depth});
    return reshape(matmul(w, conv_detail::patches(x, p), {.math = math}), p.y());
  }
};

// dy, weight → dx [.., .., size]
struct Conv2dInput {
  static constexpr std::string_view name = "conv2d_input";
  Conv2dOptions options;
  std::array<std::int64_t, 2> size{};
  std::optional<ProductMath> math = {};

  Result<ConvProblem> problem(std::span<const InputSpec> in) const {
    return conv_problem(ConvKind::conv2d_input, options, size, in[0], in[1], math);
  }
  template <class B>
  Tensor<B> decompose(const Tensor<B>& dy, const Tensor<B>& weight) const {
    const ConvProblem p = value_or_throw(problem(
        std::array{InputSpec{dy.dtype(), dy.shape()}, InputSpec{weight.dtype(), weight.shape()}}));
    const auto& o = options;
    // dy with stride − 1 zeros between its elements, then room for every tap around them.
    Tensor<B> wide = dy;
    Extents before = {0, 0, 0, 0}, after = before;
    std::array<std::int64_t, 2> first{}, back{};
    for (int axis = 0; axis < 2; ++axis) {
      const auto a = static_cast<std::size_t>(axis);
      const std::int64_t reach = (p.weight[2 + axis] - 1) * o.dilation[a];
      Shape shape = wide.shape();
      shape[2 + axis] = (shape[2 + axis] - 1) * o.stride[a] + 1;
      if (o.stride[a] > 1)
        wide = slice_assign(full_like(wide, 0, shape), wide, 2 + axis, 0, INT64_MAX, o.stride[a]);
      before[2 + axis] = reach - o.padding[a];
      after[2 + axis] = size[a] + o.padding[a] - shape[2 + axis];
      first[a] = reach;
      back[a] = -o.dilation[a];
    }
    const std::int64_t g = p.groups(), kh = p.weight[2], kw = p.weight[3];
    const auto places =
        conv_detail::patches(pad(wide, before, after), {kh, kw}, size, first, {1, 1}, back, g);
    const auto by_channel =
        permute(reshape(weight, {g, p.filters(), p.channels(), kh, kw}), {0, 2, 1, 3, 4});
    const std::int64_t depth = p.filters() * p.taps();
    const auto w = expand(reshape(by_channel, {1, g, p.channels(), depth}),
                          {p.batch(), g, p.channels(), depth});
    return reshape(matmul(w, places, {.math = math}), p.x);
  }
};

// x, dy → dweight [.., .., size]
struct Conv2dWeight {
  static constexpr std::string_view name = "conv2d_weight";
  Conv2dOptions options;
  std::array<std::int64_t, 2> size{};
  std::optional<ProductMath> math = {};

  Result<ConvProblem> problem(std::span<const InputSpec> in) const {
    return conv_problem(ConvKind::conv2d_weight, options, size, in[0], in[1], math);
  }
  template <class B>
  Tensor<B> decompose(const Tensor<B>& x, const Tensor<B>& dy) const {
    const ConvProblem p = value_or_throw(
        problem(std::array{InputSpec{x.dtype(), x.shape()}, InputSpec{dy.dtype(), dy.shape()}}));
    const auto slopes =
        reshape(dy, {p.batch(), p.groups(), p.filters(), p.extent(0) * p.extent(1)});
    const auto each = matmul(slopes, transpose(conv_detail::patches(x, p)), {.math = math});
    return reshape(sum(each, 0), p.weight);
  }
};

}  // namespace planck
