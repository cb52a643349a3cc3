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

// A step that fails leaves a model that runs and trains on, and whose state can be put back: the
// step that follows is the step that was meant.
TYPED_TEST(Failures, OfAStepLeaveTheModel) {
  using X = TypeParam;
  Training<X> training;
  training.step();
  const auto before = nn::state(training.net());
  const auto slots = training.optimizer();
  training.step();
  const auto expected = training.hash();
  for (Of of : {Of::heap, Of::blocks}) {
    training.restore(before, slots);
    const auto count = fail_each(
        of, [&] { training.step(); },
        [&](std::int64_t n, bool failed) {
          if (!failed) return;
          ASSERT_TRUE(std::isfinite(training.loss().inner().template item<float>())) << n;
          training.step();
          ASSERT_TRUE(std::isfinite(training.loss().inner().template item<float>())) << n;
          training.restore(before, slots);
          training.step();
          ASSERT_EQ(training.hash(), expected) << "after failure " << n;
          training.restore(before, slots);
        });
    EXPECT_GT(count, of == Of::heap ? 100 : 50) << "the optimizer itself takes no blocks";
    this->RecordProperty(of == Of::heap ? "heap" : "blocks", std::to_string(count));
  }
}

// What a forward pass that fails had drawn and gathered is as before.
TYPED_TEST(Failures, OfAForwardPassMoveNoStatistics) {
  using X = TypeParam;
  Training<X> training;
  training.step();
  nn::Buffer<X>& mean = training.net().norm.running_mean;
  const auto seen = [&] {
    return std::pair{mean.value.template to_vector<float>(),
                     training.net().norm.running_var.value.template to_vector<float>()};
  };
  auto before = seen();
  int moved = 0;
  fail_each(
      Of::blocks,
      [&] {
        (void)training.net().norm(ones<X>({4, 5}));
      },
      [&](std::int64_t, bool failed) {
        if (failed && seen() != before) ++moved;
      });
  EXPECT_EQ(moved, 0);
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
