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
  explicit LayerNorm(const Shape& shape, const typename B::Device& device = B::default_device(),
                     double epsilon = 1e-5);
  Tensor<B> operator()(const Tensor<B>& x) const;
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
  }
};

// x / √(mean of x² + eps) · weight over the trailing axes `shape`.
template <class B>
LayerNorm<B>::LayerNorm(const Shape& shape, const typename B::Device& device, double epsilon)
    : weight(filled<B>(shape, 1, device)), bias(filled<B>(shape, 0, device)), eps(epsilon) {}
template <class B>
auto LayerNorm<B>::operator()(const Tensor<B>& x) const -> Tensor<B> {
  return layer_norm(x, *weight, *bias, eps);
}

// x / √(mean of x² + eps) · weight over the trailing axes `shape`.
template <class B>
struct RmsNorm {
  Parameter<B> weight;
  double eps;
  explicit RmsNorm(const Shape& shape, const typename B::Device& device = B::default_device(),
                   double epsilon = 1e-5)
      : weight(filled<B>(shape, 1, device)), eps(epsilon) {}
  Tensor<B> operator()(const Tensor<B>& x) const { return rms_norm(x, *weight, eps); }
  void visit(auto&& part) { part("weight", weight); }
};

// Over all axes but the second: [N, C] or [N, C, …]. In training it normalizes by the batch and
// moves the running statistics towards it; otherwise it normalizes by those.
template <class B>
struct BatchNorm {
  Parameter<B> weight, bias;
  Buffer<B> running_mean, running_var;
  double momentum, eps;
  Mode mode;

  explicit BatchNorm(std::int64_t channels, const typename B::Device& device = B::default_device(),
                     double momentum_of_running = 0.1, double epsilon = 1e-5);

  Tensor<B> operator()(const Tensor<B>& x);
  void visit(auto&& part) {
    part("weight", weight);
    part("bias", bias);
    part("running_mean", running_mean);
    part("running_var", running_var);
    part("mode", mode);
  }

 private:
  void move(Buffer<B>& running, const Tensor<Inner<B>>& batch, double factor) const {
    running.value = running.value * (1 - momentum) +
                    reshape(batch, running.value.shape()) * (momentum * factor);
  }
};

template <class B>
BatchNorm<B>::BatchNorm(std::int64_t channels, const typename B::Device& device,
                        double momentum_of_running, double epsilon)
    : weight(filled<B>({channels}, 1, device)),
      bias(filled<B>({channels}, 0, device)),
      running_mean{zeros<Inner<B>>({channels}, Dtype::f32, device)},
      running_var{ones<Inner<B>>({channels}, Dtype::f32, device)},
      momentum(momentum_of_running),
      eps(epsilon) {}
template <class B>
auto BatchNorm<B>::operator()(const Tensor<B>& x) -> Tensor<B> {
  const std::int64_t channels = weight->extent(0);
  if (x.rank() < 2 || x.extent(1) != channels)
    refuse("batch_norm: x has shape {}, its second axis must have {} channels",
           {x.shape(), channels});
  Shape along{channels};
  for (int d = 2; d < x.rank(); ++d) along.push_back(1);
  const auto seen = [&](const Tensor<B>& t) { return reshape(t, along); };
  if (!mode.training) {
    const auto rstd = rsqrt(running_var.value + eps);
    const auto centered = x - seen(constant<B>(running_mean.value));
    return centered * seen(constant<B>(rstd) * *weight) + seen(*bias);
  }
  const unsigned others = ((1u << x.rank()) - 1) & ~2u;
  const auto mean = call(Mean{others}, x);
  const auto centered = x - mean;
  const auto variance = call(Mean{others}, square(centered));
  const auto count = static_cast<double>(x.numel() / channels);
  move(running_mean, plain(mean), 1);
  move(running_var, plain(variance), count > 1 ? count / (count - 1) : 1);
  return centered * (rsqrt(variance + eps) * seen(*weight)) + seen(*bias);
}

}  // namespace planck::nn
