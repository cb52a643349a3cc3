// Steps that do not fit what is kept, or the parameter: refused by name, and everything as it was.
#include <gtest/gtest.h>

#include <limits>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using Gradients = optim::ModelGradients<Cpu>;
using Layers = nn::Sequential<nn::Linear<A>>;

Layers layers(std::int64_t in, std::int64_t out, Dtype dtype = Dtype::f32) {
  Rng rng{.seed = 1};
  return Layers(nn::Linear<A>(rng, {in, out, false}, dtype));
}
Gradients ones_of(std::int64_t in, std::int64_t out, Dtype dtype = Dtype::f32) {
  Gradients g;
  g.emplace("0.weight", ones<Cpu>({out, in}, dtype));
  return g;
}
// What a step says that must be refused; the model and the optimizer are as they were.
template <class Optimizer, class Model>
std::string refused(Optimizer& optimizer, Model& model, const Gradients& g) {
  const auto weights = nn::state(model), kept = optimizer.state();
  std::string says = message([&] { optimizer.step(model, g); });
  EXPECT_NE(says, "nothing was thrown");
  EXPECT_EQ(nn::state(model), weights);
  EXPECT_EQ(optimizer.state(), kept);
  return says;
}
// f(optimizer, the name of a slot) of every optimizer that keeps something.
template <class F>
void for_each_optimizer(const F& f) {
  f(optim::Sgd<A>({.rate = 0.1, .momentum = 0.9}), "sgd: the velocity");
  f(optim::Adam<A>({.rate = 0.1}), "adam: the mean");
  f(optim::Adagrad<A>({.rate = 0.1}), "adagrad: the sum");
  f(optim::RmsProp<A>({.rate = 0.1, .momentum = 0.5, .centered = true}), "rmsprop: the square");
  f(optim::Lion<A>({.rate = 0.1}), "lion: the mean");
  f(optim::Lamb<A>({.rate = 0.1}), "lamb: the mean");
  f(optim::Muon<A>({.rate = 0.1}), "muon: the mean");
}

TEST(Slots, OfOneModelAreNotThoseOfAnother) {
  for_each_optimizer([](auto optimizer, const std::string& slot) {
    auto small = layers(2, 3), large = layers(70, 90);
    optimizer.step(small, ones_of(2, 3));
    EXPECT_EQ(refused(optimizer, large, ones_of(70, 90)),
              slot + " of 0.weight has shape [3, 2], the parameter [90, 70]");
    optimizer.step(small, ones_of(2, 3));
  });
}

TEST(Slots, OfAParameterThatBecameAnotherDtype) {
  for_each_optimizer([](auto optimizer, const std::string& slot) {
    auto model = layers(5, 7);
    optimizer.step(model, ones_of(5, 7));
    auto& weight = model.get<0>().weight;
    const auto f32 = weight.value();
    weight.set(to_float(f32, Dtype::f64));
    EXPECT_EQ(refused(optimizer, model, ones_of(5, 7, Dtype::f64)),
              slot + " of 0.weight is f32, the parameter f64; it must be f64");
    weight.set(to_float(f32, Dtype::bf16));
    EXPECT_EQ(refused(optimizer, model, ones_of(5, 7, Dtype::bf16)),
              slot + " of 0.weight is f32, the parameter bf16; it must be bf16");
    weight.set(f32);
    optimizer.step(model, ones_of(5, 7));
  });
  for_each_optimizer([](auto optimizer, const std::string& slot) {
    auto model = layers(5, 7, Dtype::bf16);
    optimizer.step(model, ones_of(5, 7, Dtype::bf16));
    auto& weight = model.get<0>().weight;
    weight.set(to_float(weight.value(), Dtype::f32));
    EXPECT_EQ(refused(optimizer, model, ones_of(5, 7)),
              slot.substr(0, slot.find(':')) +
                  ": the state has master weights of 0.weight, which is f32");
    weight.set(to_float(weight.value(), Dtype::f16));  // the master is f32 all the same
    optimizer.step(model, ones_of(5, 7, Dtype::f16));
  });
}

