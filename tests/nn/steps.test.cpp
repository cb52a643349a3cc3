// Steps over all parameters at once: the bits of the formulas written with tensors, for any number
// of threads and any layout; master weights; clipping within a step; loss scaling; averages.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using T = Tensor<Cpu>;
using Gradients = optim::ModelGradients<Cpu>;

const Shape kShapes[] = {{3}, {70'001}, {257, 300}, {1}, {0, 4}};

struct Many {
  std::vector<nn::Parameter<A>> all;
  Many(Dtype dtype, const Stream& stream) {
    Rng rng{.seed = 1};
    for (const Shape& shape : kShapes)
      all.emplace_back(normal<Cpu>(rng, shape, 0, 1, dtype, stream));
  }
  void visit(auto&& part) { part("all", all); }
};
// Of the matrix it is a transposed view, as those of linear layers are.
Gradients gradients(Dtype dtype, const Stream& stream, int step) {
  Rng rng{.seed = 2, .offset = static_cast<std::uint64_t>(step) << 32};
  Gradients g;
  int i = 0;
  for (const Shape& shape : kShapes) {
    const std::string path = "all." + std::to_string(i++);
    if (shape.rank() == 2)
      g.emplace(path, transpose(normal<Cpu>(rng, {shape[1], shape[0]}, 0, 1, dtype, stream)));
    else
      g.emplace(path, normal<Cpu>(rng, shape, 0, 1, dtype, stream));
  }
  return g;
}

// formula(w, g, state, step): the weight after a step, with operations on tensors.
template <class Optimizer, class F>
void expect_formula(const std::string& what, const Optimizer& made, const F& formula) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64})
    for (const int threads : {1, 3}) {
      const Stream stream = Stream::cpu(threads);
      Many model(dtype, stream);
      Optimizer optimizer = made;
      std::vector<T> w;
      for (auto& p : model.all) w.push_back(p.value() * 1);
      std::vector<std::vector<T>> state(w.size());
      for (int step = 1; step <= 3; ++step) {
        const auto g = gradients(dtype, stream, step);
        optimizer.step(model, g);
        for (std::size_t i = 0; i < w.size(); ++i) {
          if (state[i].empty()) state[i].assign(3, zeros_like(w[i]));
          w[i] = formula(w[i], g.at("all." + std::to_string(i)), state[i], step);
          ASSERT_EQ(nn::to_entry(model.all[i].value()), nn::to_entry(w[i]))
              << what << " of " << name(dtype) << ", threads " << threads << ", step " << step
              << ", tensor " << i;
        }
      }
    }
}

