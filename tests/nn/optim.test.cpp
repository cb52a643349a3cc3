// Optimizers against their formulas in f64, clipping, accumulation, schedules, and resuming.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

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

template <class Optimizer>
void expect_to_go_on(const Optimizer& made) {
  const auto train = [&](bool interrupted) {
    Point p;
    Optimizer optimizer = made;
    for (int step = 0; step < 10; ++step) {
      if (interrupted && step == 4) {
        const auto saved = optimizer.state();
        optimizer = made;
        optimizer.load_state(saved);
      }
      optimizer.step(p, p.gradients());
    }
    return p.at.value().to_vector<float>();
  };
  EXPECT_EQ(train(false), train(true));
}
TEST(Optimizers, GoOnFromTheirState) {
  expect_to_go_on(optim::Sgd<A>({.rate = 0.05, .momentum = 0.9}));
  expect_to_go_on(optim::Adam<A>({.rate = 0.1}));
  expect_to_go_on(optim::Adagrad<A>({.rate = 0.1, .rate_decay = 0.1}));
  expect_to_go_on(optim::RmsProp<A>({.rate = 0.01, .momentum = 0.9, .centered = true}));
}

// A state of before, with one step for all parameters.
TEST(Optimizers, AdamReadsStatesWithOneStepForAll) {
  Point p, q;
  optim::Adam<A> adam({.rate = 0.1}), other({.rate = 0.1});
  for (int step = 0; step < 3; ++step) adam.step(p, p.gradients());
  auto state = adam.state();
  state["powers"] = state.at("powers.at");
  state.erase("powers.at");
  other.load_state(state);
  EXPECT_EQ(other.state(), adam.state());
}

struct Late {
  nn::Parameter<A> first{Tensor<Cpu>::from({1.f}, {1})}, late{Tensor<Cpu>::from({1.f}, {1})};
  void visit(auto&& part) {
    part("first", first);
    part("late", late);
  }
};

// The first step of Adam is the rate, whenever it is.
TEST(Optimizers, AdamCorrectsTheBiasOfEachParameter) {
  Late net;
  optim::Adam<A> adam({.rate = 0.1});
  nn::requires_grad(net, false, "late");
  const auto step = [&] {
    const auto loss = sum(*net.first) * 3 + sum(*net.late) * 3;
    adam.step(net, optim::collect<A>(net, loss.backward()));
  };
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(net.late.value().item<float>(), 1);
  nn::requires_grad(net, true, "late");
  step();
  EXPECT_NEAR(net.late.value().item<float>(), 0.9, 1e-6);
}

TEST(Optimizers, GroupsHaveOptionsOfTheirOwn) {
  Late net;
  optim::Sgd<A> sgd({.rate = 0.5});
  sgd.groups.push_back({optim::ending_with("late"), {.rate = 0.25}});
  sgd.groups.push_back({optim::ending_with("late"), {.rate = 100}});  // the first one has it
  sgd.rate_factor = 0.5;
  optim::ModelGradients<Cpu> g;
  g.emplace("first", ones<Cpu>({1}));
  g.emplace("late", ones<Cpu>({1}));
  sgd.step(net, g);
  EXPECT_EQ(net.first.value().item<float>(), 0.75f);
  EXPECT_EQ(net.late.value().item<float>(), 0.875f);
  EXPECT_TRUE(optim::below("a.b")("a.b.weight"));
  EXPECT_FALSE(optim::below("a.b")("a.bias"));
}

