// The graph itself: what is tracked, what is kept, when it is freed, and what is refused.
#include <chrono>
#include <future>
#include <thread>

#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

using V = std::vector<double>;

Tensor<A> leaf(const V& values, const Shape& shape) {
  return Tensor<A>::from(std::span<const double>(values), shape).require_grad();
}
Tensor<A> constant(const V& values, const Shape& shape) {
  return Tensor<A>::from(std::span<const double>(values), shape);
}
V values(const std::optional<Tensor<B>>& t) { return t ? t->to_vector<double>() : V{}; }
template <class F>
ErrorCode code_of(const F& f, std::string* message = nullptr) {
  try {
    f();
  } catch (const Exception& e) {
    if (message != nullptr) *message = e.what();
    return e.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::io;
}

TEST_F(Graphs, UntrackedWorkMakesNoNode) {
  const auto before = Node<B>::live();
  const auto x = constant({1, 2}, {2});
  const auto y = exp(x) * x + 1;
  EXPECT_FALSE(y.is_tracked());
  EXPECT_EQ(Node<B>::live(), before);
  EXPECT_EQ(code_of([&] { (void)y.backward(); }), ErrorCode::untracked);
}

TEST_F(Graphs, AreFreedWithTheirTensors) {
  const auto before = Node<B>::live();
  {
    const auto x = leaf({1, 2}, {2});
    auto y = sum(exp(x) * x);
    EXPECT_GT(Node<B>::live(), before + 3);
    y = y.detach();
    EXPECT_EQ(Node<B>::live(), before + 1);  // the leaf
    EXPECT_FALSE(y.is_tracked());
  }
  EXPECT_EQ(Node<B>::live(), before);
}

TEST_F(Graphs, BackwardTwiceNeedsRetaining) {
  const auto x = leaf({3}, {1});
  const auto y = x * x;
  EXPECT_EQ(values(x.grad(A::backward(y.primitive(), BackwardOptions{.retain_graph = true}))),
            V{6});
  EXPECT_EQ(values(x.grad(y.backward())), V{6});
  std::string message;
  EXPECT_EQ(code_of([&] { (void)y.backward(); }, &message), ErrorCode::graph_released);
  EXPECT_NE(message.find("retain_graph"), std::string::npos) << message;
  EXPECT_NE(message.find("mul"), std::string::npos) << message;
}

TEST_F(Graphs, SeedsOnesForAnyShape) {
  const auto x = leaf({1, 2, 3, 4}, {2, 2});
  EXPECT_EQ(values(x.grad((x * x).backward())), V({2, 4, 6, 8}));
}

TEST_F(Graphs, TakeCotangentsAndSeveralRoots) {
  const auto x = leaf({1, 2}, {2});
  const auto y = x * x, z = x * 3;
  const auto c = Tensor<B>::from<double>({10.0, 100.0}, {2}),
             d = Tensor<B>::from<double>({1.0, 1.0}, {2});
  EXPECT_EQ(
      values(x.grad(A::backward({{y.primitive(), c.primitive()}, {z.primitive(), d.primitive()}}))),
      V({23, 403}));
  // A root that another root is made of.
  const auto u = x * x, v = u * u;
  EXPECT_EQ(
      values(x.grad(A::backward({{v.primitive(), d.primitive()}, {u.primitive(), d.primitive()}}))),
      V({4 + 2, 32 + 4}));
  EXPECT_EQ(values(x.grad(A::backward(x.primitive(), c.primitive()))), V({10, 100}));  // a leaf
  std::string message;
  const auto wide = Tensor<B>::from<double>({1.0, 1.0, 1.0}, {3});
  EXPECT_EQ(code_of([&] { (void)A::backward(v.primitive(), wide.primitive()); }, &message),
            ErrorCode::invalid_problem);
  EXPECT_EQ(message, "backward: the cotangent has shape [3], the tensor [2]");
}

TEST_F(Graphs, GradientsAreAContainer) {
  const auto x = leaf({2}, {1}), y = leaf({5}, {1}), other = leaf({1}, {1});
  auto grads = (x * y).backward();
  EXPECT_EQ(values(y.grad(grads)), V{2});
  EXPECT_EQ(values(x.grad(grads)), V{5});
  EXPECT_FALSE(other.grad(grads));
  EXPECT_TRUE(A::grad_remove(x.primitive(), grads));
  EXPECT_FALSE(A::grad_remove(x.primitive(), grads));
  EXPECT_FALSE(x.grad(grads));
  const auto seven = Tensor<B>::from<double>({7.0}, {1});
  A::grad_replace(other.primitive(), grads, seven.primitive());  // none existed
  EXPECT_EQ(values(other.grad(grads)), V{7});
  A::grad_replace(y.primitive(), grads, seven.primitive());
  EXPECT_EQ(values(y.grad(grads)), V{7});
  const auto wide = Tensor<B>::from<double>({7.0, 7.0}, {2});
  EXPECT_EQ(code_of([&] { A::grad_replace(y.primitive(), grads, wide.primitive()); }),
            ErrorCode::invalid_problem);
  EXPECT_EQ(
      code_of([&] { A::grad_replace(constant({1}, {1}).primitive(), grads, seven.primitive()); }),
      ErrorCode::untracked);
  auto moved =
      std::async(std::launch::async, [g = std::move(grads)]() mutable { return std::move(g); });
  EXPECT_EQ(values(y.grad(moved.get())), V{7});
}

TEST_F(Graphs, HooksSeeTheWholeGradientOfALeaf) {
  const auto x = leaf({3}, {1});
  int calls = 0;
  A::add_hook(x.primitive(), [&](const B::FloatTensor& g) {
    ++calls;
    return (Tensor<B>(g) * 10).primitive();
  });
  const auto y = x * x + x;
  EXPECT_EQ(values(x.grad(y.backward())), V{70});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(code_of([&] { A::add_hook(y.primitive(), {}); }), ErrorCode::untracked);
}

TEST_F(Graphs, HooksRunWhileOtherGradientsAreStillToBeFound) {
  const auto first = leaf({3}, {1}), last = leaf({2}, {1});
  std::vector<std::string> order;
  const auto note = [&](const char* what) {
    return [&order, what](const B::FloatTensor& g) {
      order.emplace_back(what);
      return g;
    };
  };
  const auto watched = leaf({1}, {1});  // between the two: its gradient is found after last's
  A::add_hook(first.primitive(), note("first"));
  A::add_hook(last.primitive(), note("last"));
  A::add_hook(watched.primitive(), note("watched"));
  const auto grads = (((first * first) * watched) * last).backward();
  EXPECT_EQ(order, (std::vector<std::string>{"last", "watched", "first"}));
  EXPECT_EQ(values(last.grad(grads)), V{9});
}

TEST_F(Graphs, HooksRunOnceWhereASegmentReachesTheLeafToo) {
  const auto x = leaf({3}, {1}), w = leaf({2}, {1});
  int calls = 0;
  A::add_hook(w.primitive(), [&](const B::FloatTensor& g) {
    ++calls;
    return (Tensor<B>(g) * 10).primitive();
  });
  const auto y = checkpoint([&](const Tensor<A>& t) { return t * w; }, x * w);  // x w²
  EXPECT_EQ(values(w.grad(y.backward())), V{120});
  EXPECT_EQ(calls, 1);
}

TEST_F(Graphs, InnerAndBackAgain) {
  const auto x = leaf({3}, {1});
  const Tensor<B> inside = x.inner();
  EXPECT_EQ(values(inside), V{3});
  EXPECT_FALSE(Tensor<A>(A::from_inner(inside.primitive())).is_tracked());
  const auto i = Tensor<A, IntKind>::from({std::int64_t{4}}, {1});
  EXPECT_EQ((Tensor<B, IntKind>(A::int_inner(i.primitive())).to_vector<std::int64_t>()),
            std::vector<std::int64_t>{4});
  const auto b = lt(x, x);
  EXPECT_EQ((Tensor<B, BoolKind>(A::bool_inner(b.primitive())).to_vector<std::uint8_t>()),
            std::vector<std::uint8_t>{0});
}

// Nothing is quadratic and nothing recurses: a million ops build, differentiate and go.
TEST_F(Graphs, ChainsOfAMillionOps) {
  const auto before = Node<B>::live();
  const auto one = constant({1}, {1});
  const auto chain = [&](int length) {
    const auto begin = std::chrono::steady_clock::now();
    {
      const auto x = leaf({0.5}, {1});
      auto y = x;
      for (int i = 0; i < length; ++i) y = y + one;
      EXPECT_EQ(values(x.grad(y.backward())), V{1});
    }
    EXPECT_EQ(Node<B>::live(), before);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / length;
  };
  const double few = std::min({chain(1000), chain(1000), chain(1000)});
  const double many = chain(1000000);
  EXPECT_LT(many, few * 10) << "seconds an op: " << few << " for 1,000, " << many
                            << " for 1,000,000";
}

TEST_F(Graphs, ChainsOfRecipes) {
  using C = Autodiff<B, BalancedCheckpointing>;
  const auto x = Tensor<C>::from<double>({0.5}, {1}).require_grad();
  const auto one = Tensor<C>::from<double>({1.0}, {1});
  auto y = x;
  for (int i = 0; i < 100000; ++i) y = y * one;
  EXPECT_EQ(values(x.grad(y.backward())), V{1});
}

TEST_F(Graphs, WideOnesSumInOneOrder) {
  const auto x = leaf({0.1, 0.7}, {2});
  auto total = x * 0.3;
  for (int i = 1; i < 200; ++i) total = total + sin(x * (0.3 + i));
  const auto first = values(x.grad(A::backward(total.primitive(), BackwardOptions{true})));
  EXPECT_EQ(values(x.grad(total.backward())), first);
}

TEST_F(Graphs, ThreadsShareLeaves) {
  const auto w = leaf({1.5, -2}, {2});
  const auto alone = values(w.grad(sum(exp(w) * w).backward()));
  std::vector<std::thread> threads;
  std::vector<V> found(8);
  for (std::size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) found[t] = values(w.grad(sum(exp(w) * w).backward()));
    });
  for (auto& t : threads) t.join();
  for (const V& f : found) EXPECT_EQ(f, alone);
}

