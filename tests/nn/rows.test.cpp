// Gradients that are rows of a table: what is collected, and steps with the bits of dense ones.
#include <gtest/gtest.h>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

// Two readings of one table, with repeats, and a linear layer.
struct Net {
  nn::Embedding<A> words;
  nn::Linear<A> last;
  Net(Rng& rng, bool sparse, std::int64_t padding = 5)
      : words(rng, 50, 8, Cpu::default_device(), padding, sparse), last(rng, {8, 3}) {}
  Tensor<A> operator()(const Tensor<A, IntKind>& a, const Tensor<A, IntKind>& b) {
    return last(tanh(words(a)) * words(b));
  }
  void visit(auto&& part) {
    part("words", words);
    part("last", last);
  }
};

Tensor<A, IntKind> indices(Rng& rng, std::int64_t highest) {
  return nn::constant<A>(to_int(uniform<Cpu>(rng, {6, 7}, 0, static_cast<double>(highest))));
}

// Trains both ways; the weights after each step.
template <class Optimizer>
void compare(const Optimizer& made, std::int64_t highest = 50, bool clips = false) {
  Rng init{.seed = 1}, again{.seed = 1};
  Net dense(init, false), sparse(again, true);
  Optimizer for_dense = made, for_sparse = made;
  for (int step = 0; step < 5; ++step) {
    Rng rng{.seed = 2, .offset = static_cast<std::uint64_t>(step) * 1000};
    const auto a = indices(rng, highest), b = indices(rng, highest);
    auto g = optim::collect<A>(dense, mean(square(dense(a, b))).backward());
    auto h = optim::collect<A>(sparse, mean(square(sparse(a, b))).backward());
    ASSERT_EQ(g.size(), 3u);
    ASSERT_EQ(h.size(), 2u);
    const auto& rows = h.rows.at("words.weight");
    EXPECT_LE(rows.rows.extent(0), highest);
    EXPECT_EQ(rows.dense().to_vector<float>(), g.at("words.weight").to_vector<float>());
    if (clips) {
      EXPECT_NEAR(optim::clip_norm(g, 1e9), optim::clip_norm(h, 1e9), 1e-6);
    }
    for_dense.step(dense, g);
    for_sparse.step(sparse, h);
    ASSERT_EQ(nn::state(dense), nn::state(sparse)) << "step " << step;
    ASSERT_EQ(for_dense.state(), for_sparse.state()) << "step " << step;
  }
}

TEST(Rows, StepsHaveTheBitsOfDenseOnes) {
  compare(optim::Sgd<A>({.rate = 0.5}), 20, true);
  compare(optim::Sgd<A>({.rate = 0.5, .momentum = 0.9, .weight_decay = 0.1}));
  compare(optim::Adagrad<A>({.rate = 0.5}));
  compare(optim::Adagrad<A>({.rate = 0.5, .rate_decay = 0.5, .weight_decay = 0.1}));
  compare(optim::Adam<A>({.rate = 0.1, .weight_decay = 0.1}));
  compare(optim::RmsProp<A>({.rate = 0.1, .momentum = 0.5}));
}

// Where every row has a gradient lazy steps are whole steps.
TEST(Rows, LazyStepsOfAllRowsAreWholeSteps) {
  Rng init{.seed = 1};
  nn::Embedding<A> dense(init, 6, 4), sparse = dense;
  sparse.sparse = true;
  optim::Adam<A> whole({.rate = 0.1, .weight_decay = 0.1}),
      lazy({.rate = 0.1, .weight_decay = 0.1, .lazy = true});
  const auto all = nn::constant<A>(arange<Cpu>(6));
  for (int step = 0; step < 4; ++step) {
    whole.step(dense, optim::collect<A>(dense, sum(square(dense(all))).backward()));
    lazy.step(sparse, optim::collect<A>(sparse, sum(square(sparse(all))).backward()));
    ASSERT_EQ(nn::state(dense), nn::state(sparse)) << "step " << step;
  }
  // One row alone: the others stay.
  const auto before = sparse.weight.value();
  const auto one = Tensor<A, IntKind>::from({2}, {1});
  lazy.step(sparse, optim::collect<A>(sparse, sum(square(sparse(one))).backward()));
  const auto moved = ne(sparse.weight.value(), before).to_vector<std::uint8_t>();
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_EQ(moved[i] != 0, i / 4 == 2) << i;
}

// A step writes the rows where they lie: what somebody else holds is not changed.
TEST(Rows, OthersKeepWhatTheyHold) {
  Rng rng{.seed = 1};
  nn::Embedding<A> table(rng, 4, 2, Cpu::default_device(), kNoPaddingIndex, true);
  const auto one = Tensor<A, IntKind>::from({3, 3}, {2});
  optim::Sgd<A> sgd({.rate = 1});
  const auto step = [&] { sgd.step(table, optim::collect<A>(table, sum(table(one)).backward())); };
  const auto held = table.weight.value();
  const auto before = held.to_vector<float>();
  nn::Embedding<A> copy = table;
  step();
  EXPECT_EQ(held.to_vector<float>(), before);
  EXPECT_EQ(copy.weight.value().to_vector<float>(), before);
  const auto data = [&] { return table.weight->primitive().value.view.data; };
  const void* where = data();
  step();
  EXPECT_EQ(data(), where) << "nobody else held it";
  EXPECT_EQ(table.weight.value().to_vector<float>()[6], before[6] - 4);
}

