// Every allocation fails once: of operator new, and of the caching allocator. Whatever was refused,
// the graph and the model are as usable as before.
#include <gtest/gtest.h>

#include <cmath>
#include <new>

#include "planck/balanced.h"
#include "tests/tape/failing_new.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

// Arms a failure, and disarms it whatever happens.
enum class Of { heap, blocks };
class Failing {
 public:
  Failing(Of of, std::int64_t nth) : of_(of) {
    if (of == Of::heap)
      fail_new(nth);
    else
      fail_allocation(nth);
  }
  ~Failing() {
    fail_new(-1);
    if (of_ == Of::blocks) fail_allocation(-1);
  }

 private:
  Of of_;
};

// Runs f with its n-th allocation failing, for every n that f reaches; `check` looks at what is
// left. Returns how many there were.
template <class F, class Check>
std::int64_t fail_each(Of of, const F& f, const Check& check) {
  for (std::int64_t n = 0;; ++n) {
    bool failed = false;
    try {
      const Failing failing(of, n);
      f();
    } catch (const std::bad_alloc&) {
      failed = true;
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::out_of_memory) << e.what();
      failed = true;
    }
    check(n, failed);
    if (!failed || testing::Test::HasFailure()) return n;
  }
}

template <class X>
struct Net {
  nn::Linear<X> first, second;
  nn::BatchNorm<X> norm;
  nn::Dropout drop;
  explicit Net(Rng& rng) : first(rng, {4, 5}), second(rng, {5, 3}), norm(5), drop(0.3, 7) {}
  Tensor<X> operator()(const Tensor<X>& x) {
    const auto block = [&](const Tensor<X>& t) { return drop(tanh(norm(first(t)))); };
    return second(checkpoint(block, x));
  }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("norm", norm);
    part("drop", drop);
  }
};

template <class X>
class Training {
 public:
  Training() : net_(rng_), x_(normal<Cpu>(rng_, {6, 4})) {}
  Tensor<X> loss() { return mean(square(net_(Tensor<X>(X::from_inner(x_.primitive())) * 1.5f))); }
  void step() {
    const auto grads = loss().backward();
    adam_.step(net_, optim::collect<X>(net_, grads));
  }
  Net<X>& net() { return net_; }
  nn::StateDict weights() {
    nn::StateDict all;
    nn::parts_of(net_).template for_each<nn::Parameter<X>>(
        [&](const std::string& path, nn::Parameter<X>& p) { all[path] = nn::to_entry(p.value()); });
    return all;
  }
  std::string hash() { return nn::sha256_of(nn::state(net_)); }
  // As it was when it was made.
  void restore(const nn::StateDict& model, const nn::StateDict& optimizer) {
    nn::load_state(net_, model);
    adam_.load_state(optimizer);
  }
  nn::StateDict optimizer() const { return adam_.state(); }

 private:
  Rng rng_{.seed = 11};
  Net<X> net_;
  Tensor<Cpu> x_;
  optim::Adam<X> adam_{{.rate = 0.01}};
};

template <class X>
class Failures : public testing::Test {};
using Strategies = testing::Types<Autodiff<Cpu>, Autodiff<Cpu, BalancedCheckpointing>>;
class StrategyNames {
 public:
  template <class X>
  static std::string GetName(int i) {
    return i == 0 ? "keep_all" : "balanced";
  }
};
TYPED_TEST_SUITE(Failures, Strategies, StrategyNames);

// A backward that fails leaves the graph as it was: the next one gives the same gradients.
TYPED_TEST(Failures, OfBackwardLeaveTheGraph) {
  using X = TypeParam;
  Training<X> training;
  training.step();  // plans are selected
  for (Of of : {Of::heap, Of::blocks}) {
    const auto loss = training.loss();
    const auto weight = *training.net().first.weight, bias = **training.net().second.bias;
    const auto bits = [&](const typename X::Gradients& g) {
      return std::pair{weight.grad(g)->template to_vector<float>(),
                       bias.grad(g)->template to_vector<float>()};
    };
    const auto expected =
        bits(X::backward(loss.primitive(), BackwardOptions{.retain_graph = true}));
    const auto count = fail_each(
        of, [&] { (void)loss.backward(); },
        [&](std::int64_t n, bool failed) {
          if (!failed) return;
          ASSERT_EQ(bits(X::backward(loss.primitive(), BackwardOptions{.retain_graph = true})),
                    expected)
              << "after failure " << n;
        });
    EXPECT_GT(count, 20);
    this->RecordProperty(of == Of::heap ? "heap" : "blocks", std::to_string(count));
  }
}

