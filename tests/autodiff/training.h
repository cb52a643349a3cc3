// Three small models trained for a hundred steps, written once for every backend: a two-layer MLP,
// a spatial transformer and an embedding classifier. Each returns a digest of the bits of its
// weights.
#pragma once

#include "planck/planck.h"

namespace planck::test {

// FNV-1a over the bytes of all weights.
template <class B>
std::uint64_t digest(const std::vector<Tensor<B>>& weights) {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const auto& w : weights)
    for (float v : w.template to_vector<float>()) {
      std::uint32_t bits = std::bit_cast<std::uint32_t>(v);
      for (int i = 0; i < 4; ++i, bits >>= 8) h = (h ^ (bits & 255)) * 0x100000001B3u;
    }
  return h;
}

struct Trained {
  std::uint64_t digest;
  float first_loss, last_loss;
  friend bool operator==(const Trained&, const Trained&) = default;
};

// Plain gradient descent on loss(weights…).
template <class A, class Loss>
Trained descend(std::vector<Tensor<typename A::InnerBackend>> weights, double rate, int steps,
                const Loss& loss) {
  using Inner = typename A::InnerBackend;
  Trained result{};
  for (int step = 0; step < steps; ++step) {
    std::vector<Tensor<A>> leaves;
    for (const auto& w : weights)
      leaves.push_back(Tensor<A>(A::from_inner(w.primitive())).require_grad());
    const Tensor<A> l = loss(leaves, step);
    const auto grads = l.backward();
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] = weights[i] - *leaves[i].grad(grads) * rate;
    const float value = l.inner().template item<float>();
    if (step == 0) result.first_loss = value;
    result.last_loss = value;
  }
  result.digest = digest<Inner>(weights);
  return result;
}

template <class A>
Tensor<A> constant(const Tensor<typename A::InnerBackend>& t) {
  return Tensor<A>(A::from_inner(t.primitive()));
}
template <class A>
Tensor<A, IntKind> constant(const Tensor<typename A::InnerBackend, IntKind>& t) {
  return Tensor<A, IntKind>(A::int_from_inner(t.primitive()));
}

// tanh(x W1 + b1) W2 + b2 learns a smooth function of 16 numbers; the weights of the second layer
// are rounded to s8 in the forward pass, with a learned step.
template <class A>
Trained train_mlp(const typename A::Device& device) {
  using Inner = typename A::InnerBackend;
  Rng rng{.seed = 1};
  const auto x = normal<Inner>(rng, {64, 16}, 0, 1, Dtype::f32, device);
  const auto target = sin(sum(x, 1, true)) + square(slice(x, 1, 0, 1)) * 0.5;
  const auto scale = full<Inner>({32}, 0.02, Dtype::f32, device);
  const Tensor<Inner, IntKind> zero = to_int(zeros<Inner>({32}, Dtype::f32, device), Dtype::i32);
  return descend<A>({normal<Inner>(rng, {16, 32}, 0, 0.25, Dtype::f32, device),
                     zeros<Inner>({32}, Dtype::f32, device),
                     normal<Inner>(rng, {32, 1}, 0, 0.2, Dtype::f32, device),
                     zeros<Inner>({1}, Dtype::f32, device), scale},
                    0.05, 100, [&](const std::vector<Tensor<A>>& w, int) {
                      const auto hidden = gelu(matmul(constant<A>(x), w[0]) + w[1]);
                      const QuantScheme scheme{.granularity = Granularity::per_channel, .axis = 0};
                      const auto rounded = fake_quantize(w[2], w[4], constant<A>(zero), scheme);
                      const auto y = matmul(hidden, rounded) + w[3];
                      return mean(square(y - constant<A>(target)));
                    });
}

// Learns the affine map that a picture was moved by.
template <class A>
Trained train_transformer(const typename A::Device& device) {
  using Inner = typename A::InnerBackend;
  Rng rng{.seed = 2};
  // Two smooth pictures of two channels.
  const auto line = to_float(arange<Inner>(20, Dtype::i64, device), Dtype::f32) * 0.3;
  const auto waves = sin(reshape(line, {20, 1}) + reshape(line, {1, 20}) * 0.5);
  const auto phases = normal<Inner>(rng, {2, 2, 1, 1}, 0, 1, Dtype::f32, device);
  const auto pictures = cos(waves * 2 + phases);
  const auto moved = Tensor<Inner>::from(
      {0.9f, 0.1f, 0.05f, -0.1f, 1.1f, 0.1f, 1.0f, 0.0f, 0.1f, 0.1f, 0.9f, 0.0f}, {2, 2, 3},
      device);
  const auto target = grid_sample(pictures, affine_grid(moved, {2, 2, 20, 20}));
  const auto identity = Tensor<Inner>::from(
      {1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f}, {2, 2, 3}, device);
  return descend<A>({identity, pictures * 0.9}, 0.02, 100,
                    [&](const std::vector<Tensor<A>>& w, int) {
                      const auto grid = affine_grid(w[0], {2, 2, 20, 20});
                      const auto seen = grid_sample(w[1], grid);
                      return mean(square(seen - constant<A>(target))) * 10;
                    });
}

// Which of eight classes a sequence of words belongs to, by the mean of their vectors.
template <class A>
Trained train_classifier(const typename A::Device& device) {
  using Inner = typename A::InnerBackend;
  constexpr std::int64_t kWords = 100, kBatch = 64, kLength = 12, kClasses = 8, kDim = 24;
  Rng rng{.seed = 3};
  const auto words = to_int(uniform<Inner>(rng, {kBatch, kLength}, 0, kWords, Dtype::f32, device));
  const auto labels = to_int(uniform<Inner>(rng, {kBatch}, 0, kClasses, Dtype::f32, device));
  const auto wanted =
      to_float(eq(expand(reshape(labels, {kBatch, 1}), {kBatch, kClasses}),
                  expand(arange<Inner>(kClasses, Dtype::i64, device), {kBatch, kClasses})),
               Dtype::f32);
  return descend<A>({normal<Inner>(rng, {kWords, kDim}, 0, 1, Dtype::f32, device),
                     normal<Inner>(rng, {kDim, kClasses}, 0, 0.2, Dtype::f32, device)},
                    1.0, 100, [&](const std::vector<Tensor<A>>& w, int) {
                      const auto vectors = embedding(w[0], constant<A>(words));
                      const auto logits = matmul(mean(vectors, 1), w[1]);
                      const auto chosen = sum(logits * constant<A>(wanted), 1);
                      return mean(logsumexp(logits, 1) - chosen);
                    });
}

}  // namespace planck::test