TEST(Rows, AccumulateAndMeetDenseGradients) {
  Rng rng{.seed = 1};
  Net net(rng, true, kNoPaddingIndex), plain = net;
  plain.words.sparse = false;
  const auto a = indices(rng, 50), b = indices(rng, 50);
  const auto gradients = [&](Net& of, bool tied) {
    auto loss = mean(square(of(a, b)));
    if (tied) loss = loss + sum(*of.words.weight);
    return optim::collect<A>(of, loss.backward());
  };
  for (const bool tied_first : {false, true}) {
    auto total = gradients(net, tied_first), wanted = gradients(plain, tied_first);
    EXPECT_EQ(total.rows.size(), tied_first ? 0u : 1u);
    optim::accumulate(total, gradients(net, false));
    optim::accumulate(wanted, gradients(plain, false));
    optim::accumulate(total, gradients(net, true));
    optim::accumulate(wanted, gradients(plain, true));
    optim::scale(total, 0.5);
    optim::scale(wanted, 0.5);
    ASSERT_EQ(total.rows.size(), 0u);
    const auto x = total.at("words.weight").to_vector<float>(),
               y = wanted.at("words.weight").to_vector<float>();
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-6);
  }
  auto twice = gradients(net, false), doubled = twice;
  optim::accumulate(twice, gradients(net, false));
  optim::scale(doubled, 2);
  EXPECT_EQ(twice.rows.at("words.weight").values.to_vector<float>(),
            doubled.rows.at("words.weight").values.to_vector<float>());
}

TEST(Rows, AreOfLeavesAlone) {
  const auto table = ones<A>({3, 2}).require_grad();
  const auto one = Tensor<A, IntKind>::from({1}, {1});
  EXPECT_EQ(message([&] { (void)read_rows(table * 2, one); }),
            "read_rows: the table is what mul_scalar gave, it must be a leaf");
  EXPECT_FALSE(read_rows(table.detach(), one).is_tracked());
  EXPECT_EQ(message([&] { (void)read_rows(table, one + 2); }),
            "embedding: indices[0] is 3, must be 0 to 2");
  const auto gradients = sum(read_rows(table, one)).backward();
  EXPECT_EQ(row_gradient(table, gradients)->rows.to_vector<std::int64_t>(),
            std::vector<std::int64_t>{1});
  EXPECT_FALSE(table.grad(gradients).has_value());
  EXPECT_FALSE(row_gradient(ones<A>({3, 2}).require_grad(), gradients).has_value());
}

// A segment that runs twice reads the rows of the second run.
TEST(Rows, InASegment) {
  Rng rng{.seed = 1};
  nn::Embedding<A> words(rng, 9, 4, Cpu::default_device(), kNoPaddingIndex, true);
  const auto text = Tensor<A, IntKind>::from({7, 2, 7}, {3});
  const auto x = nn::constant<A>(normal<Cpu>(rng, {3, 4})).require_grad();
  const auto block = [&](const Tensor<A>& s) { return tanh(words(text) * s); };
  const auto plain = optim::collect<A>(words, sum(block(x)).backward());
  const auto twice = optim::collect<A>(words, sum(checkpoint(block, x)).backward());
  EXPECT_EQ(twice.rows.at("weight").rows.to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 7}));
  EXPECT_EQ(twice.rows.at("weight").values.to_vector<float>(),
            plain.rows.at("weight").values.to_vector<float>());
}

// Three steps by rows of each optimizer; the state of the model and of the optimizer.
template <class B>
nn::StateDict stepped() {
  using D = Autodiff<B>;
  nn::StateDict all;
  const auto train = [&](const std::string& name, auto optimizer) {
    Rng rng{.seed = 1};
    nn::Embedding<D> words(rng, 40, 6, B::default_device(), 3, true);
    for (int step = 0; step < 3; ++step) {
      const auto text = to_int(uniform<B>(rng, {5, 9}, 0, 40));
      const auto loss = mean(square(words(nn::constant<D>(text))));
      optimizer.step(words, optim::collect<D>(words, loss.backward()));
    }
    all.merge(nn::with_prefix(name + ".", nn::state(words)));
    all.merge(nn::with_prefix(name + ".", optimizer.state()));
  };
  train("sgd", optim::Sgd<D>({.rate = 0.5}));
  train("adagrad", optim::Adagrad<D>({.rate = 0.5}));
  train("adam", optim::Adam<D>({.rate = 0.1, .weight_decay = 0.1, .lazy = true}));
  return all;
}
TEST(Rows, OnCudaAsOnTheCpu) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu,
                  []<class B>(std::type_identity<B>) { EXPECT_EQ(stepped<B>(), stepped<Cpu>()); });
}

// Second derivatives take the dense way.
TEST(Rows, TwiceDifferentiable) {
  using AA = Autodiff<A>;
  const auto table = nn::constant<AA>(ones<A>({3, 2}).require_grad()).require_grad();
  const auto y = read_rows(table, Tensor<AA, IntKind>::from({1}, {1}));
  EXPECT_TRUE(table.grad(sum(square(y)).backward()).has_value());
}

}  // namespace

}  // namespace planck::test