// A state that did not fit once does not fit the next time.
TEST(Slots, OfALoadedStateAreRefusedEveryTime) {
  for_each_optimizer([](auto optimizer, const std::string& slot) {
    auto large = layers(8, 9), small = layers(2, 3);
    auto other = optimizer;
    other.step(small, ones_of(2, 3));
    optimizer.load_state(other.state());
    for (int time = 0; time < 3; ++time)
      EXPECT_EQ(refused(optimizer, large, ones_of(8, 9)),
                slot + " of 0.weight has shape [3, 2], the parameter [9, 8]");
    optimizer.step(small, ones_of(2, 3));  // whose state it is
  });
}

// Of one loaded parameter among several.
TEST(Slots, OfALoadedStateForAParameterThatIsGone) {
  Rng rng{.seed = 1};
  nn::Linear<A> with(rng, {2, 3}), without(rng, {2, 3, false});
  Gradients g, h;
  g.emplace("weight", ones<Cpu>({3, 2}));
  h = g;
  g.emplace("bias", ones<Cpu>({3}));
  optim::Adam<A> adam({.rate = 0.1}), other({.rate = 0.1});
  adam.step(with, g);
  other.load_state(adam.state());
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ(refused(other, without, h),
              "adam: the state that was loaded is of bias, the model has no such parameter");
}

TEST(Slots, RowsThatAreNotOfTheTable) {
  Rng rng{.seed = 1};
  nn::Embedding<A> table(rng, 6, 4);
  const auto of = [](const Tensor<Cpu, IntKind>& rows, const Shape& values) {
    Gradients g;
    g.rows.emplace("weight", RowGradient<Cpu>{rows, ones<Cpu>(values), 6});
    return g;
  };
  const auto two = Tensor<Cpu, IntKind>::from<std::int64_t>({1, 3}, {2});
  optim::Sgd<A> sgd({.rate = 0.1});
  EXPECT_EQ(
      refused(sgd, table, of(two, {2, 40})),
      "sgd: the gradient of weight has shape [2, 40], that of 2 rows of the parameter [2, 4]");
  EXPECT_EQ(refused(sgd, table, of(two, {5, 4})),
            "sgd: the gradient of weight has shape [5, 4], that of 2 rows of the parameter [2, 4]");
  EXPECT_EQ(refused(sgd, table, of(reshape(two, {1, 2}), {2, 4})),
            "sgd: the rows of weight are i64 [1, 2], they must be i64 in one axis");
  EXPECT_EQ(refused(sgd, table, of(cast<std::int32_t>(two), {2, 4})),
            "sgd: the rows of weight are i32 [2], they must be i64 in one axis");
  sgd.step(table, of(two, {2, 4}));
}

TEST(Slots, OnAnotherStreamAreRefused) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  with_backend_of(*gpu, []<class B>(std::type_identity<B>) {
    using D = Autodiff<B>;
    Rng rng{.seed = 1};
    nn::Linear<D> layer(rng, {2, 3, false});
    optim::Adam<D> adam({.rate = 0.1});
    optim::ModelGradients<B> g;
    g.emplace("weight", ones<B>({3, 2}));
    adam.step(layer, g);
    adam.load_state(adam.state(), value_or_throw(Stream::cuda(0)));
    EXPECT_EQ(message([&] { adam.step(layer, g); }),
              "adam: the mean of weight and the parameter belong to two streams of cuda:0");
  });
}

TEST(Clipping, ToANormThatIsNonePositiveIsRefused) {
  auto g = ones_of(2, 2);
  for (const double highest : {-1.0, 0.0, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(message([&] { optim::clip_norm(g, highest); }).find("clip_norm: the highest norm is"),
              std::string::npos)
        << highest;
  EXPECT_EQ(message([&] { optim::clip_norm(g, -1); }),
            "clip_norm: the highest norm is -1, it must be positive");
  EXPECT_EQ(g.at("0.weight").to_vector<float>(), std::vector<float>(4, 1));
}

// A step that is refused is no good step of the loss scale.
TEST(LossScale, DoesNotCountAStepThatIsRefused) {
  auto model = layers(2, 3), other = layers(4, 5);
  optim::Adam<A> adam({.rate = 0.1});
  adam.step(other, ones_of(4, 5));
  optim::LossScale scale({.first = 2, .interval = 1});
  const auto before = scale.state();
  EXPECT_NE(message([&] { scale.step(adam, model, ones_of(2, 3)); }), "nothing was thrown");
  EXPECT_EQ(scale.state(), before);
}

}  // namespace

}  // namespace planck::test
