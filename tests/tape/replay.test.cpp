// Modules with a state inside segments: the second run sees what the first saw, and moves nothing.
#include <gtest/gtest.h>

#include "planck/training.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;

Tensor<A> leaf(const Tensor<Cpu>& t) {
  return Tensor<A>(A::from_inner(t.primitive())).require_grad();
}
Tensor<A> normal_leaf(const Shape& shape, std::uint64_t seed = 3) {
  Rng rng{.seed = seed};
  return leaf(normal<Cpu>(rng, shape));
}
F bits(const Tensor<A>& x, const A::Gradients& g) { return x.grad(g)->to_vector<float>(); }
template <class Run>
std::string message_of(const Run& f) {
  try {
    f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Replay, DropoutDropsTheSameElementsAgain) {
  nn::Dropout drop(0.5, 7);
  const auto x = leaf(ones<Cpu>({1000}));
  const auto y = checkpoint([&](const Tensor<A>& t) { return drop(t); }, x);
  (void)drop(x);  // what others draw in between does not matter
  const auto offset = drop.rng.offset;
  EXPECT_EQ(bits(x, y.backward()), y.inner().to_vector<float>());  // 0 or 2, where it was kept
  EXPECT_EQ(drop.rng.offset, offset) << "the second run moved the generator";
}

TEST(Replay, BatchNormMovesItsStatisticsOnce) {
  const auto train = [](bool segmented) {
    nn::BatchNorm<A> norm(4);
    const auto x = normal_leaf({8, 4});
    const auto block = [&](const Tensor<A>& t) { return tanh(norm(t)) * t; };
    const auto y = segmented ? checkpoint(block, x) : block(x);
    const auto g = y.backward();
    return std::tuple{bits(x, g), bits(*norm.weight, g), norm.running_mean.value.to_vector<float>(),
                      norm.running_var.value.to_vector<float>()};
  };
  EXPECT_EQ(train(true), train(false));
}

// Two batches go forward before the first goes back: each segment remembers its own statistics.
TEST(Replay, BatchNormNormalizesByWhatItSaw) {
  const auto run = [](bool segmented) {
    nn::BatchNorm<A> norm(4);
    const auto x = normal_leaf({8, 4});
    const auto block = [&](const Tensor<A>& t) { return norm(t) * t; };
    norm.mode.training = false;
    const auto y = segmented ? checkpoint(block, x) : block(x);
    norm.mode.training = true;
    (void)norm(normal_leaf({8, 4}, 9));
    norm.mode.training = false;
    return bits(x, y.backward());
  };
  EXPECT_EQ(run(true), run(false));
}

struct Block {
  nn::Linear<A> first;
  nn::BatchNorm<A> norm;
  nn::Dropout drop;
  explicit Block(Rng& rng) : first(rng, {6, 6}), norm(6), drop(0.3, rng.seed) {}
  Tensor<A> operator()(const Tensor<A>& x) { return drop(relu(norm(first(x)))) + x; }
  void visit(auto&& part) {
    part("first", first);
    part("norm", norm);
    part("drop", drop);
  }
};

// Three steps of blocks in segments, and segments of two of them.
TEST(Replay, NestedSegmentsTrainToTheSameBits) {
  const auto train = [](bool segmented) {
    Rng rng{.seed = 1};
    Block a(rng), b(rng);
    optim::Adam<A> adam({.rate = 0.01});
    F last;
    for (int step = 0; step < 3; ++step) {
      const auto x = normal_leaf({16, 6}, 20 + static_cast<std::uint64_t>(step));
      const auto one = [&](Block& block) {
        return [&](const Tensor<A>& t) {
          return segmented ? checkpoint([&](const Tensor<A>& u) { return block(u); }, t) : block(t);
        };
      };
      const auto both = [&](const Tensor<A>& t) { return one(b)(one(a)(t)); };
      const auto y = segmented ? checkpoint(both, x) : both(x);
      const auto g = mean(square(y)).backward();
      adam.step(a, optim::collect<A>(a, g));
      adam.step(b, optim::collect<A>(b, g));
      last = bits(x, g);
    }
    return std::tuple{last, nn::sha256_of(nn::state(a)), nn::sha256_of(nn::state(b))};
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(Replay, QuantizedLayersObserveOnce) {
  const auto run = [](bool segmented) {
    Rng rng{.seed = 1};
    nn::Quant<nn::Linear<A>> layer(nn::Linear<A>(rng, {4, 3}), {});
    (void)layer(normal_leaf({8, 4}, 8));
    layer.start_quantizing();
    const auto x = normal_leaf({8, 4}), other = normal_leaf({8, 4}, 5);
    const auto block = [&](const Tensor<A>& t) { return tanh(layer(t)); };
    const auto y = segmented ? checkpoint(block, x) : block(x);
    (void)block(other * 3);  // moves the range
    return std::pair{bits(x, y.backward()), nn::sha256_of(nn::state(layer))};
  };
  EXPECT_EQ(run(true), run(false));
}

// Each run of a segment reads a table anew; the gradient of its rows is that of the run that
// counts.
TEST(Replay, RowsOfATableAreReadAgain) {
  Rng rng{.seed = 1};
  const nn::Embedding<A> table(rng, 9, 4, Cpu::default_device(), kNoPaddingIndex, true);
  const auto at =
      Tensor<A, IntKind>::from({std::int64_t{3}, std::int64_t{0}, std::int64_t{3}}, {3});
  const auto x = normal_leaf({3, 4});
  const auto rows = [&](bool segmented) {
    const auto block = [&](const Tensor<A>& t) { return tanh(table(at) * t); };
    const auto g = (segmented ? checkpoint(block, x) : block(x)).backward();
    const auto found = row_gradient(*table.weight, g);
    return std::tuple{bits(x, g), found->rows.to_vector<std::int64_t>(),
                      found->values.to_vector<float>()};
  };
  EXPECT_EQ(rows(true), rows(false));
}

TEST(Replay, RefusesWhatChangedInBetween) {
  const auto x = normal_leaf({4, 6});
  nn::Dropout drop(0.5, 7);
  const auto y = checkpoint([&](const Tensor<A>& t) { return drop(t) * t; }, x);
  nn::eval(drop);
  const std::string less = message_of([&] { (void)y.backward(); });
  EXPECT_NE(less.find("checkpoint: the segment's second run"), std::string::npos) << less;
  nn::train(drop);
  EXPECT_TRUE(x.grad(y.backward())) << "a refused pass leaves the graph as it was";

  Rng rng{.seed = 1};
  nn::Linear<A> layer(rng, {6, 6});
  const auto z = checkpoint([&](const Tensor<A>& t) { return layer(t); }, x);
  layer.weight.set(zeros<Cpu>({6, 6}));
  const std::string moved = message_of([&] { (void)z.backward(); });
  EXPECT_NE(moved.find("was set between"), std::string::npos) << moved;
}

}  // namespace

}  // namespace planck::test
