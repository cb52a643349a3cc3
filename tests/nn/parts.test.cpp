// Models as values: copies have leaves of their own; freezing; names; what cannot be set or built.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

struct Two {
  nn::Linear<A> first, second;
  explicit Two(Rng& rng) : first(rng, {3, 4}), second(rng, {4, 2}) {}
  Tensor<A> operator()(const Tensor<A>& x) { return second(relu(first(x))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
  }
};

TEST(Parts, ACopyHasLeavesOfItsOwn) {
  Rng rng{.seed = 1};
  Two student(rng);
  Two teacher = student;
  const auto x = nn::constant<A>(normal<Cpu>(rng, {5, 3}));
  const auto of_teacher = sum(teacher(x)).backward();
  EXPECT_EQ(optim::collect<A>(student, of_teacher).size(), 0u);
  EXPECT_EQ(optim::collect<A>(teacher, of_teacher).size(), 4u);
  Two assigned(rng);
  assigned = teacher;
  EXPECT_EQ(optim::collect<A>(assigned, of_teacher).size(), 0u);
  EXPECT_EQ(nn::state(assigned), nn::state(teacher));
  Two moved = std::move(teacher);  // the same model elsewhere
  EXPECT_EQ(optim::collect<A>(moved, of_teacher).size(), 4u);
}

TEST(Parts, FrozenParametersHaveNoGradientAndStay) {
  Rng rng{.seed = 1};
  Two net(rng);
  const auto x = nn::constant<A>(normal<Cpu>(rng, {5, 3}));
  nn::requires_grad(net, false, "first");
  EXPECT_FALSE(net.first.weight->is_tracked());
  auto gradients = optim::collect<A>(net, sum(net(x)).backward());
  EXPECT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(gradients.contains("second.weight"));
  const auto before = nn::state(net);
  gradients.emplace("first.weight", ones<Cpu>({4, 3}));  // as collected before it was frozen
  optim::Sgd<A>({.rate = 1}).step(net, gradients);
  EXPECT_EQ(nn::state(net).at("first.weight"), before.at("first.weight"));
  EXPECT_NE(nn::state(net).at("second.weight"), before.at("second.weight"));
  net.first.weight.set(net.first.weight.value() * 2);
  Two copy = net;
  EXPECT_FALSE(copy.first.weight.requires_grad()) << "a copy is as frozen";
  nn::load_state(net, before);
  EXPECT_FALSE(net.first.weight.requires_grad()) << "loading does not thaw";
  nn::requires_grad(net, false);
  EXPECT_FALSE(net(x).is_tracked());
  nn::requires_grad(net, true);
  EXPECT_EQ(optim::collect<A>(net, sum(net(x)).backward()).size(), 4u);
  EXPECT_EQ(message([&] { nn::requires_grad(net, false, "fir"); }),
            "requires_grad: the module has no parameter that is called fir or lies below it");
}

struct SameName {
  nn::Linear<A> a, b;
  void visit(auto&& part) {
    part("layer", a);
    part("layer", b);
  }
};

TEST(Parts, TwoOfOneNameAreRefused) {
  Rng rng{.seed = 1};
  SameName net{nn::Linear<A>(rng, {2, 2}), nn::Linear<A>(rng, {2, 2})};
  const std::string text =
      "module: two parts are called layer.weight; visit() must give each a name of its own";
  EXPECT_EQ(message([&] { (void)nn::state(net); }), text);
  EXPECT_EQ(message([&] { optim::Sgd<A>({}).step(net, optim::ModelGradients<Cpu>()); }), text);
}

struct Tied {
  nn::Embedding<A> words;
  void visit(auto&& part) {
    part("words", words);
    part("output", words);
  }
};

TEST(Parts, APartOfTwoNamesIsOnePart) {
  Rng rng{.seed = 1};
  Tied net{nn::Embedding<A>(rng, 3, 2)};
  const auto before = net.words.weight.value();
  const auto gradients = optim::collect<A>(net, sum(*net.words.weight).backward());
  optim::Sgd<A>({.rate = 1}).step(net, gradients);
  EXPECT_EQ(net.words.weight.value().to_vector<float>(), (before - 1).to_vector<float>());
  auto state = nn::state(net);
  EXPECT_EQ(state.size(), 2u);
  state.erase("words.weight");  // files may have it once
  EXPECT_TRUE(nn::load_state(net, state).missing.empty());
}

TEST(Parts, AParameterKeepsItsShape) {
  nn::Parameter<A> p(zeros<Cpu>({2, 3}));
  EXPECT_EQ(message([&] { p.set(ones<Cpu>({3})); }),
            "parameter: it has shape [2, 3], and is set to a value of shape [3]");
  EXPECT_EQ(p.value().to_vector<float>(), std::vector<float>(6, 0));
}

TEST(Parts, LayersOfNothing) {
  Rng rng{.seed = 1};
  nn::Linear<A> linear(rng, {0, 3});
  EXPECT_EQ(linear(zeros<A>({2, 0})).inner().to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(message([&] { nn::Conv2d<A>(rng, {.in = 4, .out = 4, .shape = {.groups = 0}}); }),
            "conv: 4 channels in and 4 out do not divide into 0 groups");
  EXPECT_EQ(
      message([&] { nn::ConvTranspose2d<A>(rng, {.in = 3, .out = 4, .shape = {.groups = 2}}); }),
      "conv: 3 channels in and 4 out do not divide into 2 groups");
}

TEST(Parts, BatchNormNeedsABatch) {
  nn::BatchNorm<A> norm(3);
  EXPECT_EQ(
      message([&] {
        (void)norm(zeros<A>({0, 3}));
      }),
      "batch_norm: x has shape [0, 3], training needs more than one value per channel, not 0");
  EXPECT_EQ(message([&] {
              (void)norm(zeros<A>({1, 3, 1, 1}));
            }),
            "batch_norm: x has shape [1, 3, 1, 1], training needs more than one value per channel, "
            "not 1");
  EXPECT_EQ(norm.running_mean.value.to_vector<float>(), std::vector<float>(3, 0));
  EXPECT_EQ(norm.running_var.value.to_vector<float>(), std::vector<float>(3, 1));
  (void)norm(zeros<A>({1, 3, 2}));
  nn::eval(norm);
  EXPECT_EQ(norm(zeros<A>({1, 3})).shape(), (Shape{1, 3}));
  EXPECT_EQ(norm(zeros<A>({0, 3})).shape(), (Shape{0, 3}));
  nn::BatchNorm<A> none(0);
  EXPECT_EQ(none(zeros<A>({2, 0})).shape(), (Shape{2, 0}));
}

}  // namespace

}  // namespace planck::test
