// Losses, modules, optimizers and schedules against what PyTorch computed in f64 (fixtures.py): in
// f64 to rounding; in narrower floats within bounds of their arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parity/fixtures.h"

namespace planck::test {

namespace {

constexpr std::pair<const char*, nn::Reduction> kReductions[] = {
    {"none", nn::Reduction::none}, {"mean", nn::Reduction::mean}, {"sum", nn::Reduction::sum}};

// The loss and its gradient on a backend over Cpu, once or twice differentiable, in f64 and f32.
template <class X>
void compare_cross_entropy(const std::string& name, const std::string& x, const std::string& t,
                           const std::string& w, nn::CrossEntropyOptions<X> options) {
  for (const Dtype dtype : {Dtype::f64, Dtype::f32}) {
    const auto as = [&](const std::string& of) {
      return Tensor<X>::from(std::span<const double>(numbers(floats(of))), floats(of).shape());
    };
    const auto logits = to_float(as(x), dtype).detach().require_grad();
    if (!w.empty()) options.weight = to_float(as(w), dtype);
    const Tensor<X, IntKind> targets(integers(t).primitive());
    const auto loss = nn::cross_entropy_loss(logits, targets, options);
    const auto gradient = logits.grad(sum(loss).backward());
    const auto value = [](auto tensor) {
      if constexpr (AutodiffBackend<typename decltype(tensor)::Backend>)
        return nn::plain(tensor);
      else
        return tensor;
    };
    const double bound = dtype == Dtype::f64 ? kF64 : 1e-6;
    expect_near(value(value(loss)), floats("cross_entropy/" + name + "/loss"), bound, name);
    expect_near(value(*gradient), floats("cross_entropy/" + name + "/gradient"), bound,
                name + ", gradient");
  }
}
template <class X>
void compare_all_cross_entropies() {
  for (const std::string targets : {"ignored", "whole"})
    for (const std::string weight : {"plain", "weighted"})
      for (const auto& [smoothing, text] : {std::pair{0.0, "0"}, std::pair{0.1, "0.1"}})
        for (const auto& [reduction, value] : kReductions)
          compare_cross_entropy<X>(targets + " " + weight + " " + text + " " + reduction, "x",
                                   targets == "whole" ? "whole" : "targets",
                                   weight == "plain" ? "" : "weight",
                                   {.label_smoothing = smoothing, .reduction = value});
  compare_cross_entropy<X>("index 2", "x", "whole", "weight",
                           {.ignore_index = 2, .label_smoothing = 0.25});
  compare_cross_entropy<X>("wide mean", "wide", "wide_targets", "wide_weight",
                           {.label_smoothing = 0.1});
  compare_cross_entropy<X>("wide none", "wide", "wide_targets", "wide_weight",
                           {.label_smoothing = 0.1, .reduction = nn::Reduction::none});
}

TEST(Parity, CrossEntropyOfEveryKind) { compare_all_cross_entropies<A>(); }
TEST(Parity, CrossEntropyOfEveryKindTwiceDifferentiable) {
  compare_all_cross_entropies<Autodiff<A>>();
}
TEST(Parity, CrossEntropyOfNothingIsNotANumber) {
  const auto x = nn::constant<A>(floats("x")).require_grad();
  const auto targets = full_like(integers("whole"), -100);
  const auto loss = nn::cross_entropy_loss(x, nn::constant<A>(targets));
  EXPECT_TRUE(std::isnan(loss.inner().item<double>()));
  expect_near(*x.grad(loss.backward()), floats("cross_entropy/nothing left/gradient"), 0,
              "gradient");
}

TEST(Parity, OtherLosses) {
  for (const auto& [text, reduction] : kReductions) {
    const auto compare = [&, text = text](const std::string& name, const std::string& target,
                                          const auto& f) {
      const auto y = nn::constant<A>(floats("y")).require_grad();
      const auto loss = f(y, nn::constant<A>(floats(target)));
      const std::string at = name + " " + text;
      expect_near(loss.inner(), floats(at + "/loss"), kF64, at);
      expect_near(*y.grad(sum(loss).backward()), floats(at + "/gradient"), kF64, at + ", gradient");
    };
    const auto r = reduction;
    compare("mse", "target", [=](auto& y, auto t) { return nn::mse_loss(y, t, r); });
    compare("l1", "target", [=](auto& y, auto t) { return nn::l1_loss(y, t, r); });
    compare("bce_with_logits", "chance",
            [=](auto& y, auto t) { return nn::bce_with_logits_loss(y, t, r); });
  }
}

// In every dtype, from the same numbers, rounded.
TEST(Parity, LossesOfEveryDtype) {
  for (const auto& [dtype, bound] : {std::pair{Dtype::f64, kF64}, std::pair{Dtype::f32, 1e-6},
                                     std::pair{Dtype::f16, 2e-3}, std::pair{Dtype::bf16, 1.6e-2}}) {
    const auto as = [&, dtype = dtype](const std::string& of) {
      return nn::constant<A>(to_float(floats(of), dtype));
    };
    const std::string what(name(dtype));
    const auto x = as("x").require_grad(), y = as("y").require_grad();
    const auto loss = nn::cross_entropy_loss(x, nn::constant<A>(integers("targets")),
                                             {.weight = as("weight"), .label_smoothing = 0.1});
    EXPECT_EQ(loss.dtype(), dtype);
    const std::string at = "cross_entropy/ignored weighted 0.1 mean";
    expect_near(loss.inner(), floats(at + "/loss"), bound, what);
    expect_near(*x.grad(loss.backward()), floats(at + "/gradient"), bound, what);
    const auto plain = nn::cross_entropy_loss(x, nn::constant<A>(integers("targets")));
    expect_near(plain.inner(), floats("cross_entropy/ignored plain 0 mean/loss"), bound, what);
    expect_near(*x.grad(plain.backward()), floats("cross_entropy/ignored plain 0 mean/gradient"),
                bound, what);
    const auto mse = nn::mse_loss(y, as("target"));
    expect_near(mse.inner(), floats("mse mean/loss"), bound, what);
    expect_near(*y.grad(mse.backward()), floats("mse mean/gradient"), bound, what);
    const auto bce = nn::bce_with_logits_loss(y, as("chance"));
    expect_near(bce.inner(), floats("bce_with_logits mean/loss"), bound, what);
    expect_near(*y.grad(bce.backward()), floats("bce_with_logits mean/gradient"), bound, what);
  }
}

struct Weight {
  explicit Weight(Dtype dtype = Dtype::f64, bool transposed = false)
      : w(to_float(transposed ? transpose(floats("w")) : floats("w"), dtype)) {}
  nn::Parameter<A> w;
  void visit(auto&& part) { part("w", w); }
};

// With f64 parameters; then with f32 and 16-bit ones, where bounds are a few units of the largest
// weight for each step: gradients, which 12 bits hold, are rounded to bf16 too.
template <class Optimizer>
void compare_path(const std::string& name, const Optimizer& made, bool transposed = false,
                  double narrow_bound = 1) {
  const auto path = floats("path of " + name);
  const auto gradients = transposed ? transpose(floats("gradients")) : floats("gradients");
  for (const auto& [dtype, bound] : {std::pair{Dtype::f64, kF64}, std::pair{Dtype::f32, 1e-5},
                                     std::pair{Dtype::f16, 4e-3}, std::pair{Dtype::bf16, 3e-2}}) {
    Optimizer optimizer = made;
    Weight model(dtype, transposed);
    for (std::int64_t i = 0; i < gradients.extent(0); ++i) {
      optim::ModelGradients<Cpu> g;
      g.emplace("w", to_float(select(gradients, 0, i), dtype));
      optimizer.step(model, g);
      EXPECT_EQ(model.w->dtype(), dtype);
      expect_near(
          model.w.value(), select(path, 0, i), bits(dtype) == 16 ? bound * narrow_bound : bound,
          name + " of " + std::string(planck::name(dtype)) + ", step " + std::to_string(i + 1));
    }
  }
}

TEST(Parity, Optimizers) {
  compare_path("sgd", optim::Sgd<A>({.rate = 0.05}));
  compare_path("sgd momentum", optim::Sgd<A>({.rate = 0.05, .momentum = 0.9, .weight_decay = 0.1}));
  compare_path("sgd nesterov", optim::Sgd<A>({.rate = 0.05, .momentum = 0.9, .nesterov = true}));
  compare_path("adam", optim::Adam<A>({.rate = 0.1}));
  compare_path("adam decay",
               optim::Adam<A>({.rate = 0.1, .weight_decay = 0.05, .decoupled = false}));
  compare_path("adamw", optim::Adam<A>({.rate = 0.1, .weight_decay = 0.05}));
  compare_path("adagrad", optim::Adagrad<A>({.rate = 0.1}));
  compare_path(
      "adagrad decay",
      optim::Adagrad<A>({.rate = 0.1, .rate_decay = 0.1, .weight_decay = 0.05, .first = 0.5}));
  compare_path("rmsprop", optim::RmsProp<A>({.rate = 0.01}));
  compare_path(
      "rmsprop momentum",
      optim::RmsProp<A>({.rate = 0.01, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.9}));
  compare_path("rmsprop centered",
               optim::RmsProp<A>({.rate = 0.01, .alpha = 0.9, .centered = true}));
  compare_path("lion", optim::Lion<A>({.rate = 0.01}));
  compare_path("lion decay",
               optim::Lion<A>({.rate = 0.01, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.1}));
  compare_path("lamb", optim::Lamb<A>({.rate = 0.05}));
  compare_path("lamb plain",
               optim::Lamb<A>({.rate = 0.05, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0}));
  compare_path("muon", optim::Muon<A>({.rate = 0.02}));
  compare_path(
      "muon tall",
      optim::Muon<A>({.rate = 0.02, .momentum = 0.9, .weight_decay = 0, .nesterov = false}), true);
  compare_path("muon as adam", optim::Muon<A>({.rate = 0.02, .rate_of_adam = true}), true);
}

TEST(Parity, Schedules) {
  const auto compare = [](const std::string& name, const auto& rate) {
    const Numbers wanted = numbers(floats("rates of " + name));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(rate(static_cast<std::int64_t>(i)), wanted[i], 1e-14) << name << " at " << i;
  };
  compare("linear", [](auto step) { return optim::linear(step, 8, 0.25); });
  compare("exponential", [](auto step) { return optim::exponential(step, 0.9); });
  compare("polynomial", [](auto step) { return optim::polynomial(step, 9, 2); });
  compare("one_cycle", [](auto step) { return optim::one_cycle(step, 13); });
  compare("sequential", [](auto step) {
    return optim::sequential(step, {{[](auto s) { return optim::linear(s, 4, 0.1); }, 4},
                                    {[](auto s) { return optim::exponential(s, 0.8); }, 0}});
  });
  const Numbers losses = numbers(floats("losses"));
  optim::Plateau plateau({.factor = 0.5, .patience = 1, .cooldown = 1});
  compare("plateau", [&](auto step) {
    optim::Plateau resumed;
    resumed.options = plateau.options;
    resumed.load_state(plateau.state());
    plateau = resumed;
    return plateau.observe(losses[static_cast<std::size_t>(step)]);
  });
}

struct Pair {
  nn::Parameter<A> a{floats("w")}, b{floats("w")};
  void visit(auto&& part) {
    part("a", a);
    part("b", b);
  }
};

TEST(Parity, GroupsAndAParameterThatIsThawed) {
  Pair model;
  optim::Adam<A> adam({.rate = 0.1, .weight_decay = 0.05});
  adam.groups.push_back({[](const std::string& path) { return path == "b"; }, {.rate = 0.02}});
  const auto gradients = floats("gradients"), path = floats("path of groups");
  nn::requires_grad(model, false, "b");
  for (std::int64_t i = 0; i < gradients.extent(0); ++i) {
    if (i == 3) nn::requires_grad(model, true, "b");
    const auto g = nn::constant<A>(select(gradients, 0, i));
    const auto loss = sum(*model.a * g) + sum(*model.b * g);
    adam.step(model, optim::collect<A>(model, loss.backward()));
    expect_near(stack(std::vector{model.a.value(), model.b.value()}, 0), select(path, 0, i), kF64,
                "step " + std::to_string(i + 1));
  }
}

template <class Optimizer>
void compare_rows(const std::string& name, Optimizer optimizer) {
  Rng rng;
  nn::Embedding<A> table(rng, 7, 3, Cpu::default_device(), kNoPaddingIndex, true);
  table.weight = nn::Parameter<A>(floats("table"));
  const auto path = floats("rows of " + name);
  for (std::int64_t i = 0; i < path.extent(0); ++i) {
    const auto indices = nn::constant<A>(select(integers("indices"), 0, i));
    const auto loss = sum(table(indices) * nn::constant<A>(select(floats("douts"), 0, i)));
    const auto gradients = optim::collect<A>(table, loss.backward());
    EXPECT_TRUE(gradients.empty());
    EXPECT_EQ(gradients.rows.size(), 1u);
    optimizer.step(table, gradients);
    // SparseAdam adds ε before it corrects the bias.
    expect_near(table.weight.value(), select(path, 0, i), name == "lazy adam" ? 1e-6 : kF64,
                name + ", step " + std::to_string(i + 1));
  }
}

TEST(Parity, RowsOfTables) {
  compare_rows("sgd", optim::Sgd<A>({.rate = 0.1}));
  compare_rows("adagrad", optim::Adagrad<A>({.rate = 0.1}));
  compare_rows("lazy adam", optim::Adam<A>({.rate = 0.1, .lazy = true}));
}

// As Net of fixtures.py.
struct Net {
  nn::Conv2d<A> conv;
  nn::BatchNorm<A> norm;
  nn::Dropout drop{0.5, 1};
  nn::MultiHeadAttention<A> attention;
  nn::LayerNorm<A> last;
  nn::Sequential<nn::Linear<A>, nn::Gelu, nn::Linear<A>> head;
  explicit Net(Rng& rng, const nn::Options<A>& at = {})
      : conv(rng, {.in = 2, .out = 6, .shape = {.padding = {1, 1}}}, at),
        norm(6, at),
        attention(rng, {.width = 6, .heads = 2}, at),
        last(Shape{6}, at),
        head(nn::Linear<A>(rng, {6, 5}, at), {}, nn::Linear<A>(rng, {5, 3}, at)) {}
  Tensor<A> operator()(const Tensor<A>& x) {
    auto y = transpose(reshape(norm(conv(x)), {x.extent(0), 6, -1}));
    y = y + attention(drop(y), y, std::nullopt);
    return head(mean(last(y), 1));
  }
  void visit(auto&& part) {
    part("conv", conv);
    part("norm", norm);
    part("drop", drop);
    part("attention", attention);
    part("last", last);
    part("head", head);
  }
};

// The checkpoint is f32; 16-bit gradients that a norm takes away leave the rounding of others.
void compare_net(Dtype dtype, double kBound, double kGradient) {
  SCOPED_TRACE(name(dtype));
  Rng rng{.seed = 1};
  Net net(rng, dtype);
  const auto loaded =
      nn::load(net, PLANCK_PARITY_FOLDER "/checkpoint.safetensors", {.cast = dtype != Dtype::f32});
  EXPECT_EQ(loaded.missing, std::vector<std::string>{"drop.rng"});
  EXPECT_TRUE(loaded.unused.empty());
  const auto x = nn::constant<A>(to_float(floats("net/x"), dtype));
  nn::eval(net);
  expect_near(net(x).inner(), floats("net/evaluated"), kBound, "evaluated");
  nn::train(net);
  net.drop.probability = 0;
  const auto y = net(x);
  expect_near(y.inner(), floats("net/trained"), kBound, "trained");
  expect_near(net.norm.running_mean.value, floats("net/running_mean"), kBound, "running_mean");
  expect_near(net.norm.running_var.value, floats("net/running_var"), kBound, "running_var");
  const auto labels = Tensor<A, IntKind>::from({0, 2, 1, 1}, {4});
  const auto gradients = optim::collect<A>(net, nn::cross_entropy_loss(y, labels).backward());
  // Gradients of what a norm takes away again are 0 but for rounding.
  const auto theirs = [](const std::string& name) { return floats("net/gradient/" + name); };
  const auto three =
      split(theirs("attention.in_proj_weight"), std::vector<std::int64_t>{6, 6, 6}, 0);
  expect_near(gradients.at("attention.query.weight"), three[0], kGradient, "query");
  expect_near(gradients.at("attention.key.weight"), three[1], kGradient, "key");
  expect_near(gradients.at("attention.value.weight"), three[2], kGradient, "value");
  expect_near(gradients.at("attention.output.weight"), theirs("attention.out_proj.weight"),
              kGradient, "output");
  for (const char* name : {"conv.weight", "norm.weight", "norm.bias", "last.weight", "last.bias",
                           "head.0.weight", "head.0.bias", "head.2.weight", "head.2.bias"})
    expect_near(gradients.at(name), theirs(name), kGradient, name);
}
TEST(Parity, ACheckpointOfPyTorchLoadsAsItIs) { compare_net(Dtype::f32, kF32, kF32); }
TEST(Parity, ModulesOfEveryDtype) {
  compare_net(Dtype::f64, 1e-11, 1e-11);
  compare_net(Dtype::f16, 6e-3, 3e-2);
  compare_net(Dtype::bf16, 5e-2, 2.5e-1);
}

}  // namespace

}  // namespace planck::test
