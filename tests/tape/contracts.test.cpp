// What people hand to the tape, and what it promises them: dtypes and shapes, many roots,
// strategies of one's own, tensors between backends, what a backend says of itself.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

// Ops whose pullbacks give what does not fit, outside of any anonymous namespace: pullback() is
// found beside them.
enum class Wrong { nothing, shape, dtype, input, output };
struct Twisted {
  static constexpr std::string_view name = "twisted";
  static constexpr bool computes = true;
  Wrong wrong = Wrong::nothing;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    return x * 2;
  }
};
template <class R>
auto pullback(const Twisted& op, const R&) {
  return [op](auto& g) {
    const auto dy = g.dy(op.wrong == Wrong::output ? 1 : 0);
    if (op.wrong == Wrong::shape) return g.give(sum(dy));
    if (op.wrong == Wrong::dtype) return g.give(to_float(dy, Dtype::f64));
    if (op.wrong == Wrong::input) return g.give(1, dy);
    g.give(dy * 2);
  };
}

// The same on the integers of a quantized tensor, whose gradient is a float tensor.
struct TwistedCodes {
  static constexpr std::string_view name = "twisted_codes";
  static constexpr bool computes = true;
  using Gives = FloatKind;
  Wrong wrong = Wrong::nothing;
  template <class B>
  Tensor<B> compute(const Tensor<B, IntKind>& q) const {
    return to_float(q, Dtype::f32);
  }
};
template <class R>
auto pullback(const TwistedCodes& op, const R&) {
  return [op](auto& g) {
    if (op.wrong == Wrong::shape) return g.give(sum(g.dy()));
    if (op.wrong == Wrong::dtype) return g.give(to_float(g.dy(), Dtype::f16));
    g.give(g.dy());
  };
}

namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

Tensor<A> leaf(std::initializer_list<float> values) {
  return Tensor<A>::from(values, {static_cast<std::int64_t>(values.size())}).require_grad();
}

TEST(HandedOver, PullbacksGiveTheDtypeAndShapeOfTheInput) {
  const auto x = leaf({1, 2, 3});
  const auto of = [&](Wrong wrong) {
    return message([&] { (void)call(Twisted{wrong}, x * 3).backward(); });
  };
  EXPECT_EQ(of(Wrong::nothing), "nothing was thrown");
  EXPECT_EQ(of(Wrong::shape),
            "twisted: the pullback gives input 0 a gradient of shape [], the input has [3]");
  EXPECT_EQ(of(Wrong::dtype),
            "twisted: the pullback gives input 0 a gradient of f64, f32 is expected");
  EXPECT_EQ(of(Wrong::output),
            "twisted: the pullback reads the gradient of output 1, which has none; has() tells");
  EXPECT_EQ(of(Wrong::input),
            "twisted: the pullback gives input 1 a gradient, the op has 1 inputs");
}

// Of the integers' shape, in the type that the floats are computed in; ops in between pass that on.
TEST(HandedOver, PullbacksGiveIntegersFloatsOfTheirShape) {
  using Q = QuantizedTensor<A>;
  const std::function<Q(const Q&)> ways[] = {
      [](const Q& q) { return q; },
      [](const Q& q) { return reshape(q, {6}); },
      [](const Q& q) { return slice(q, 1, 0, 2); },
      [](const Q& q) {
        return cat(std::vector{q, q}, 1);
      },
      [](const Q& q) { return flip(q, {0}); },
  };
  for (Dtype t : {Dtype::f16, Dtype::f32})
    for (const auto& way : ways) {
      const auto x = Tensor<A>(ones<Cpu>({2, 3}, t)).require_grad();
      const auto seen = [&] {
        return way(quantize(x, ones<A>({1}, t), zeros<A, IntKind>({1}, Dtype::i32)));
      };
      const auto of = [&](Wrong wrong) {
        return message([&] { (void)call(TwistedCodes{wrong}, seen().codes()).backward(); });
      };
      EXPECT_EQ(of(Wrong::nothing), "nothing was thrown");
      EXPECT_EQ(of(Wrong::shape),
                "twisted_codes: the pullback gives input 0 a gradient of shape [], the input has " +
                    to_string(seen().shape()));
      EXPECT_EQ(of(Wrong::dtype),
                "twisted_codes: the pullback gives input 0 a gradient of f16, f32 is expected");
    }
}

TEST(HandedOver, HooksGiveTheDtypeAndShapeOfTheLeaf) {
  const auto of = [](const auto& f) {
    const auto x = leaf({1, 2, 3});
    A::add_hook(x.primitive(),
                [&](const Cpu::FloatTensor& g) { return f(Tensor<Cpu>(g)).primitive(); });
    return message([&] { (void)(x * x).backward(); });
  };
  EXPECT_EQ(of([](const Tensor<Cpu>& g) { return g * 2; }), "nothing was thrown");
  EXPECT_EQ(of([](const Tensor<Cpu>& g) { return sum(g); }),
            "hook: the gradient that it gives has shape [], the tensor [3]");
  EXPECT_EQ(of([](const Tensor<Cpu>& g) { return to_float(g, Dtype::bf16); }),
            "hook: the gradient that it gives is bf16, the tensor f32");
}

