// Linear and Conv2d in three forms: with floats, with codes in floats (training with quantization
// in the loop), and with integers. The last two give the same bits.
//
//   QuantLinear:    y = (codes(x) · codes(W)ᵀ) · (s_x s_w) + b        products of codes are exact
//   IntegerLinear:  y = f32(q(x) · Wqᵀ)        · (s_x s_w) + b        s8 × s8 → i32
//
// Between the first rounding and the bias everything is f32; the result has x's dtype.
//
// Weights: per tensor, per channel, or (Linear) per group along the input. Inputs: per tensor, or
// (Linear) per token with scales found from the tokens.
#pragma once

#include <variant>

#include "planck/nn/conv.h"
#include "planck/nn/linear.h"
#include "planck/nn/quantize/fake_quant.h"
#include "planck/ops/quantize/quantize.format.h"

namespace planck::nn {

struct QuantLayerOptions {
  FakeQuantOptions weight, input;
};

namespace detail {

// How a layer multiplies, for floats, codes and integers alike.
template <class B>
struct LinearProduct {
  static constexpr bool kPerToken = true, kPerGroup = true;
  static std::int64_t terms(const LinearOptions& o) { return o.in; }
  template <class K>
  static Tensor<B, K> product(const LinearOptions&, const Tensor<B, K>& x, const Tensor<B, K>& w) {
    return matmul(x, transpose(w));
  }
  // A number for each output channel, as it broadcasts over the product.
  template <class K>
  static Tensor<B, K> seen(const Tensor<B, K>& t) {
    return t;
  }
};
template <class B>
struct ConvProduct {
  static constexpr bool kPerToken = false, kPerGroup = false;
  static std::int64_t terms(const ConvOptions& o) {
    return o.in / o.shape.groups * o.kernel[0] * o.kernel[1];
  }
  template <class K>
  static Tensor<B, K> product(const ConvOptions& o, const Tensor<B, K>& x, const Tensor<B, K>& w) {
    return conv2d(x, w, o.shape);
  }
  static Tensor<B> seen(const Tensor<B>& t) { return t.numel() == 1 ? t : per_channel(t); }
};
template <class Layer>
struct ProductOf;
template <class B>
struct ProductOf<Linear<B>> {
  using Backend = B;
  using type = LinearProduct<B>;
};
template <class B>
struct ProductOf<Conv2d<B>> {
  using Backend = B;
  using type = ConvProduct<B>;
};

// Sums of this many products of codes are exact in f32.
inline bool exact_in_f32(std::int64_t terms, std::int32_t a, std::int32_t b) {
  return terms * a * b <= (std::int64_t{1} << 24);
}

// Σ over groups of (x_g · w_gᵀ) · scale_g: x [.., K], w [out, K], scale [out · K / group].
// multiply(x [G, N, g], w [G, g, out]) gives floats.
template <class B, class K, class Multiply>
Tensor<B> grouped(const Tensor<B, K>& x, const Tensor<B, K>& w, const Tensor<B>& scale,
                  std::int64_t group, Multiply multiply) {
  const std::int64_t out = w.extent(0), count = w.extent(1) / group;
  const auto xs = permute(reshape(x, {-1, count, group}), {1, 0, 2});
  const auto ws = permute(reshape(w, {out, count, group}), {1, 2, 0});
  const auto scales = permute(reshape(scale, {out, count, 1}), {1, 2, 0});
  const auto y = sum(multiply(xs, ws) * scales, 0);
  Shape shape = x.shape();
  shape[shape.rank() - 1] = out;
  return reshape(y, shape);
}

}  // namespace detail

// A layer with its weight and input rounded. Until quantizing starts it computes as the float layer
// and observes its input; a state that was saved after that has started it.
template <class Layer>
class Quant {
 public:
  using B = typename detail::ProductOf<Layer>::Backend;
  using Product = typename detail::ProductOf<Layer>::type;

  Quant(const Layer& l, const QuantLayerOptions& options);

  Tensor<B> operator()(const Tensor<B>& x);

