// Optimizers against their formulas in f64, clipping, accumulation, schedules, and resuming.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

struct Point {
  nn::Parameter<A> at{Tensor<Cpu>::from({1.f, -2.f, 0.5f}, {3})};
  void visit(auto&& part) { part("at", at); }
  // A bowl with different slopes: the gradient is 2 c w.
  optim::ModelGradients<Cpu> gradients() {
    const auto c = nn::constant<A>(Tensor<Cpu>::from({1.f, 0.5f, 3.f}, {3}));
    return optim::collect<A>(*this, sum(c * square(*at)).backward());
  }
};
constexpr double kSlope[] = {2, 1, 6};

template <class Optimizer, class F>
void compare(Optimizer optimizer, F formula) {
  Point p;
  double w[] = {1, -2, 0.5}, state[3][2] = {};
  for (int step = 1; step <= 20; ++step) {
    optimizer.step(p, p.gradients());
    for (int i = 0; i < 3; ++i) formula(step, w[i], kSlope[i] * w[i], state[i]);
    const auto got = p.at.value().to_vector<float>();
    for (std::size_t i = 0; i < 3; ++i) ASSERT_NEAR(got[i], w[i], 2e-6) << "step " << step;
  }
}

TEST(Optimizers, Sgd) {
  compare(optim::Sgd<A>({.rate = 0.05}), [](int, double& w, double g, double*) { w -= 0.05 * g; });
  compare(optim::Sgd<A>({.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1}),
          [](int step, double& w, double g, double* s) {
            g += 0.1 * w;
            s[0] = step == 1 ? g : 0.9 * s[0] + g;
            w -= 0.05 * s[0];
          });
  compare(optim::Sgd<A>({.rate = 0.05, .momentum = 0.9, .nesterov = true}),
          [](int step, double& w, double g, double* s) {
            s[0] = step == 1 ? g : 0.9 * s[0] + g;
            w -= 0.05 * (g + 0.9 * s[0]);
          });
}

TEST(Optimizers, AdamAndAdamW) {
  const auto adam = [](double decay, bool decoupled) {
    return [=](int step, double& w, double g, double* s) {
      if (decoupled)
        w *= 1 - 0.1 * decay;
      else
        g += decay * w;
      s[0] = 0.9 * s[0] + 0.1 * g;
      s[1] = 0.999 * s[1] + 0.001 * g * g;
      const double m = s[0] / (1 - std::pow(0.9, step)), v = s[1] / (1 - std::pow(0.999, step));
      w -= 0.1 * m / (std::sqrt(v) + 1e-8);
    };
  };
  // Decoupled decay comes before the step in the formula and after it in the optimizer; in both the
  // gradient is that of the weight before the step.
  compare(optim::Adam<A>({.rate = 0.1}), adam(0, true));
  compare(optim::Adam<A>({.rate = 0.1, .weight_decay = 0.05}), adam(0.05, true));
  compare(optim::Adam<A>({.rate = 0.1, .weight_decay = 0.05, .decoupled = false}),
          adam(0.05, false));
}

TEST(Optimizers, GoOnFromTheirState) {
  const auto train = [](bool interrupted) {
    Point p;
    optim::Adam<A> adam({.rate = 0.1});
    for (int step = 0; step < 10; ++step) {
      if (interrupted && step == 4) {
        const auto saved = adam.state();
        adam = optim::Adam<A>({.rate = 0.1});
        adam.load_state(saved);
      }
      adam.step(p, p.gradients());
    }
    return p.at.value().to_vector<float>();
  };
  EXPECT_EQ(train(false), train(true));
}

TEST(Optimizers, ClippingByNorm) {
  Point p;
  auto g = p.gradients();  // 2, −2, 3
  EXPECT_NEAR(optim::clip_norm(g, 100), std::sqrt(17.0), 1e-6);
  EXPECT_EQ(g.at("at").to_vector<float>(), (std::vector<float>{2, -2, 3}));
  optim::clip_norm(g, 1);
  EXPECT_NEAR(optim::norm(g), 1, 1e-6);
}

TEST(Optimizers, AccumulationIsTheSum) {
  Point p;
  auto total = p.gradients();
  optim::accumulate(total, p.gradients());
  optim::scale(total, 0.5);
  EXPECT_EQ(total.at("at").to_vector<float>(), p.gradients().at("at").to_vector<float>());
}

TEST(Schedules, Values) {
  EXPECT_EQ(optim::warm_up(0, 4), 0.25);
  EXPECT_EQ(optim::warm_up(3, 4), 1);
  EXPECT_EQ(optim::warm_up(100, 4), 1);
  EXPECT_EQ(optim::cosine(0, 11), 1);
  EXPECT_NEAR(optim::cosine(5, 11), 0.5, 1e-15);
  EXPECT_NEAR(optim::cosine(10, 11), 0, 1e-15);
  EXPECT_NEAR(optim::cosine(10, 11, 0.1), 0.1, 1e-15);
  EXPECT_EQ(optim::cosine(50, 11, 0.1), optim::cosine(10, 11, 0.1));
  EXPECT_EQ(optim::steps_down(9, 10), 1);
  EXPECT_NEAR(optim::steps_down(25, 10), 0.01, 1e-15);
}

}  // namespace

}  // namespace planck::test
