// Normalization as modules.
#pragma once

#include "planck/nn/initialize.h"
#include "planck/ops/norm/norm.functions.h"

namespace planck::nn {

// (x − mean) / √(var + eps) · weight + bias over the trailing axes `shape`.
template <class B>
struct LayerNorm {
  Parameter<B> weight, bias;
  double eps;
  explicit LayerNorm(const Shape& shape, const Options<B>& at = {}, double epsilon = 1e-5);
  Tensor<B> operator()(const Tensor<B>& x) const;
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
};

template <class B>
LayerNorm<B>::LayerNorm(const Shape& shape, const Options<B>& at, double epsilon)
    : weight(filled<B>(shape, 1, at)), bias(filled<B>(shape, 0, at)), eps(epsilon) {}
template <class B>
auto LayerNorm<B>::operator()(const Tensor<B>& x) const -> Tensor<B> {
  return layer_norm(x, *weight, *bias, eps);
}

// x / √(mean of x² + eps) · weight over the trailing axes `shape`.
template <class B>
struct RmsNorm {
  Parameter<B> weight;
  double eps;
  explicit RmsNorm(const Shape& shape, const Options<B>& at = {}, double epsilon = 1e-5)
      : weight(filled<B>(shape, 1, at)), eps(epsilon) {}
  Tensor<B> operator()(const Tensor<B>& x) const { return rms_norm(x, *weight, eps); }
  void visit(auto&& part) { part("weight", weight); }
};

// Over all axes but the second: [N, C] or [N, C, …]. In training it normalizes by the batch and
// moves the running statistics towards it; otherwise it normalizes by those. A batch to train on
// has more than one value per channel: the variance of one is 0, that of none is not a number.
// 16-bit floats are widened, normalized and rounded once; statistics of theirs are f32.
template <class B>
struct BatchNorm {
  Parameter<B> weight, bias;
  Buffer<B> running_mean, running_var;
  double momentum, eps;
  Mode mode;

  explicit BatchNorm(std::int64_t channels, const Options<B>& at = {},
                     double momentum_of_running = 0.1, double epsilon = 1e-5);

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
    part("running_mean", running_mean);
    part("running_var", running_var);
    part("mode", mode);
  }

 protected:
  // The shape in which something per channel meets x, [C, 1, …]; refuses an x of other channels.
  Shape along(const Tensor<B>& x) const;
  static std::int64_t values_of(const Tensor<B>& x);  // per channel
  // Moves the running statistics towards those of n values; where that fails, neither of them.
  void move(const Tensor<Inner<B>>& mean, const Tensor<Inner<B>>& variance, double n);

 private:
  Tensor<Inner<B>> moved(const Buffer<B>& running, const Tensor<Inner<B>>& batch,
                         double factor) const {
    const auto found = as_dtype(reshape(batch, running.value.shape()), running.value.dtype());
    return running.value * (1 - momentum) + found * (momentum * factor);
  }
};

template <class B>
BatchNorm<B>::BatchNorm(std::int64_t channels, const Options<B>& at, double momentum_of_running,
                        double epsilon)
    : weight(filled<B>({channels}, 1, at)),
      bias(filled<B>({channels}, 0, at)),
      running_mean{zeros<Inner<B>>({channels}, at.wide(), at.device)},
      running_var{ones<Inner<B>>({channels}, at.wide(), at.device)},
      momentum(momentum_of_running),
      eps(epsilon) {}
template <class B>
Shape BatchNorm<B>::along(const Tensor<B>& x) const {
  const std::int64_t channels = weight->extent(0);
  if (x.rank() < 2 || x.extent(1) != channels)
    refuse("batch_norm: x has shape {}, its second axis must have {} channels",
           {x.shape(), channels});
  Shape shape{channels};
  for (int d = 2; d < x.rank(); ++d) shape.push_back(1);
  return shape;
}
template <class B>
std::int64_t BatchNorm<B>::values_of(const Tensor<B>& x) {
  std::int64_t values = x.extent(0);
  for (int d = 2; d < x.rank(); ++d) values *= x.extent(d);
  return values;
}
template <class B>
void BatchNorm<B>::move(const Tensor<Inner<B>>& mean, const Tensor<Inner<B>>& variance, double n) {
  auto next_mean = moved(running_mean, mean, 1);
  auto next_var = moved(running_var, variance, n / (n - 1));
  running_mean.value = std::move(next_mean);
  running_var.value = std::move(next_var);
}
template <class B>
auto BatchNorm<B>::operator()(const Tensor<B>& given) -> Tensor<B> {
  const auto x = widened(given);
  const Shape shape = along(x);
  const auto seen = [&](const Tensor<B>& t) { return reshape(as_dtype(t, x.dtype()), shape); };
  if (!mode.training) {
    // In a segment's second run: the statistics of the first.
    const auto [mean, var] = once([&] { return std::pair{running_mean.value, running_var.value}; });
    const auto rstd = rsqrt(var + eps);
    const auto centered = x - seen(constant<B>(mean));
    const auto scale = constant<B>(rstd) * as_dtype(*weight, rstd.dtype());
    return as_dtype(centered * seen(scale) + seen(*bias), given.dtype());
  }
  const std::int64_t values = values_of(x);
  if (values < 2)
    refuse("batch_norm: x has shape {}, training needs more than one value per channel, not {}",
           {x.shape(), values});
  const unsigned others = ((1u << x.rank()) - 1) & ~2u;
  const auto mean = call(Mean{others}, x);
  const auto centered = x - mean;
  const auto variance = call(Mean{others}, square(centered));
  const auto y =
      as_dtype(centered * (rsqrt(variance + eps) * seen(*weight)) + seen(*bias), given.dtype());
  once([&] {  // a pass that fails moves nothing, a segment that runs twice moves them once
    move(plain(mean), plain(variance), static_cast<double>(values));
  });
  return y;
}

}  // namespace planck::nn
