// Models to train, their data, and a run of some steps: with train::Step, or written by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planck/train/step.h"
#include "planck/training.h"

namespace planck::test {

template <class B>
struct Perceptron {
  nn::Linear<B> first, second;
  explicit Perceptron(Rng& rng, Dtype dtype = Dtype::f32)
      : first(rng, {12, 16}, dtype), second(rng, {16, 4}, dtype) {}
  Tensor<B> operator()(const Tensor<B>& x) { return second(relu(first(x))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
  }
};

// With statistics that a forward pass moves.
template <class B>
struct Pictures {
  nn::Conv2d<B> conv;
  nn::BatchNorm<B> norm;
  nn::Linear<B> output;
  explicit Pictures(Rng& rng)
      : conv(rng, {.in = 1, .out = 4, .shape = {.padding = {1, 1}}}),
        norm(4),
        output(rng, {4 * 6, 4}) {}
  Tensor<B> operator()(const Tensor<B>& x) {
    const auto y = max_pool2d(relu(norm(conv(reshape(x, {-1, 1, 3, 4})))), {.kernel = {1, 2}});
    return output(reshape(y, {y.extent(0), -1}));
  }
  void visit(auto&& part) {
    part("conv", conv);
    part("norm", norm);
    part("output", output);
  }
};

// Reads numbers as 12 tokens, with attention.
template <class B>
struct Text {
  nn::Embedding<B> tokens;
  nn::LayerNorm<B> before;
  nn::MultiHeadAttention<B> attention;
  nn::LayerNorm<B> last;
  nn::Linear<B> output;
  explicit Text(Rng& rng)
      : tokens(rng, 8, 16),
        before({16}),
        attention(rng, {.width = 16, .heads = 2, .causal = true}),
        last({16}),
        output(rng, {16, 4}) {}
  Tensor<B> operator()(const Tensor<B, IntKind>& text) {
    auto x = tokens(text);
    x = x + attention(before(x));
    return output(reshape(mean(gelu(last(x)), 1), {text.extent(0), 16}));
  }
  void visit(auto&& part) {
    part("tokens", tokens);
    part("before", before);
    part("attention", attention);
    part("last", last);
    part("output", output);
  }
};

// Batch i of so many samples: [n, 12] numbers, or tokens below 8, and labels below 4.
template <class B>
struct Batch {
  Tensor<B> x;
  Tensor<B, IntKind> text, labels;

  Batch(int i, std::int64_t n, Dtype dtype = Dtype::f32)
      : Batch(Rng{.seed = 7, .offset = static_cast<std::uint64_t>(i) << 20}, n, dtype) {}

 private:
  Batch(Rng rng, std::int64_t n, Dtype dtype)
      : x(normal<Cpu>(rng, {n, 12}, 0, 1, Dtype::f32).to(dtype).template to<B>()),
        text(randint<Cpu>(rng, 0, 8, {n, 12}).template to<B>()),
        labels(randint<Cpu>(rng, 0, 4, {n}).template to<B>()) {}
};

// What the model reads of a batch.
template <class M, class B>
const auto& input_of(const M&, const Batch<B>& batch) {
  if constexpr (requires { std::declval<M&>()(batch.x); })
    return batch.x;
  else
    return batch.text;
}
template <class A, class M, class X>
Tensor<A> loss_of(M& model, const X& x, const Tensor<A, IntKind>& labels) {
  return nn::cross_entropy_loss<A>(nn::as_dtype(model(x), Dtype::f32), labels);
}
// The batch sizes and the rates of 20 steps.
inline std::int64_t usual_size(int) { return 6; }
inline double rate_of(int i) { return optim::warm_up(i, 5) * optim::cosine(i, 40); }

struct Trained {
  std::vector<float> losses;
  nn::StateDict model, optimizer;
  std::string why_not;
  std::int64_t recorded = 0, replayed = 0;

  friend bool same_bits(const Trained& a, const Trained& b) {
    return a.losses == b.losses && a.model == b.model && a.optimizer == b.optimizer;
  }
};

template <class A>
optim::Adam<A> adam_of() {
  optim::Adam<A> adam({.rate = 0.02, .weight_decay = 0.1});
  adam.groups.push_back({optim::ending_with("bias"), {.rate = 0.02}});
  return adam;
}

// By hand.
template <class A, template <class> class M>
Trained written_out(int steps, std::int64_t (*size)(int) = usual_size) {
  using B = nn::Inner<A>;
  Rng rng{.seed = 3};
  M<A> model(rng);
  auto adam = adam_of<A>();
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    const Batch<A> batch(i % 3, size(i));
    adam.rate_factor = rate_of(i);
    const auto loss = loss_of<A>(model, input_of(model, batch), batch.labels);
    const auto gradients = optim::collect<A>(model, loss.backward());
    adam.step(model, gradients, optim::clip(gradients, 0.5));
    trained.losses.push_back(Tensor<B>(loss.inner()).template item<float>());
  }
  trained.model = nn::state(model);
  trained.optimizer = adam.state();
  return trained;
}

// As a step. `between(i, model, step)` runs before each; losses are read at the end.
template <class A, template <class> class M, class F>
Trained stepped(int steps, std::int64_t (*size)(int), bool record, const F& between) {
  Rng rng{.seed = 3};
  M<A> model(rng);
  auto adam = adam_of<A>();
  train::Step step(model, adam,
                   [&](const auto& x, const auto& labels) { return loss_of<A>(model, x, labels); },
                   {.highest_norm = 0.5, .record = record});
  std::vector<Tensor<nn::Inner<A>>> losses;
  for (int i = 0; i < steps; ++i) {
    const Batch<A> batch(i % 3, size(i));
    adam.rate_factor = rate_of(i);
    between(i, model, step);
    losses.push_back(step(input_of(model, batch), batch.labels));
  }
  step.check();
  Trained trained;
  for (const auto& loss : losses) trained.losses.push_back(loss.template item<float>());
  trained.model = nn::state(model);
  trained.optimizer = adam.state();
  trained.why_not = step.why_not();
  trained.recorded = step.recorded();
  trained.replayed = step.replayed();
  return trained;
}
template <class A, template <class> class M>
Trained stepped(int steps, std::int64_t (*size)(int) = usual_size, bool record = true) {
  return stepped<A, M>(steps, size, record, [](auto&&...) {});
}

}  // namespace planck::test