TEST(Steps, HaveTheBitsOfTheirFormulas) {
  using State = std::vector<T>;
  expect_formula("sgd", optim::Sgd<A>({.rate = 0.05}),
                 [](const T& w, const T& g, State&, int) { return w - g * 0.05; });
  const auto momentum = [](bool nesterov) {
    return [=](const T& w, const T& given, State& s, int step) {
      const auto g = given + w * 0.1;
      s[0] = step == 1 ? g : s[0] * 0.9 + g;
      return w - (nesterov ? g + s[0] * 0.9 : s[0]) * 0.05;
    };
  };
  optim::SgdOptions sgd{.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1};
  expect_formula("momentum", optim::Sgd<A>(sgd), momentum(false));
  sgd.nesterov = true;
  expect_formula("nesterov", optim::Sgd<A>(sgd), momentum(true));
  const auto adam = [](double decay, bool decoupled) {
    return [=](const T& w, const T& given, State& s, int step) {
      double p1 = 1, p2 = 1;
      for (int i = 0; i < step; ++i) p1 *= 0.9, p2 *= 0.999;
      const auto g = decay != 0 && !decoupled ? given + w * decay : given;
      s[0] = s[0] * 0.9 + g * (1 - 0.9);
      s[1] = s[1] * 0.999 + square(g) * (1 - 0.999);
      const auto off = (s[0] * (0.01 / (1 - p1))) / (sqrt(s[1]) * (1 / std::sqrt(1 - p2)) + 1e-8);
      return (decay != 0 && decoupled ? w * (1 - 0.01 * decay) : w) - off;
    };
  };
  expect_formula("adam", optim::Adam<A>({.rate = 0.01}), adam(0, true));
  expect_formula("adamw", optim::Adam<A>({.rate = 0.01, .weight_decay = 0.1}), adam(0.1, true));
  expect_formula("adam decay",
                 optim::Adam<A>({.rate = 0.01, .weight_decay = 0.1, .decoupled = false}),
                 adam(0.1, false));
  expect_formula("adagrad", optim::Adagrad<A>({.rate = 0.1, .rate_decay = 0.5}),
                 [](const T& w, const T& g, State& s, int step) {
                   s[0] = s[0] + square(g);
                   return w - (g * (0.1 / (1 + (step - 1) * 0.5))) / (sqrt(s[0]) + 1e-10);
                 });
  expect_formula("rmsprop", optim::RmsProp<A>({.rate = 0.01, .alpha = 0.9}),
                 [](const T& w, const T& g, State& s, int) {
                   s[0] = s[0] * 0.9 + square(g) * (1 - 0.9);
                   return w - g / (sqrt(s[0]) + 1e-8) * 0.01;
                 });
  expect_formula(
      "rmsprop, all of it",
      optim::RmsProp<A>(
          {.rate = 0.01, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.5, .centered = true}),
      [](const T& w, const T& given, State& s, int) {
        const auto g = given + w * 0.1;
        s[0] = s[0] * 0.9 + square(g) * (1 - 0.9);
        s[2] = s[2] * 0.9 + g * (1 - 0.9);
        s[1] = s[1] * 0.5 + g / (sqrt(s[0] - square(s[2])) + 1e-8);
        return w - s[1] * 0.01;
      });
  expect_formula("lion", optim::Lion<A>({.rate = 0.01, .weight_decay = 0.1}),
                 [](const T& w, const T& g, State& s, int) {
                   const auto x = s[0] * 0.9 + g * (1 - 0.9);
                   s[0] = s[0] * 0.99 + g * (1 - 0.99);
                   return w * (1 - 0.01 * 0.1) - sign(x) * 0.01;
                 });
}

// A tensor of 16-bit weights trains as one of f32 with the same gradients does, and is it, rounded.
TEST(Steps, MasterWeightsAreWhatIsTrained) {
  const Stream stream = Stream::cpu(2);
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Many narrow(dtype, stream), wide(Dtype::f32, stream);
    for (std::size_t i = 0; i < wide.all.size(); ++i)
      wide.all[i].set(to_float(narrow.all[i].value(), Dtype::f32));
    optim::Adam<A> a({.rate = 1e-4, .weight_decay = 0.1}), b({.rate = 1e-4, .weight_decay = 0.1});
    for (int step = 0; step < 4; ++step) {
      const auto g = gradients(dtype, stream, step);
      Gradients h;
      for (const auto& [path, x] : g) h.emplace(path, to_float(x, Dtype::f32));
      a.step(narrow, g);
      b.step(wide, h);
    }
    const auto kept = a.state();
    for (std::size_t i = 0; i < wide.all.size(); ++i) {
      const std::string path = "all." + std::to_string(i);
      EXPECT_EQ(nn::to_entry(narrow.all[i].value()),
                nn::to_entry(to_float(wide.all[i].value(), dtype)));
      EXPECT_EQ(kept.at("master." + path), nn::to_entry(wide.all[i].value()));
      EXPECT_EQ(kept.at("mean." + path), b.state().at("mean." + path));
    }
    // Steps of a thousandth of a unit add up with a master, and are lost without.
    optim::Sgd<A> with({.rate = 1e-6}), without({.rate = 1e-6});
    without.master_weights = false;
    for (auto* sgd : {&with, &without}) {
      nn::Linear<A> layer(*std::make_unique<Rng>(), {2, 2, false}, dtype);
      layer.weight.set(ones<Cpu>({2, 2}, dtype));
      Gradients g;
      g.emplace("weight", ones<Cpu>({2, 2}, dtype));
      for (int step = 0; step < 8000; ++step) sgd->step(layer, g);
      const float after = to_float(layer.weight.value(), Dtype::f32).to_vector<float>()[0];
      if (sgd == &with)
        EXPECT_NEAR(after, 0.992, 2e-3);
      else
        EXPECT_EQ(after, 1);
    }
  }
}