// A step that fails leaves weights and slots as they were, a model that runs and trains on, and
// whose state can be put back: the step that follows is the step that was meant. The first step
// makes the slots.
TYPED_TEST(Failures, OfAStepLeaveTheModel) {
  using X = TypeParam;
  Training<X>().step();  // plans are selected
  for (const int steps : {0, 1}) {
    Training<X> training;
    for (int i = 0; i < steps; ++i) training.step();
    const auto before = nn::state(training.net());
    const auto weights = training.weights();
    const auto slots = training.optimizer();
    EXPECT_EQ(slots.empty(), steps == 0);
    training.step();
    const auto expected = training.hash();
    for (Of of : {Of::heap, Of::blocks}) {
      training.restore(before, slots);
      const auto count = fail_each(
          of, [&] { training.step(); },
          [&](std::int64_t n, bool failed) {
            if (!failed) return;
            ASSERT_EQ(training.weights(), weights) << "after failure " << n;
            ASSERT_EQ(training.optimizer(), slots) << "after failure " << n;
            ASSERT_TRUE(std::isfinite(training.loss().inner().template item<float>())) << n;
            training.step();
            ASSERT_TRUE(std::isfinite(training.loss().inner().template item<float>())) << n;
            training.restore(before, slots);
            training.step();
            ASSERT_EQ(training.hash(), expected) << "after failure " << n;
            training.restore(before, slots);
          });
      EXPECT_GT(count, of == Of::heap ? 100 : 50);
      this->RecordProperty((of == Of::heap ? "heap" : "blocks") + std::to_string(steps),
                           std::to_string(count));
    }
  }
}

// Matrices, a vector, a table of which rows have gradients.
struct Words {
  nn::Embedding<A> words;
  nn::Linear<A> last;
  explicit Words(Dtype dtype) : Words(dtype, {.seed = 3}) {}
  Words(Dtype dtype, Rng rng)
      : words(rng, 9, 4, dtype, kNoPaddingIndex, true), last(rng, {4, 3}, dtype) {}
  optim::ModelGradients<Cpu> gradients() {
    const auto y = last(words(Tensor<A, IntKind>::from({1, 7, 7, 2}, {4})));
    return optim::collect<A>(*this, mean(square(to_float(y, Dtype::f32))).backward());
  }
  void visit(auto&& part) {
    part("words", words);
    part("last", last);
  }
};

// Fails every allocation of an optimizer's first and second step, alone and where a copy of it
// holds the same slots.
template <class Optimizer>
void fail_steps(const std::string& what, const Optimizer& made) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f64})
    for (const int steps : {0, 1, 2})
      for (Of of : {Of::heap, Of::blocks}) {
        SCOPED_TRACE(what + " of " + std::string(name(dtype)) + ", step " + std::to_string(steps));
        Words model(dtype);
        Optimizer optimizer = made;
        const auto gradients = [&] {
          auto g = model.gradients();
          if (what == "muon") g.erase("last.bias");
          return g;
        };
        const auto step = [&](const auto& g) { optimizer.step(model, g, optim::clip(g, 0.5)); };
        for (int i = 0; i < steps; ++i) step(gradients());
        const auto weights = nn::state(model), slots = optimizer.state();
        const auto g = gradients();
        const auto begin = [&] {
          nn::load_state(model, weights);
          optimizer = made;
          if (steps > 0) optimizer.load_state(slots);
        };
        begin();
        step(g);
        const auto expected = nn::state(model), expected_slots = optimizer.state();
        ASSERT_NE(expected, weights);
        begin();
        std::optional<Optimizer> copy;
        if (steps == 2) copy = optimizer;
        const auto count = fail_each(
            of, [&] { step(g); },
            [&](std::int64_t n, bool failed) {
              if (failed) {
                ASSERT_EQ(nn::state(model), weights) << "after failure " << n;
                ASSERT_EQ(optimizer.state(), slots) << "after failure " << n;
                step(g);
              }
              ASSERT_EQ(nn::state(model), expected) << "after failure " << n;
              ASSERT_EQ(optimizer.state(), expected_slots) << "after failure " << n;
              begin();
              if (steps == 2) copy = optimizer;
            });
        EXPECT_GT(count, of == Of::heap ? 10 : 1);
      }
}