TEST(HandedOver, ReplacedGradientsHaveTheDtypeAndShapeOfTheLeaf) {
  const auto x = leaf({1, 2, 3});
  auto grads = (x * x).backward();
  const auto of = [&](const Tensor<Cpu>& g) {
    return message([&] { A::grad_replace(x.primitive(), grads, g.primitive()); });
  };
  EXPECT_EQ(of(ones<Cpu>({2})), "grad_replace: the gradient has shape [2], the tensor [3]");
  EXPECT_EQ(of(ones<Cpu>({3}, Dtype::f64)), "grad_replace: the gradient is f64, the tensor f32");
  EXPECT_EQ(x.grad(grads)->to_vector<float>(), F({2, 4, 6}));
  EXPECT_EQ(of(ones<Cpu>({3})), "nothing was thrown");
}

TEST(Backward, TakesOptions) {
  const auto x = leaf({1, 2, 3});
  const auto y = x * x;
  const auto dy = Tensor<Cpu>::from({1.f, 10.f, 100.f}, {3});
  const auto bits = [&](const A::Gradients& g) { return x.grad(g)->to_vector<float>(); };
  EXPECT_EQ(bits(y.backward({.cotangent = dy, .retain_graph = true})), F({2, 40, 600}));
  EXPECT_EQ(bits(y.backward({.retain_graph = true})), F({2, 4, 6}));
  EXPECT_EQ(bits(y.backward({.cotangent = dy})), F({2, 40, 600}));
  EXPECT_NE(message([&] { (void)y.backward({.cotangent = dy}); }).find("retain_graph"),
            std::string::npos);
  EXPECT_EQ(message([&] { (void)y.backward({.cotangent = ones<Cpu>({2})}); }),
            "backward: the cotangent has shape [2], the tensor [3]");
}

// Dropping values early is for those who need the memory and can do without the graph.
TEST(Backward, FreesEarlyWhereAsked) {
  const auto peak = [](bool early) {
    Rng rng{.seed = 4};
    std::vector<Tensor<A>> weights;
    auto x = Tensor<A>(normal<Cpu>(rng, {256, 256}));
    for (int i = 0; i < 8; ++i)
      weights.push_back(Tensor<A>(normal<Cpu>(rng, {256, 256}, 0, 0.1)).require_grad());
    for (const auto& w : weights) x = tanh(matmul(x, w));
    const auto y = mean(x);
    const auto before = allocator_stats(Device::cpu()).in_use;
    reset_peak(Device::cpu());
    const auto grads = y.backward({.free_early = early});
    return std::pair{allocator_stats(Device::cpu()).peak - before,
                     weights[0].grad(grads)->to_vector<float>()};
  };
  const auto early = peak(true), late = peak(false);
  EXPECT_EQ(early.second, late.second);
  EXPECT_LT(3 * early.first, 2 * late.first) << early.first << " against " << late.first;
}

TEST(Backward, OfManyRootsIsLinear) {
  const auto seconds = [](int count) {
    const auto x = leaf({0.5f});
    std::vector<std::pair<A::FloatTensor, Cpu::FloatTensor>> roots;
    const auto one = ones<Cpu>({1});
    for (int i = 0; i < count; ++i) roots.emplace_back((x * 2.f).primitive(), one.primitive());
    const auto begin = std::chrono::steady_clock::now();
    const auto grads = A::backward(std::move(roots));
    const double taken =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    EXPECT_EQ(x.grad(grads)->to_vector<float>(), F({2.f * static_cast<float>(count)}));
    return taken / count;
  };
  const double few = std::min({seconds(1000), seconds(1000), seconds(1000)});
  const double many = seconds(100000);
  EXPECT_LT(many, 10 * few) << "seconds a root: " << few << " of 1,000, " << many << " of 100,000";
}

// A root that is given twice counts twice, and is walked once.
TEST(Backward, TakesARootTwice) {
  const auto x = leaf({3});
  const auto y = x * x;
  const auto one = ones<Cpu>({1});
  const auto grads = A::backward({{y.primitive(), one.primitive()},
                                  {x.primitive(), one.primitive()},
                                  {y.primitive(), one.primitive()}});
  EXPECT_EQ(x.grad(grads)->to_vector<float>(), F({13}));
}