TEST(Steps, AWeightThatSomebodySetsCounts) {
  nn::Linear<A> layer(*std::make_unique<Rng>(), {2, 1, false}, Dtype::bf16);
  optim::Sgd<A> sgd({.rate = 0.25});
  Gradients g;
  g.emplace("weight", ones<Cpu>({1, 2}, Dtype::bf16));
  sgd.step(layer, g);
  layer.weight.set(to_float(T::from({8.f, 16.f}, {1, 2}), Dtype::bf16));
  sgd.step(layer, g);
  EXPECT_EQ(to_float(layer.weight.value(), Dtype::f32).to_vector<float>(),
            (std::vector<float>{7.75f, 15.75f}));
}

TEST(Steps, ClippingWithinAStepHasTheBitsOfClippingBefore) {
  const Stream stream = Stream::cpu(3);
  for (const double highest : {1.0, 1e9}) {
    Many a(Dtype::f32, stream), b(Dtype::f32, stream);
    optim::Adam<A> one({.rate = 0.01}), other({.rate = 0.01});
    for (int step = 0; step < 3; ++step) {
      auto g = gradients(Dtype::f32, stream, step);
      const auto clip = optim::clip(g, highest);
      one.step(a, g, clip);
      EXPECT_EQ(clip.norm->item<double>(), optim::clip_norm(g, highest));
      other.step(b, g);
      ASSERT_EQ(nn::state(a), nn::state(b));
      ASSERT_EQ(one.state(), other.state());
    }
  }
  Gradients g;
  g.emplace("x", ones<Cpu>({2}));
  EXPECT_EQ(message([&] { (void)optim::clip(g, 0); }),
            "clip: the highest norm is 0, it must be positive");
}

// The norm as it is written with tensors; 16-bit ones in f32.
TEST(Steps, NormsAreCanonicalSums) {
  const auto wanted = [](const Gradients& all) {
    double squares = 0;
    for (const auto& [path, g] : all) {
      const auto x = g.dtype() == Dtype::f64 ? g : to_float(g, Dtype::f32);
      squares += to_float(sum(square(x)), Dtype::f64).item<double>();
    }
    return std::sqrt(squares);
  };
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16})
    for (const int threads : {1, 3}) {
      const auto g = gradients(dtype, Stream::cpu(threads), 5);
      EXPECT_EQ(optim::norm(g), wanted(g)) << name(dtype);
    }
  Gradients infinite;
  infinite.emplace("x", T::from({1.f, std::numeric_limits<float>::infinity()}, {2}));
  EXPECT_TRUE(std::isinf(optim::norm(infinite)));
  EXPECT_EQ(optim::norm(Gradients{}), 0);
}

TEST(Steps, GoOnFromTheirStateInEveryDtype) {
  const auto run = [](auto optimizer, Dtype dtype, bool interrupted) {
    const Stream stream = Stream::cpu(2);
    const auto made = optimizer;
    Many model(dtype, stream);
    for (int step = 0; step < 4; ++step) {
      if (interrupted && step == 2) {
        const auto saved = optimizer.state();
        optimizer = made;
        optimizer.load_state(saved);
      }
      auto g = gradients(dtype, stream, step);
      if constexpr (requires { optimizer.options.iterations; })
        g = optim::take(g, [](const std::string& path) { return path == "all.2"; });
      optimizer.step(model, g);
    }
    return nn::state(model);
  };
  const auto compare = [&](const auto& optimizer) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16})
      EXPECT_EQ(run(optimizer, dtype, false), run(optimizer, dtype, true)) << name(dtype);
  };
  compare(optim::Sgd<A>({.rate = 0.1}));
  compare(optim::Sgd<A>({.rate = 0.1, .momentum = 0.9}));
  compare(optim::Lion<A>({.rate = 0.1}));
  compare(optim::Lamb<A>({.rate = 0.1}));
  compare(optim::Muon<A>({.rate = 0.1}));
}