  // A weight's scale that is not learned follows the weight.
  void settle() {
    if (!weight_quant.options().learned) follow_weight();
  }
  // From what was observed so far, and the weight as it is. Steps that were learned before, and
  // loaded, are kept.
  void start_quantizing() {
    if (!weight_quant.options().learned || !weight_quant.calibrated()) follow_weight();
    phase = QuantPhase::quantizing;
  }
  void visit(auto&& part) {
    part("", layer);
    part("weight_quant", weight_quant);
    part("input_quant", input_quant);
    part("mode", mode);
  }
  // A scale of each group of the weight, as it broadcasts over it.
  Tensor<B> over_weight(const Tensor<B>& s) const;

  Layer layer;
  FakeQuant<B> weight_quant, input_quant;
  QuantPhase phase = QuantPhase::observing;
  Mode mode;

 private:
  void follow_weight();
  static const QuantLayerOptions& checked(const QuantLayerOptions& o);
};

template <class Layer>
Quant<Layer>::Quant(const Layer& l, const QuantLayerOptions& options)
    : layer(l),
      weight_quant(checked(options).weight, l.weight->shape(), l.weight->device()),
      input_quant(options.input, Shape{1}, l.weight->device()) {}
template <class Layer>
auto Quant<Layer>::operator()(const Tensor<B>& x) -> Tensor<B> {
  const auto& w = *layer.weight;
  if (phase == QuantPhase::observing) {
    if (!weight_quant.calibrated()) {
      once([&] { input_quant.observe(plain(x)); });
      return layer(x);
    }
    phase = QuantPhase::quantizing;
  }
  if (mode.training && !input_quant.options().learned) once([&] { input_quant.observe(plain(x)); });
  settle();
  const auto sx = input_quant.scale(x), sw = weight_quant.scale(w);
  const auto cx = input_quant.codes(x, sx);
  const auto cw = weight_quant.codes(w, over_weight(sw));
  const bool narrow = detail::exact_in_f32(
      Product::terms(layer.options), input_quant.range().highest, weight_quant.range().highest);
  const auto widened = [&](const Tensor<B>& t) { return narrow ? t : to_float(t, Dtype::f64); };
  const auto narrowed = [&](Tensor<B> t) { return narrow ? t : to_float(t, Dtype::f32); };
  const auto& scheme = weight_quant.options().scheme;
  Tensor<B> y = [&] {
    if constexpr (Product::kPerGroup)
      if (scheme.granularity == Granularity::per_group)
        return detail::grouped(cx, cw, sw, scheme.group,
                               [&](const auto& a, const auto& b) {
                                 return narrowed(matmul(widened(a), widened(b)));
                               }) *
               sx;
    return narrowed(Product::product(layer.options, widened(cx), widened(cw))) *
           (sx * Product::seen(sw));
  }();
  if (layer.bias) y = std::move(y) + Product::seen(as_dtype(**layer.bias, Dtype::f32));
  return as_dtype(y, x.dtype());
}
template <class Layer>
auto Quant<Layer>::over_weight(const Tensor<B>& s) const -> Tensor<B> {
  const auto& w = *layer.weight;
  if (s.numel() == 1) return s;
  Shape shape{w.extent(0)};
  if (weight_quant.options().scheme.granularity == Granularity::per_group) {
    const std::int64_t group = weight_quant.options().scheme.group;
    const auto cut =
        expand(reshape(s, {w.extent(0), -1, 1}), {w.extent(0), w.extent(1) / group, group});
    return reshape(cut, w.shape());
  }
  for (int d = 1; d < w.rank(); ++d) shape.push_back(1);
  return reshape(s, shape);
}
template <class Layer>
void Quant<Layer>::follow_weight() {
  weight_quant.restart(layer.weight.value());
}
template <class Layer>
auto Quant<Layer>::checked(const QuantLayerOptions& o) -> const QuantLayerOptions& {
  const auto unsupported = [](std::string_view what) {
    refuse(ErrorCode::unsupported, "quantized layer: {}", {what});
  };
  const auto weight = o.weight.scheme.granularity, input = o.input.scheme.granularity;
  if (weight == Granularity::per_token || (weight == Granularity::per_group && !Product::kPerGroup))
    unsupported("a weight is quantized per tensor, per channel or, in linear layers, per group");
  if (weight == Granularity::per_channel && o.weight.scheme.axis != 0)
    refuse(ErrorCode::unsupported, "quantized layer: channels of a weight are its axis 0, not {}",
           {o.weight.scheme.axis});
  if (input != Granularity::per_tensor && !(input == Granularity::per_token && Product::kPerToken))
    unsupported("an input is quantized per tensor or, in linear layers, per token");
  if (o.input.scheme.dtype != Dtype::s8)
    unsupported("inputs are s8; a narrower range makes them s4");
  return o;
}

// The layer on integer kernels, made from a Quant.
template <class Layer>
class Integer {
 public:
  using B = typename detail::ProductOf<Layer>::Backend;
  using Product = typename detail::ProductOf<Layer>::type;