template <class C>
struct Kept {
  std::size_t held, peak, left;  // bytes: by the graph, in the pass, after it with the graph alive
  F gradient;
};
template <class C>
Kept<C> measure(bool retain) {
  using X = Autodiff<Cpu, C>;
  Rng rng{.seed = 4};
  const auto w = Tensor<X>(normal<Cpu>(rng, {64, 64}, 0, 0.1)).require_grad();
  const auto input = Tensor<X>(normal<Cpu>(rng, {512, 64}));
  const auto empty = allocator_stats(Device::cpu()).in_use;
  std::vector<Tensor<X>> layers{input};  // somebody looks at every layer
  for (int i = 0; i < 12; ++i) {
    auto y = gelu(sigmoid(matmul(layers.back(), w)) + 0.1);
    if (layers.size() > 1 && i % 2 == 0) layers.pop_back();
    layers.push_back(std::move(y));
  }
  const auto loss = mean(layers.back());
  const auto before = allocator_stats(Device::cpu()).in_use;
  reset_peak(Device::cpu());
  F gradient;
  std::size_t peak = 0;
  {
    const auto grads = loss.backward({.retain_graph = retain});
    peak = allocator_stats(Device::cpu()).peak - before;
    gradient = w.grad(grads)->template to_vector<float>();
  }
  return {before - empty, peak, allocator_stats(Device::cpu()).in_use - before, gradient};
}

// What was computed again is gone when the pass is, whoever holds the tensors or the graph, and
// goes within the pass as soon as it is not needed.
TEST(Strategies, BalancedFreesWhatItRecomputed) {
  const auto all = measure<NoCheckpointing>(true);
  const auto less = measure<BalancedCheckpointing>(true);
  EXPECT_EQ(less.gradient, all.gradient);
  EXPECT_LT(less.held, all.held);
  EXPECT_EQ(less.left, 0u);
  EXPECT_LT(less.peak, all.held / 2) << "nothing of a retained graph was freed in the pass";
  EXPECT_LE(static_cast<std::int64_t>(measure<BalancedCheckpointing>(false).left), 0)
      << "tensors that are still held keep results of the pass";
}

// A strategy of one's own: everything large is computed again, products of matrices too.
struct RecomputeLarge {
  static inline int asked = 0;
  static bool recomputes(const OpResult& result) {
    ++asked;
    return result.bytes > 64 * 1024 && result.op != "tanh";
  }
};
static_assert(CheckpointStrategy<RecomputeLarge> && CheckpointStrategy<NoCheckpointing> &&
              CheckpointStrategy<BalancedCheckpointing>);
struct NotAStrategy {
  static constexpr bool recomputes = true;
};
static_assert(!CheckpointStrategy<NotAStrategy>);

TEST(Strategies, AreWhatAUserSays) {
  const auto all = measure<NoCheckpointing>(false);
  const auto balanced = measure<BalancedCheckpointing>(false);
  const auto large = measure<RecomputeLarge>(false);
  EXPECT_GT(RecomputeLarge::asked, 36);
  EXPECT_EQ(large.gradient, all.gradient);
  EXPECT_LT(large.held, balanced.held) << "products are not kept";
}

TEST(Tensors, GoBetweenABackendAndItsAutodiff) {
  const auto plain = Tensor<Cpu>::from({1.f, 2.f}, {2});
  const Tensor<A> x(plain);
  EXPECT_FALSE(x.is_tracked());
  EXPECT_EQ(x.primitive().value.storage, plain.primitive().storage) << "nothing is copied";
  const auto tracked = x.require_grad() * 2;
  EXPECT_EQ(Tensor<Cpu>(tracked).to_vector<float>(), F({2, 4}));
  const Tensor<Autodiff<A>> twice(tracked);
  EXPECT_TRUE(Tensor<A>(twice).is_tracked()) << "the inner history stays";
  const auto i = arange<Cpu>(3);
  EXPECT_EQ((Tensor<Cpu, IntKind>(Tensor<A, IntKind>(i)).to_vector<std::int64_t>()),
            (std::vector<std::int64_t>{0, 1, 2}));
  const auto b = gt(plain, ones<Cpu>({2}));
  EXPECT_EQ((Tensor<A, BoolKind>(b).inner().to_vector<std::uint8_t>()),
            (std::vector<std::uint8_t>{0, 1}));
  static_assert(!std::convertible_to<Tensor<Cpu>, Tensor<A>>, "by name only");
  static_assert(!std::constructible_from<Tensor<Cuda>, Tensor<A>>);
}

TEST(Backends, SayWhatTheyAre) {
  const auto device = A::default_device();
  EXPECT_EQ(Cpu::name(device), "cpu");
  EXPECT_EQ(A::name(device), "autodiff(cpu)");
  EXPECT_EQ(A::device_count(), 1u);
  EXPECT_EQ(Cuda::device_count() > 0, Stream::on({DeviceKind::cuda, 0}).has_value());
  const std::span<const Dtype> dtypes = A::dtypes(device);
  for (Dtype t : dtypes) {
    if (!is_float(t)) continue;
    EXPECT_EQ(zeros<A>({2}, t, device).dtype(), t);
  }
  EXPECT_NE(std::find(dtypes.begin(), dtypes.end(), Dtype::bf16), dtypes.end());
  A::seed(device, 42);
  const auto first = uniform<Cpu>(A::generator(device), {4}).to_vector<float>();
  EXPECT_NE(uniform<Cpu>(Cpu::generator(device), {4}).to_vector<float>(), first);
  Cpu::seed(device, 42);
  EXPECT_EQ(uniform<Cpu>(Cpu::generator(device), {4}).to_vector<float>(), first);
  A::synchronize(device);
}

}  // namespace

}  // namespace planck::test