TEST(Steps, WhatDoesNotFitIsRefused) {
  const Stream stream = Stream::cpu(1);
  Many narrow(Dtype::bf16, stream), wide(Dtype::f32, stream);
  optim::Adam<A> adam({.rate = 0.1}), other({.rate = 0.1});
  adam.step(narrow, gradients(Dtype::bf16, stream, 0));
  other.load_state(adam.state());
  EXPECT_EQ(message([&] { other.step(wide, gradients(Dtype::f32, stream, 0)); }),
            "adam: the state has master weights of all.0, which is f32");
  optim::Adam<A> third({.rate = 0.1});
  other = third;
  third.step(wide, gradients(Dtype::f32, stream, 0));
  other.load_state(third.state());
  EXPECT_EQ(message([&] { other.step(narrow, gradients(Dtype::bf16, stream, 0)); }),
            "adam: the mean of all.0 is f32, the parameter bf16; it must be bf16");
  optim::Sgd<A> sgd({});
  EXPECT_EQ(message([&] { sgd.step(wide, gradients(Dtype::f64, stream, 0)); }),
            "sgd: the gradient of all.0 is f64, the parameter f32");
  optim::Muon<A> muon({});
  EXPECT_EQ(message([&] { muon.step(wide, gradients(Dtype::f32, stream, 0)); }),
            "muon: all.0 has shape [3], matrices alone can be made orthogonal; give it to another "
            "optimizer (optim::take)");
}

// A copy of an optimizer and a model shares tensors until it steps.
TEST(Steps, CopiesGoTheirOwnWay) {
  const Stream stream = Stream::cpu(2);
  Many model(Dtype::f32, stream);
  optim::Adam<A> adam({.rate = 0.1});
  adam.step(model, gradients(Dtype::f32, stream, 0));
  const auto weights = nn::state(model), kept = adam.state();
  Many copy = model;
  optim::Adam<A> second = adam;
  second.step(copy, gradients(Dtype::f32, stream, 1));
  EXPECT_EQ(nn::state(model), weights);
  EXPECT_EQ(adam.state(), kept);
  adam.step(model, gradients(Dtype::f32, stream, 1));
  EXPECT_EQ(nn::state(model), nn::state(copy));
}

// Every optimizer in every dtype, with clipping; norms; averages.
template <class D>
nn::StateDict trained_on() {
  using B = nn::Inner<D>;
  nn::StateDict all;
  const auto train = [&](const std::string& what, auto made, double highest) {
    for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16}) {
      Rng rng{.seed = 1};
      nn::Linear<D> layer(rng, {301, 257}, dtype), small(rng, {3, 2, false}, dtype);
      nn::Sequential both(layer, small);
      optim::Ema<D> average(0.5);
      auto optimizer = made;
      for (int step = 0; step < 3; ++step) {
        optim::ModelGradients<B> g;
        g.emplace("0.weight", transpose(normal<B>(rng, {301, 257}, 0, 1, dtype)));
        g.emplace("1.weight", normal<B>(rng, {2, 3}, 0, step == 0 ? 1e-30 : 1, dtype));
        if (what != "muon") g.emplace("0.bias", normal<B>(rng, {257}, 0, 1, dtype));
        const auto clip = optim::clip(g, highest);
        optimizer.step(both, g, clip);
        average.update(both);
        all[what + " norm " + std::string(name(dtype)) + std::to_string(step)] =
            nn::to_entry(*clip.norm);
      }
      const std::string at = what + " " + std::string(name(dtype)) + " ";
      all.merge(nn::with_prefix(at, nn::state(both)));
      all.merge(nn::with_prefix(at + "kept ", optimizer.state()));
      all.merge(nn::with_prefix(at + "average ", average.state()));
    }
  };
  train("sgd", optim::Sgd<D>({.rate = 0.1, .momentum = 0.9, .weight_decay = 0.1}), 1e9);
  train("adam", optim::Adam<D>({.rate = 0.1, .weight_decay = 0.1}), 1);
  train("adagrad", optim::Adagrad<D>({.rate = 0.1, .first = 0.5}), 1);
  train("rmsprop", optim::RmsProp<D>({.momentum = 0.5, .centered = true}), 1e9);
  train("lion", optim::Lion<D>({.rate = 0.1, .weight_decay = 0.1}), 1);
  train("lamb", optim::Lamb<D>({.rate = 0.1}), 1);
  train("muon", optim::Muon<D>({.rate = 0.1}), 1);
  return all;
}
TEST(Steps, OnCudaAsOnTheCpu) {
  const auto gpu = Stream::on({DeviceKind::cuda, 0});
  if (!gpu) GTEST_SKIP() << "no CUDA device";
  const auto wanted = trained_on<Autodiff<Cpu>>();
  const auto found = with_backend_of(
      *gpu, []<class B>(std::type_identity<B>) { return trained_on<Autodiff<B>>(); });
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [path, entry] : wanted) EXPECT_EQ(found.at(path), entry) << path;
}