  explicit Integer(const Quant<Layer>& q);

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    operand_.reset();  // a part may change
    known_scaled_ = false;
    part("weight", weight_);
    part("weight_scale", weight_scale_);
    part("input_scale", input_scale_);
    part("bias", bias_);
  }
  const auto& options() const { return options_; }  // of the float layer it was
  // The codes of its input; none where every token has a scale of its own.
  std::optional<IntRange> input_range() const {
    return per_token_ ? std::nullopt : std::optional(input_range_);
  }
  // Of the parts weight and weight_scale, in the format of checkpoints.
  StoredScheme stored_weight() const {
    const bool groups = weight_scheme_.granularity == Granularity::per_group;
    const bool channels = weight_scheme_.granularity == Granularity::per_channel;
    const std::int32_t highest = weight_scheme_.highest();
    return {.scheme = groups     ? "per_group"
                      : channels ? "per_channel"
                                 : "per_tensor",
            .axis = 0,
            .group = weight_scheme_.group,
            .dtype = weight_.value.dtype(),
            .range = {-highest, highest},
            .symmetric = true,
            .original_dtype = Dtype::f32,
            .original_shape = weight_shape_};
  }

 private:
  using Values = Tensor<Inner<B>, IntKind>;
  // Codes of the weight: s8 as the weight lies; s4 two in a byte, [out, terms], terms made even.
  static Values packed(const Quant<Layer>& q);
  static Values recoded(const Values& codes, Dtype dtype);
  // The weight as s8, in its shape, whatever it is stored as.
  const Values& operand();
  // A scale of 0 stands for an input that was never observed.
  void check_scale();

  std::remove_cvref_t<decltype(std::declval<Layer>().options)> options_;
  Shape weight_shape_;
  QuantScheme weight_scheme_;
  IntRange input_range_;
  bool per_token_;
  IntBuffer<B> weight_;
  Buffer<B> weight_scale_, input_scale_;
  std::optional<Buffer<B>> bias_;
  std::optional<FakeQuant<B>> tokens_;
  std::optional<Values> operand_;
  bool known_scaled_ = false;
};

