// Linear layers on the integers of a quantized checkpoint, as `planck quantize` writes them: s8,
// u8, s4 or u4, with zero points or without; per tensor, per channel, per token or per group of the
// weight [out, in].
//
//   y = f32(Σ q(x) (W − z)) · (s_x s_W) + b        q(x): s8, a scale s_x for each token, from x
//
// The sums are exact integers, rounded to f32 once; per group, once for each group. Up to the bias
// everything is f32; the result has x's dtype, rounded once. For running, not for training: no
// gradient passes. nn::load_quantized makes them (quantized_file.h).
#pragma once

#include "planck/nn/quantize/layers.h"
#include "planck/nn/state_dict.h"

namespace planck::nn {

// An integer weight out of a file. Codes are [out, in] of the scheme's dtype; those of four bits
// have an even number of columns, one more than `in` where that is odd.
struct StoredWeight {
  StoredScheme scheme;
  StateEntry codes, scale;               // scale: f32, one for each group
  std::optional<StateEntry> zero_point;  // i32, likewise; none: the scheme's
};

// A linear layer on the integers of a checkpoint; its input is rounded to s8, token by token.
template <class B>
class StoredLinear {
 public:
  StoredLinear(const Linear<B>& layer, const StoredWeight& weight);

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    operand_.reset();  // a part may change
    part("weight", weight_);
    part("weight_scale", scale_);
    part("weight_zero_point", zero_point_);
    part("bias", bias_);
  }
  const StoredScheme& scheme() const { return scheme_; }

  // Whether a layer of these extents runs on such integers.
  static bool takes(const LinearOptions& options, const StoredScheme& scheme) {
    return scheme.original_shape == Shape{options.out, options.in} &&
           scheme.original_dtype != Dtype::f64 &&
           (scheme.scheme != "per_channel" || scheme.axis == 0);
  }

 private:
  using I = Inner<B>;
  // The weight as s8, what is subtracted of u8 and u4 gone: [out, in]. What is left of the zero
  // points, i64, one for each group; none where all are 0.
  struct Operand {
    Tensor<I, IntKind> codes;
    std::optional<Tensor<I, IntKind>> zero_point;
  };
  const Operand& operand();
  // Σ a (w − z), rounded to f32.
  static Tensor<I> sums(const Tensor<I, IntKind>& a, const Tensor<I, IntKind>& w,
                        const std::optional<Tensor<I, IntKind>>& z);
  // Of the middle of the unsigned dtypes' ranges.
  int shift() const {
    return scheme_.dtype == Dtype::u8 ? 128 : scheme_.dtype == Dtype::u4 ? 8 : 0;
  }

  LinearOptions options_;
  StoredScheme scheme_;
  IntBuffer<B> weight_;
  Buffer<B> scale_;
  std::optional<IntBuffer<B>> zero_point_;
  std::optional<Buffer<B>> bias_;
  std::optional<Operand> operand_;
};

template <class B>
StoredLinear<B>::StoredLinear(const Linear<B>& layer, const StoredWeight& w)
    : options_(layer.options),
      scheme_(w.scheme),
      weight_{to_tensor<I, IntKind>(w.codes, layer.weight->device())},
      scale_{to_tensor<I, FloatKind>(w.scale, layer.weight->device())} {
  scheme_.original_dtype = Dtype::f32;  // as its scales are now
  if (w.zero_point)
    zero_point_.emplace(IntBuffer<B>{to_tensor<I, IntKind>(*w.zero_point, layer.weight->device())});
  if (layer.bias) bias_.emplace(Buffer<B>{layer.bias->value()});
}
template <class B>
auto StoredLinear<B>::operator()(const Tensor<B>& x) -> Tensor<B> {
  const auto in = as_dtype(plain(x), Dtype::f32);
  if (in.rank() < 2 || in.extent(-1) != options_.in)
    refuse("stored layer: its input has shape {}, it takes [..., N, {}]",
           {in.shape(), options_.in});
  const auto q = dynamic_quantize(in, {.granularity = Granularity::per_token, .dtype = Dtype::s8});
  Shape tokens = in.shape();
  tokens[in.rank() - 1] = 1;
  const auto sx = reshape(q.scale(), tokens);
  const auto& [codes, zero] = operand();
  Tensor<I> y = [&] {
    if (scheme_.scheme == "per_group")
      return detail::grouped(q.values(), codes, scale_.value, scheme_.group,
                             [&](const auto& xs, const auto& ws) { return sums(xs, ws, zero); }) *
             sx;
    return sums(q.values(), transpose(codes), zero) * (sx * reshape(scale_.value, {-1}));
  }();
  if (bias_) y = std::move(y) + as_dtype(bias_->value, Dtype::f32);
  return constant<B>(as_dtype(y, x.dtype()));
}
template <class B>
auto StoredLinear<B>::sums(const Tensor<I, IntKind>& a, const Tensor<I, IntKind>& w,
                           const std::optional<Tensor<I, IntKind>>& z) -> Tensor<I> {
  const auto products = matmul(a, w);
  if (!z) return to_float(products, Dtype::f32);
  return to_float(to_int(products) - *z * sum(to_int(a), -1, true), Dtype::f32);
}
template <class B>
auto StoredLinear<B>::operand() -> const Operand& {
  if (operand_) return *operand_;
  const auto device = weight_.value.device();
  const auto number = [&](int value) {
    return create<I>(Full<IntKind>(Scalar(value), Dtype::i32, Shape{1}), device);
  };
  const auto one = ones<I>({1}, Dtype::f32, device);
  const auto numbers = call(planck::Dequantize{QuantScheme{.dtype = scheme_.dtype}}, weight_.value,
                            one, number(shift()));
  Operand made{quantize(slice(numbers, 1, 0, options_.in), one, number(0), {}).values(), {}};
  if (zero_point_) {
    const auto zero = zero_point_->value.template to_vector<std::int32_t>();
    check_zero_points("stored layer", zero);
    if (!StepsMatmul::all_are(zero, shift())) {
      const auto left = to_int(zero_point_->value) - shift();
      made.zero_point = scheme_.scheme == "per_group"  // as detail::grouped lays them out
                            ? permute(reshape(left, {options_.out, -1, 1}), {1, 2, 0})
                            : reshape(left, {-1});
    }
  }
  return operand_.emplace(std::move(made));
}

}  // namespace planck::nn