TEST(LossScale, SkipsAndAdapts) {
  nn::Linear<A> layer(*std::make_unique<Rng>(), {2, 2, false}, Dtype::f16);
  layer.weight.set(ones<Cpu>({2, 2}, Dtype::f16));
  optim::Sgd<A> sgd({.rate = 0.5});
  optim::LossScale scale({.first = 65536, .interval = 3});
  const auto x = nn::constant<A>(full<Cpu>({1, 2}, 0.25, Dtype::f16));
  const auto step = [&](double size) {
    const auto loss = sum(to_float(layer(x), Dtype::f32)) * size;
    return scale.step(sgd, layer, optim::collect<A>(layer, scale(loss).backward()));
  };
  const auto before = nn::state(layer);
  EXPECT_FALSE(step(8)) << "0.25 * 8 * 65536 is beyond f16";
  EXPECT_FALSE(step(8));
  EXPECT_EQ(nn::state(layer), before);
  EXPECT_EQ(scale.value(), 16384);
  EXPECT_EQ(scale.skipped(), 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(step(1e-7));  // vanishes unless it is scaled
  EXPECT_EQ(scale.value(), 32768);
  const auto master = nn::to_tensor<Cpu, FloatKind>(sgd.state().at("master.weight"), Stream::cpu());
  EXPECT_NEAR(1 - master.to_vector<float>()[0], 3 * 0.5 * 0.25e-7, 6e-8);
  optim::LossScale again({.interval = 3});
  again.load_state(scale.state());
  EXPECT_EQ(again.value(), scale.value());
  EXPECT_EQ(again.state(), scale.state());
}

TEST(Ema, IsTheMovingAverage) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16}) {
    const Stream stream = Stream::cpu(3);
    Many model(dtype, stream);
    optim::Ema<A> average(0.9);
    average.update(model);
    std::vector<T> wanted;
    for (auto& p : model.all) wanted.push_back(nn::widened(p.value()));
    for (int step = 0; step < 3; ++step) {
      for (auto& p : model.all) p.set(p.value() * -0.5);
      average.update(model);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        wanted[i] = wanted[i] * 0.9 + nn::widened(model.all[i].value()) * (1 - 0.9);
      if (step == 1) {
        optim::Ema<A> resumed(0.9);
        resumed.load_state(average.state());
        average = resumed;
      }
    }
    const auto state = average.state();
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(state.at("all." + std::to_string(i)), nn::to_entry(wanted[i])) << name(dtype);
    Many evaluated(dtype, stream);
    nn::load_state(evaluated, state, {.cast = true});
  }
}

}  // namespace

}  // namespace planck::test