template <class Layer>
Integer<Layer>::Integer(const Quant<Layer>& q)
    : options_(q.layer.options),
      weight_shape_(q.layer.weight->shape()),
      weight_scheme_(q.weight_quant.options().scheme),
      input_range_(q.input_quant.range()),
      per_token_(q.input_quant.dynamic()),
      weight_{packed(q)},
      weight_scale_{plain(q.weight_quant.scale(*q.layer.weight))},
      input_scale_{per_token_ ? ones<Inner<B>>({1}, Dtype::f32, q.layer.weight->device())
                   : q.input_quant.calibrated()
                       ? plain(q.input_quant.scale(*q.layer.weight))
                       : zeros<Inner<B>>({1}, Dtype::f32, q.layer.weight->device())} {
  if (q.layer.bias) bias_.emplace(Buffer<B>{as_dtype(q.layer.bias->value(), Dtype::f32)});
  tokens_.emplace(q.input_quant);
}
template <class Layer>
auto Integer<Layer>::operator()(const Tensor<B>& x) -> Tensor<B> {
  using I = Inner<B>;
  check_scale();
  const Tensor<I> in = as_dtype(plain(x), Dtype::f32);
  const Tensor<I> sx = per_token_ ? plain(tokens_->scale(x)) : input_scale_.value;
  const QuantScheme scheme{
      .granularity = per_token_ ? Granularity::per_token : Granularity::per_tensor,
      .dtype = Dtype::s8,
      .range = input_range_};
  const auto flat = per_token_ ? reshape(sx, {sx.numel()}) : sx;
  const auto zeros_of = create<I>(Full<IntKind>(Scalar(0), Dtype::i32, flat.shape()), in.device());
  const auto qx = quantize(in, flat, zeros_of, scheme).values();
  const auto& w = operand();
  using P = std::conditional_t<std::same_as<Layer, Linear<B>>, detail::LinearProduct<I>,
                               detail::ConvProduct<I>>;
  Tensor<I> y = [&] {
    if constexpr (P::kPerGroup)
      if (weight_scheme_.granularity == Granularity::per_group)
        return detail::grouped(qx, w, weight_scale_.value, weight_scheme_.group,
                               [&](const auto& a, const auto& b) {
                                 return to_float(matmul(a, b), Dtype::f32);
                               }) *
               sx;
    return to_float(P::product(options_, qx, w), Dtype::f32) * (sx * P::seen(weight_scale_.value));
  }();
  if (bias_) y = std::move(y) + P::seen(bias_->value);
  return constant<B>(as_dtype(y, x.dtype()));
}
template <class Layer>
auto Integer<Layer>::packed(const Quant<Layer>& q) -> Values {
  auto scheme = q.weight_quant.options().scheme;
  scheme.range = q.weight_quant.range();
  scheme.dtype = Dtype::s8;
  const auto w = as_dtype(q.layer.weight.value(), Dtype::f32);
  const auto s = plain(q.weight_quant.scale(*q.layer.weight));
  const auto zero = create<Inner<B>>(Full<IntKind>(Scalar(0), Dtype::i32, s.shape()), s.device());
  const auto codes = quantize(w, s, zero, scheme).values();
  if (q.weight_quant.options().scheme.dtype == Dtype::s8) return codes;
  const auto flat = reshape(codes, {w.extent(0), -1});
  return recoded(pad(flat, Extents{0, 0}, Extents{0, flat.extent(1) % 2}), Dtype::s4);
}
template <class Layer>
auto Integer<Layer>::recoded(const Values& codes, Dtype dtype) -> Values {
  const auto one = ones<Inner<B>>({1}, Dtype::f32, codes.device());
  const auto zero = FakeQuant<Inner<B>>::zero(codes.device());
  const auto numbers =
      call(planck::Dequantize{QuantScheme{.dtype = codes.dtype()}}, codes, one, zero);
  return quantize(numbers, one, zero, {.dtype = dtype}).values();
}
template <class Layer>
void Integer<Layer>::check_scale() {
  if (known_scaled_) return;
  if (!per_token_ && !(input_scale_.value.template item<float>() > 0))
    refuse(
        "integer layer: its input was never observed, its weight has shape {}; calibrate before "
        "convert, or load a state",
        {weight_shape_});
  known_scaled_ = true;
}
template <class Layer>
auto Integer<Layer>::operand() -> const Values& {
  if (operand_) return *operand_;
  if (weight_.value.dtype() == Dtype::s8) return operand_.emplace(weight_.value);
  const auto flat =
      slice(recoded(weight_.value, Dtype::s8), 1, 0, numel(weight_shape_) / weight_shape_[0]);
  return operand_.emplace(reshape(flat, weight_shape_));
}

template <class B>
using QuantLinear = Quant<Linear<B>>;
template <class B>
using QuantConv2d = Quant<Conv2d<B>>;
template <class B>
using IntegerLinear = Integer<Linear<B>>;
template <class B>
using IntegerConv2d = Integer<Conv2d<B>>;

}  // namespace planck::nn