TEST_F(Graphs, BusyOnesAreRefused) {
  const auto x = leaf({1}, {1});
  const auto shared = x * x;
  const auto y = shared * 2;
  const auto z = shared * 3;
  // A hook runs inside the pass over y: a pass over z would go through the same node.
  A::add_hook(x.primitive(), [&](const B::FloatTensor& g) {
    EXPECT_EQ(code_of([&] { (void)z.backward(); }), ErrorCode::graph_busy);
    return g;
  });
  EXPECT_EQ(values(x.grad(A::backward(y.primitive(), BackwardOptions{true}))), V{4});
}

// ---- checkpointing ----

TEST_F(Graphs, SegmentsGiveTheSameBits) {
  const auto x = leaf({0.3, -1.2, 0.8}, {3}), w = leaf({2, 0.5, -1}, {3});
  const auto block = [&](const Tensor<A>& t) { return tanh(t * w) * exp(t); };
  const auto plain = sum(block(block(x))).backward();
  const auto kept = sum(checkpoint(block, checkpoint(block, x))).backward();
  EXPECT_EQ(values(x.grad(kept)), values(x.grad(plain)));
  EXPECT_EQ(values(w.grad(kept)), values(w.grad(plain)));  // captured, and a leaf
}

TEST_F(Graphs, SegmentsDrawTheSameValuesAgain) {
  // Shifts by noise that the segment draws from the generator; the generator moves on once.
  const auto noisy = [](Rng& rng, const Tensor<A>& t) {
    const double shift = static_cast<double>(rng.take(3) % 7) + static_cast<double>(rng.seed);
    return sin(t * shift);
  };
  const auto x = leaf({0.3, -1.2, 0.8}, {3});
  Rng rng{.seed = 2, .offset = 5}, other = rng;
  const auto y = checkpoint(rng, noisy, x);
  const auto plain = noisy(other, x);
  EXPECT_EQ(rng.offset, other.offset);
  (void)rng.take(100);  // what is drawn later does not matter
  EXPECT_EQ(values(x.grad(y.backward())), values(x.grad(plain.backward())));
  EXPECT_EQ(rng.offset, 108u);
}