TEST(Optimizers, StatesThatDoNotFitAreRefused) {
  Point p;
  optim::Adam<A> adam({.rate = 0.1});
  adam.step(p, p.gradients());
  const auto good = adam.state();
  const auto refused = [&](const auto& spoil) {
    auto state = good;
    spoil(state);
    optim::Adam<A> other({.rate = 0.1});
    return message([&] {
      other.load_state(state);
      other.step(p, p.gradients());
    });
  };
  const auto none = [](auto&) {};
  EXPECT_EQ(refused(none), "nothing was thrown");
  EXPECT_EQ(refused([](auto& s) { s.erase("square.at"); }),
            "adam: the state of at lacks square.at");
  EXPECT_EQ(refused([](auto& s) { s.erase("mean.at"); }), "adam: the state of at lacks mean.at");
  EXPECT_EQ(refused([](auto& s) { s.erase("powers.at"); }),
            "adam: the state of at lacks powers.at");
  EXPECT_EQ(refused([](auto& s) { s["velocity.at"] = s["mean.at"]; }),
            "adam: the state has velocity.at, which is none of its slots");
  EXPECT_EQ(refused([](auto& s) {
              for (const char* slot : {"mean.", "square.", "powers."})
                s[slot + std::string("gone")] = s[slot + std::string("at")];
            }),
            "adam: the state that was loaded is of gone, the model has no such parameter");
  EXPECT_EQ(refused([](auto& s) {
              for (const char* slot : {"mean.at", "square.at"})
                s[slot] = nn::to_entry(zeros<Cpu>({2}));
            }),
            "adam: the mean of at has shape [2], the parameter [3]");
  optim::Sgd<A> sgd({});
  EXPECT_EQ(message([&] { sgd.load_state(good); }),
            "sgd: the state has mean.at, which is none of its slots");
  optim::ModelGradients<Cpu> wrong;
  wrong.emplace("at", ones<Cpu>({1}));
  EXPECT_EQ(message([&] { sgd.step(p, wrong); }),
            "sgd: the gradient of at has shape [1], the parameter [3]");
}

TEST(Optimizers, ClippingByNorm) {
  Point p;
  auto g = p.gradients();  // 2, −2, 3
  EXPECT_NEAR(optim::clip_norm(g, 100), std::sqrt(17.0), 1e-6);
  EXPECT_EQ(g.at("at").to_vector<float>(), (std::vector<float>{2, -2, 3}));
  optim::clip_norm(g, 1);
  EXPECT_NEAR(optim::norm(g), 1, 1e-6);
}

TEST(Optimizers, ClippingOfLargeAndSmallNumbers) {
  const auto clipped = [](const Tensor<Cpu>& g, double highest) {
    optim::ModelGradients<Cpu> all;
    all.emplace("g", g);
    const double norm = optim::clip_norm(all, highest);
    return std::pair{norm, to_float(all.at("g"), Dtype::f64).to_vector<double>()};
  };
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    const auto [norm, g] = clipped(to_float(Tensor<Cpu>::from({300.f, 400.f}, {2}), dtype), 1);
    EXPECT_EQ(norm, 500);
    EXPECT_NEAR(g[0], 0.6, 4e-3);
    EXPECT_NEAR(g[1], 0.8, 4e-3);
    EXPECT_NEAR(clipped(full<Cpu>({1'000'000}, 1e-4, dtype), 1).first, 0.1, 5e-4);
  }
  EXPECT_NEAR(clipped(Tensor<Cpu>::from({3e25f, 4e25f}, {2}), 1).first, 5e25, 1e19);
  EXPECT_NEAR(clipped(Tensor<Cpu>::from({3e-30f, 4e-30f}, {2}), 1).first, 5e-30, 1e-36);
  EXPECT_EQ(clipped(zeros<Cpu>({2}), 1).first, 0);
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

// A rise as long as one step, or as all of them: there is nothing to divide by.
TEST(Schedules, OneCycleWithATopAtAnEnd) {
  for (const auto& [rising, steps] : {std::pair(0.1, 10), {0.5, 2}, {0.25, 4}}) {
    EXPECT_EQ(optim::one_cycle(0, steps, {.rising = rising}), 1) << steps;
    EXPECT_NEAR(optim::one_cycle(steps - 1, steps, {.rising = rising}), 4e-6, 1e-15) << steps;
  }
  EXPECT_NEAR(optim::one_cycle(0, 5, {.rising = 1}), 0.04, 1e-15);
  EXPECT_EQ(optim::one_cycle(4, 5, {.rising = 1}), 1);
  EXPECT_EQ(optim::one_cycle(2, 10), 1) << "0.3 of ten steps end at the third";
}

}  // namespace

}  // namespace planck::test
