// FakeQuant: rounds a tensor to what integers can hold, with straight-through gradients, and learns
// or observes the scale.
//
// codes(x) gives the integers themselves, as floats: clamp(rint(x / s)). Layers multiply codes, not
// rounded values: sums of products of small integers are exact in f32 (below 2^24, else they are
// summed in f64), so that the integer kernels give the same bits. The gradient is that of s ·
// codes: straight through for x, and Esser et al.'s for a learned step s (LSQ), scaled by
// 1/√(members · q).
//
// Scales, ranges and codes are f32, whatever x is; operator() gives x's dtype.
#pragma once

#include "planck/nn/quantize/observer.h"

namespace planck::nn {

// x, with gradients times a factor.
struct ScaleGradient {
  static constexpr std::string_view name = "scale_gradient";
  static constexpr bool computes = true;
  double factor = 1;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    return x;
  }
};
template <class R>
auto pullback(const ScaleGradient& op, const R&) {
  return [op](auto& g) { g.give(g.dy() * op.factor); };
}

struct FakeQuantOptions {
  QuantScheme scheme;  // s8 or s4, symmetric: the lowest integer is minus the highest
  ObserverOptions observer = {};
  bool learned = false;
};

// What the gradient of a learned step is scaled by: 1/√x.
double step_factor(double x);

enum class QuantPhase : std::uint8_t { observing, quantizing };

// Rounds any tensor to the integers of a scheme.
template <class B>
class FakeQuant {
 public:
  static constexpr double kSmallestScale = 1e-12;

  FakeQuant(const FakeQuantOptions& options, const Shape& x, const typename B::Device& device);

  const FakeQuantOptions& options() const { return options_; }
  bool dynamic() const { return options_.scheme.granularity == Granularity::per_token; }

  // Takes a batch into account. A learned scale starts from what was observed so far.
  void observe(const Tensor<Inner<B>>& x);
  // Forgets what was observed before, and observes x.
  void restart(const Tensor<Inner<B>>& x);
  // Whether anything was observed: without it there is no scale. May wait for the device, but not
  // in the first pass after read_ahead().
  bool calibrated() const;
  bool read_ahead() const { return calibrated(); }
  // Whether a pass behind the one that had this answer is known to have it, too.
  bool stays(bool ahead) const { return ahead || calibrated_ == false; }

  // The scale of each group, as [groups]; of tokens [.., 1]. Refused where nothing was observed.
  Tensor<B> scale(const Tensor<B>& x) const;
  // The integers, as floats; s is scale(x), seen so that it broadcasts over x.
  Tensor<B> codes(const Tensor<B>& x, const Tensor<B>& s) const;
  IntRange range() const { return {-options_.scheme.highest(), options_.scheme.highest()}; }

  // x rounded: s · codes, in one kernel. What a tensor that is not multiplied wants.
  Tensor<B> operator()(const Tensor<B>& x) const;

  void visit(auto&& part) {
    calibrated_.reset();  // a part may change
    part("range", range_);
    part("seen", seen_);
    part("step", step_);
  }
  static Tensor<B, IntKind> zero(const typename B::Device& device) {
    return create<B>(Full<IntKind>(Scalar(0), Dtype::i32, Shape{1}), device);
  }

 private:
  static Shape groups(const QuantScheme& scheme, const Shape& x) {
    if (scheme.granularity == Granularity::per_token) return {1};
    return {std::max<std::int64_t>(numel(scheme.group_shape(x)), 1)};
  }
  Tensor<Inner<B>> scale_of(const Tensor<Inner<B>>& range) const;
  void observe(const Tensor<Inner<B>>& x, const std::optional<Tensor<Inner<B>>>& before);

  FakeQuantOptions options_;
  Buffer<B> range_;    // the largest magnitude represented
  IntBuffer<B> seen_;  // batches observed
  std::optional<Parameter<B>> step_;
  mutable std::optional<bool> calibrated_;  // where that is known
};

template <class B>
FakeQuant<B>::FakeQuant(const FakeQuantOptions& options, const Shape& x,
                        const typename B::Device& device)
    : options_(options),
      range_{zeros<Inner<B>>(groups(options.scheme, x), Dtype::f32, device)},
      seen_{create<Inner<B>>(Full<IntKind>(Scalar(0), Dtype::i64, Shape{1}), device)} {
  if (options.learned && dynamic())
    raise(ErrorCode::invalid_problem,
          "fake_quant: scales per token are found from the tokens, they cannot be learned");
  if (options.learned) step_.emplace(ones<Inner<B>>(range_.value.shape(), Dtype::f32, device));
}
template <class B>
void FakeQuant<B>::observe(const Tensor<Inner<B>>& x) {
  observe(x, calibrated() ? std::optional(range_.value) : std::nullopt);
}
template <class B>
void FakeQuant<B>::observe(const Tensor<Inner<B>>& x,
                           const std::optional<Tensor<Inner<B>>>& before) {
  if (dynamic()) return;
  range_.value =
      reshape(observed(before, as_dtype(x, Dtype::f32), options_.scheme, options_.observer),
              range_.value.shape());
  seen_.value = seen_.value + 1;
  calibrated_ = true;
  if (step_) step_->set(scale_of(range_.value));
}
template <class B>
void FakeQuant<B>::restart(const Tensor<Inner<B>>& x) {
  seen_.value = zeros_like(seen_.value);
  calibrated_.reset();
  observe(x, std::nullopt);
}
template <class B>
bool FakeQuant<B>::calibrated() const {
  if (dynamic()) return true;
  if (!calibrated_) calibrated_ = seen_.value.template item<std::int64_t>() > 0;
  return *calibrated_;
}
template <class B>
auto FakeQuant<B>::scale(const Tensor<B>& x) const -> Tensor<B> {
  if (dynamic()) {
    const auto largest = max(abs(as_dtype(plain(x), Dtype::f32)), -1, true);
    return constant<B>(scale_of(largest));
  }
  if (!calibrated()) {
    const Shape shape = x.shape();
    refuse(
        "fake_quant: nothing was observed yet, so that x of shape {} has no scale; run batches "
        "between prepare_qat and start_quantizing, or load a state that has seen some",
        {shape});
  }
  if (!step_) return constant<B>(scale_of(once([&] { return range_.value; })));
  const double members = static_cast<double>(x.numel()) / static_cast<double>(range_.value.numel());
  const auto s = call(ScaleGradient{step_factor(members * options_.scheme.highest())}, **step_);
  return maximum(s, full_like(s, kSmallestScale));
}
template <class B>
auto FakeQuant<B>::codes(const Tensor<B>& x, const Tensor<B>& s) const -> Tensor<B> {
  const QuantScheme whole{.dtype = Dtype::s8, .range = range()};
  const auto one = ones<B>({1}, Dtype::f32, x.device());
  return fake_quantize(as_dtype(x, Dtype::f32) / s, one, zero(x.device()), whole);
}
template <class B>
auto FakeQuant<B>::operator()(const Tensor<B>& x) const -> Tensor<B> {
  const auto s = scale(x);
  QuantScheme scheme = options_.scheme;
  scheme.range = range();
  const auto zeros_of = create<B>(Full<IntKind>(Scalar(0), Dtype::i32, s.shape()), x.device());
  return as_dtype(fake_quantize(as_dtype(x, Dtype::f32), s, zeros_of, scheme), x.dtype());
}
template <class B>
auto FakeQuant<B>::scale_of(const Tensor<Inner<B>>& range) const -> Tensor<Inner<B>> {
  return maximum(range * (1.0 / options_.scheme.highest()), full_like(range, kSmallestScale));
}

}  // namespace planck::nn
