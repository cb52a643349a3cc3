// Segments that run twice, and what is computed again: the bits, the hooks and the memory of a
// graph that keeps everything.
#include <cmath>

#include "tests/autodiff/compiled.h"

namespace planck::test {

namespace {

using Segments = Gradients;
using F = std::vector<float>;

// Values whose sums round differently in every order.
F spread(int count, float phase) {
  F values;
  for (int i = 0; i < count; ++i)
    values.push_back(std::sin(static_cast<float>(i) * 0.7f + phase) * std::ldexp(1.f, i % 7 - 3));
  return values;
}
template <class X>
Tensor<X> leaf(float phase, int count = 200) {
  const F values = spread(count, phase);
  return Tensor<X>::from(std::span<const float>(values), {count}).require_grad();
}
template <class X>
F bits(const Tensor<X>& x, const typename X::Gradients& g) {
  const auto found = x.grad(g);
  return found ? to_float(*found, Dtype::f32).template to_vector<float>() : F{};
}

TEST_F(Segments, CallTheHookOfACapturedLeafOnce) {
  const auto x = leaf<A>(0), w = leaf<A>(1);
  int calls = 0;
  A::add_hook(w.primitive(), [&](const B::FloatTensor& g) {
    ++calls;
    return (Tensor<B>(g) * 10).primitive();
  });
  const auto plain = sum(x * w).backward();
  EXPECT_EQ(calls, 1);
  const auto kept = sum(checkpoint([&](const Tensor<A>& t) { return t * w; }, x)).backward();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(bits(w, kept), bits(w, plain));
}

// A weight that is used twice inside, before it and after it: three orders of one sum.
TEST_F(Segments, AddGradientsInTheOrderOfThePlainGraph) {
  const auto x = leaf<A>(0), w = leaf<A>(1), v = leaf<A>(2);
  const auto block = [&](const Tensor<A>& t) { return tanh(t * w) * w + t * v; };
  const auto model = [&](const auto& segment) {
    const auto first = segment(sin(x * w) + x);
    const auto second = segment(first * w + exp(v * 0.1f));
    return sum(second * w + first * v + w * 0.3f + x);
  };
  const auto plain = model(block).backward();
  const auto kept = model([&](const Tensor<A>& t) { return checkpoint(block, t); }).backward();
  EXPECT_EQ(bits(w, kept), bits(w, plain));
  EXPECT_EQ(bits(v, kept), bits(v, plain));
  EXPECT_EQ(bits(x, kept), bits(x, plain));
}

TEST_F(Segments, NestAndGiveTheBitsOfThePlainGraph) {
  const auto x = leaf<A>(0), w = leaf<A>(1);
  const auto block = [&](const Tensor<A>& t) { return tanh(t * w) * w + t; };
  const auto once = [&](const Tensor<A>& t) { return checkpoint(block, t); };
  const auto outer = [&](const auto& inner) {
    return [&](const Tensor<A>& t) {
      // The inner segment captures what stands for the outer one's input.
      return inner(inner(t) * w) + checkpoint([&](const Tensor<A>& u) { return u * t; }, t * w);
    };
  };
  const auto bare = [&](const Tensor<A>& t) { return block(block(t) * w) + (t * w) * t; };
  const auto plain = sum(bare(x * w) * x + w).backward();
  const auto kept = sum(checkpoint(outer(once), x * w) * x + w).backward();
  EXPECT_EQ(bits(w, kept), bits(w, plain));
  EXPECT_EQ(bits(x, kept), bits(x, plain));
}

// What a segment gives may be one of its inputs, or not depend on one of them.
TEST_F(Segments, PassInputsThrough) {
  const auto x = leaf<A>(0), w = leaf<A>(1);
  const auto model = [&](const auto& segment) {
    const auto u = x * w;
    const auto y = segment(u, w);
    return sum(y * u + tanh(y) * w + u);
  };
  const auto first = [](const Tensor<A>& t, const Tensor<A>&) { return t; };
  const auto plain = model(first).backward();
  const auto kept =
      model([&](const auto& a, const auto& b) { return checkpoint(first, a, b); }).backward();
  EXPECT_EQ(bits(w, kept), bits(w, plain));
  EXPECT_EQ(bits(x, kept), bits(x, plain));
  const auto sine = [](const Tensor<A>& t, const Tensor<A>&) { return sin(t); };
  const auto unused =
      model([&](const auto& a, const auto& b) { return checkpoint(sine, a, b); }).backward();
  const auto all = model(sine).backward();
  EXPECT_EQ(bits(w, unused), bits(w, all));
  EXPECT_EQ(bits(x, unused), bits(x, all));
}

// The gradient of a gradient, where what is computed again is part of a graph itself.
TEST_F(Segments, RecomputingKeepsTheBitsOfSecondDerivatives) {
  const auto second = []<class X>(std::type_identity<X>) {
    const auto inner = leaf<A>(0, 40), weight = leaf<A>(1, 40);
    const auto x = Tensor<X>(X::from_inner(inner.primitive())).require_grad();
    const auto w = Tensor<X>(X::from_inner(weight.primitive())).require_grad();
    const auto u = tanh(x * w), v = exp(u * w) * u;
    const auto y = sum(v * u * w + v * x);
    const auto first = y.backward();
    const auto g = (y.inner() + sum(*x.grad(first) * *w.grad(first))).backward();
    return std::pair{bits(inner, g), bits(weight, g)};
  };
  const auto plain = second(std::type_identity<Autodiff<A>>{});
  const auto less = second(std::type_identity<Autodiff<A, BalancedCheckpointing>>{});
  EXPECT_EQ(less.first, plain.first);
  EXPECT_EQ(less.second, plain.second);
}

}  // namespace

}  // namespace planck::test