TEST(StepFailures, LeaveWeightsAndSlots) {
  fail_steps("sgd", optim::Sgd<A>({.rate = 0.1}));
  fail_steps("momentum", optim::Sgd<A>({.rate = 0.1, .momentum = 0.9}));
  fail_steps("adam", optim::Adam<A>({.rate = 0.1}));
  fail_steps("lazy adam", optim::Adam<A>({.rate = 0.1, .lazy = true}));
  fail_steps("adagrad", optim::Adagrad<A>({.rate = 0.1}));
  fail_steps("rmsprop", optim::RmsProp<A>({.rate = 0.1, .momentum = 0.5, .centered = true}));
  fail_steps("lion", optim::Lion<A>({.rate = 0.1}));
  fail_steps("lamb", optim::Lamb<A>({.rate = 0.1}));
  fail_steps("muon", optim::Muon<A>({.rate = 0.1}));
}

TEST(StepFailures, LeaveAverages) {
  Words model(Dtype::bf16);
  // Threads are there: TBB waits forever if its start fails. A first update only copies.
  optim::Ema<A> starts(0.5);
  for (int i = 0; i < 2; ++i) starts.update(model);
  for (const int updates : {0, 1}) {
    optim::Ema<A> made(0.5);
    for (int i = 0; i < updates; ++i) made.update(model);
    const auto before = made.state();
    for (auto& p : {&model.words.weight, &model.last.weight}) p->set(p->value() * 2);
    for (Of of : {Of::heap, Of::blocks}) {
      optim::Ema<A> average = made;
      const auto count = fail_each(
          of, [&] { average.update(model); },
          [&](std::int64_t n, bool failed) {
            if (failed) {
              ASSERT_EQ(average.state(), before) << "after failure " << n;
            }
          });
      EXPECT_GT(count, 1);
      EXPECT_NE(average.state(), before);
    }
  }
}

// A module whose pass fails has drawn and gathered nothing.
TYPED_TEST(Failures, OfAModulesPassMoveNoState) {
  using X = TypeParam;
  Training<X> training;
  training.step();
  const auto x = ones<X>({4, 5});
  const auto pass = [&](auto& module) {
    for (Of of : {Of::heap, Of::blocks}) {
      const auto before = nn::state(module);
      const auto count = fail_each(
          of, [&] { (void)module(x); },
          [&](std::int64_t n, bool failed) {
            ASSERT_EQ(nn::state(module) == before, failed) << "after failure " << n;
          });
      EXPECT_GT(count, 2);
    }
  };
  pass(training.net().norm);
  pass(training.net().drop);
}

// An op that would have written to its input's buffer, and could not be run, leaves it there.
TEST(Buffers, AreGivenBackByOpsThatFail) {
  auto t = Tensor<Cpu>::from({1.f, 2.f, 3.f, 4.f, 5.f}, {1, 5, 1}) * 2;
  const void* buffer = t.primitive().storage->data();
  std::optional<Tensor<Cpu>> y;
  const auto count = fail_each(
      Of::heap, [&] { y = std::move(t) + 1; },
      [&](std::int64_t, bool failed) {
        if (failed) {
          ASSERT_EQ(t.to_vector<float>(), F({2, 4, 6, 8, 10}));
        }
      });
  EXPECT_GT(count, 0) << "a plan for a new shape is selected and kept";
  EXPECT_EQ(y->primitive().storage->data(), buffer);
}

// Freeing memory takes none.
TEST(Buffers, AreFreedWithoutAllocating) {
  const Stream stream = Stream::cpu(1);
  release_cached(Device::cpu());
  const auto before = allocator_stats(Device::cpu()).in_use;
  std::vector<Buffer> small, large;
  for (std::size_t i = 0; i < 600; ++i) {
    small.push_back(value_or_throw(allocate(stream, 64)));
    large.push_back(value_or_throw(allocate(stream, 5000 + 700 * (i % 97))));
  }
  {
    const Failing failing(Of::heap, 0);
    while (!small.empty()) small.pop_back();
    while (!large.empty()) large.pop_back();
  }
  EXPECT_EQ(allocator_stats(Device::cpu()).in_use, before);
  release_cached(Device::cpu());
  EXPECT_EQ(allocator_stats(Device::cpu()).cached, 0u);
}

}  // namespace

}  // namespace planck::test