TEST_F(Graphs, SegmentsRefuseWhatTheyCannotReplay) {
  const auto x = leaf({0.3}, {1});
  const auto between = x * 2;
  std::string message;
  EXPECT_EQ(code_of([&] { (void)checkpoint([&](const Tensor<A>& t) { return t * between; }, x); },
                    &message),
            ErrorCode::invalid_problem);
  EXPECT_NE(message.find("pass it as an input"), std::string::npos) << message;
}

TEST_F(Graphs, SegmentsKeepLittle) {
  const auto x = leaf({0.3}, {1});
  const auto before = Node<B>::live();
  const auto y = checkpoint(
      [](const Tensor<A>& t) {
        auto u = t;
        for (int i = 0; i < 100; ++i) u = sin(u);
        return u;
      },
      x);
  EXPECT_LE(Node<B>::live() - before, 2);  // the segment's node, and the leaf it starts from
  EXPECT_TRUE(x.grad(y.backward()));
}

TEST_F(Graphs, NonDifferentiableOpsSaySo) {
  std::string message;
  const auto x = leaf({0.3}, {1});
  struct Refusing {
    static auto pull() { return no_pullback("has none"); }
  };
  auto node = autodiff_detail::make_node<B, Exp>(Refusing::pull(), std::array{x.primitive().from});
  const Tensor<A> y(Tracked<B>{x.primitive().value, {node, 0}, nullptr});
  EXPECT_EQ(code_of([&] { (void)y.backward(); }, &message), ErrorCode::not_differentiable);
  EXPECT_EQ(message, "exp: has none");
}

TEST_F(Graphs, ShapesThatDoNotFitAreNamed) {
  const auto x = leaf({1, 2, 3}, {3}), y = leaf({1, 2}, {2});
  std::string message;
  EXPECT_EQ(code_of([&] { (void)(x + y); }, &message), ErrorCode::invalid_problem);
  EXPECT_EQ(message, "add: shapes [3] and [2] do not broadcast: 3 against 2");
  EXPECT_EQ(code_of(
                [&] {
                  (void)matmul(reshape(x, {1, 3}), reshape(y, {2, 1}));
                },
                &message),
            ErrorCode::invalid_problem);
  EXPECT_NE(message.find("[1, 3]"), std::string::npos) << message;
}

}  // namespace

static_assert(Backend<B> && AutodiffBackend<A> && AutodiffBackend<Autodiff<A>> &&
              AutodiffBackend<Autodiff<B, BalancedCheckpointing>>);

}  // namespace planck::test
