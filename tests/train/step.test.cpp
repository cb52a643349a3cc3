// A step as one object on the CPU: the bits of the loop written by hand; errors surface once, by
// name, and leave the model as it was.
#include "planck/train/step.h"

#include <gtest/gtest.h>

#include "tests/nn/thrown.h"
#include "tests/train/models.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

TEST(Step, HasTheBitsOfTheLoopByHand) {
  const auto check = [](const std::string& what, const Trained& wanted, const Trained& found) {
    EXPECT_TRUE(same_bits(found, wanted)) << what;
    EXPECT_LT(wanted.losses.back(), wanted.losses.front()) << what << " learns";
    EXPECT_EQ(found.why_not, "the CPU runs what it is given at once");
    EXPECT_EQ(found.recorded + found.replayed, 0);
  };
  check("perceptron", written_out<A, Perceptron>(12), stepped<A, Perceptron>(12));
  check("pictures", written_out<A, Pictures>(12), stepped<A, Pictures>(12));
  check("text", written_out<A, Text>(12), stepped<A, Text>(12));
}

TEST(Step, WithoutClippingAndWithOtherResults) {
  const auto trained = [](bool by_hand) {
    Rng rng{.seed = 3};
    Perceptron<A> model(rng);
    optim::Sgd<A> sgd({.rate = 0.1, .momentum = 0.9});
    train::Step step(model, sgd, [&](const auto& x, const auto& labels) {
      const auto y = model(x);
      return std::tuple(nn::cross_entropy_loss(y, labels), y, argmax(y, 1));
    });
    for (int i = 0; i < 5; ++i) {
      const Batch<A> batch(i, 6);
      if (by_hand) {
        const auto loss = nn::cross_entropy_loss(model(batch.x), batch.labels);
        sgd.step(model, optim::collect<A>(model, loss.backward()));
        continue;
      }
      const auto wanted = model(batch.x);
      const auto [loss, y, best] = step(batch.x, batch.labels);
      static_assert(std::same_as<std::remove_cvref_t<decltype(y)>, Tensor<Cpu>>);
      EXPECT_EQ(nn::to_entry(y), nn::to_entry(wanted.inner()));
      EXPECT_EQ(nn::to_entry(best), nn::to_entry(argmax(wanted.inner(), 1)));
      EXPECT_EQ(loss.shape(), Shape{});
    }
    return nn::state(model);
  };
  EXPECT_EQ(trained(false), trained(true));
}

TEST(Step, ScalesTheLoss) {
  const auto trained = [](bool by_hand) {
    Rng rng{.seed = 3};
    Perceptron<A> model(rng, Dtype::f16);
    auto adam = adam_of<A>();
    optim::LossScale scale({.first = 0x1p24, .interval = 4});
    const auto loss_fn = [&](const auto& x, const auto& labels) {
      return loss_of<A>(model, x, labels);
    };
    train::Step step(model, adam, loss_fn, {.highest_norm = 0.5, .loss_scale = &scale});
    for (int i = 0; i < 12; ++i) {
      const Batch<A> batch(i, 6, Dtype::f16);
      if (by_hand) {
        const auto loss = loss_fn(batch.x, batch.labels);
        scale.step(adam, model, optim::collect<A>(model, scale(loss).backward()), 0.5);
      } else {
        step(batch.x, batch.labels);
      }
    }
    EXPECT_GT(scale.skipped(), 0) << "steps that overflow";
    EXPECT_LT(scale.skipped(), 12) << "and some that do not";
    return std::tuple(nn::state(model), adam.state(), scale.state());
  };
  EXPECT_EQ(trained(false), trained(true));
}

TEST(Step, NamesWhatIsWrongAndChangesNothing) {
  Rng rng{.seed = 3};
  Text<A> model(rng);
  auto adam = adam_of<A>();
  train::Step step(model, adam, [&](const auto& text, const auto& labels) {
    return loss_of<A>(model, text, labels);
  });
  const Batch<A> good(0, 3);
  step(good.text, good.labels);
  const auto before = nn::state(model), slots = adam.state();
  const auto labels = Tensor<A, IntKind>::from({0, 4, 1}, {3});
  EXPECT_EQ(message([&] { step(good.text, labels); }),
            "cross_entropy: targets[1] is 4, must be 0 to 3");
  const auto first = good.text.to_vector<std::int64_t>()[0] + 8;
  EXPECT_EQ(message([&] { step(good.text + 8, good.labels); }),
            "embedding: indices[0, 0] is " + std::to_string(first) +
                ", must be 0 to 7; 36 of 36 are out of range");
  EXPECT_EQ(nn::state(model), before);
  EXPECT_EQ(adam.state(), slots);
  EXPECT_EQ(message([&] { step.check(); }), "nothing was thrown");
  EXPECT_EQ(message([&] { step(good.text, good.labels); }), "nothing was thrown");
  EXPECT_NE(nn::state(model), before);
  EXPECT_EQ(message([&] {
              train::Step(model, adam, [](const Tensor<A>& x) { return x; }, {.highest_norm = -1});
            }),
            "step: the highest norm is -1, it must be positive");
}

TEST(Step, RefusesALossThatIsNoNumber) {
  Rng rng{.seed = 3};
  Perceptron<A> model(rng);
  auto adam = adam_of<A>();
  double times = 1;
  const auto loss_fn = [&](const auto& x, const auto& labels) {
    return loss_of<A>(model, x, labels) * times;
  };
  train::Step step(model, adam, loss_fn, {.check_loss = true}), unchecked(model, adam, loss_fn);
  const Batch<A> batch(0, 3);
  step(batch.x, batch.labels);
  const auto before = nn::state(model), slots = adam.state();
  times = std::numeric_limits<double>::infinity();
  EXPECT_EQ(message([&] { step(batch.x, batch.labels); }), "the loss of step 2 is inf");
  EXPECT_EQ(nn::state(model), before);
  EXPECT_EQ(adam.state(), slots);
  EXPECT_EQ(step.steps(), 1);
  EXPECT_EQ(message([&] { unchecked(batch.x, batch.labels); }), "nothing was thrown");
  EXPECT_NE(nn::state(model), before);
}

}  // namespace

}  // namespace planck::test
