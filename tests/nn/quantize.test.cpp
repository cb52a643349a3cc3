// Quantized layers: integers give the bits of the rounded model, gradients are those of the papers,
// observers find what they say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

// The layer rounded and as integers, on fresh inputs.
template <class B, class Layer>
void compare(const Layer& layer, const nn::QuantLayerOptions& options,
             const std::vector<Tensor<Cpu>>& inputs) {
  nn::Quantizable<Layer> net(layer);
  nn::prepare_qat(net, options);
  for (const auto& x : inputs) (void)net(nn::constant<B>(x));
  nn::start_quantizing(net);
  nn::eval(net);
  std::vector<float> rounded, integers, floats;
  Layer plain = layer;
  for (const auto& x : inputs)
    for (float v : nn::plain(net(nn::constant<B>(x))).template to_vector<float>())
      rounded.push_back(v);
  nn::convert(net);
  for (const auto& x : inputs) {
    for (float v : nn::plain(net(nn::constant<B>(x))).template to_vector<float>())
      integers.push_back(v);
    for (float v : nn::plain(plain(nn::constant<B>(x))).template to_vector<float>())
      floats.push_back(v);
  }
  EXPECT_EQ(rounded, integers);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    error += std::pow(double(floats[i]) - rounded[i], 2);
    power += std::pow(double(floats[i]), 2);
  }
  const bool narrow = options.weight.scheme.dtype == Dtype::s4;
  EXPECT_LT(error, power * (narrow ? 0.1 : 0.001)) << "far from the float layer";
  EXPECT_GT(error, power * 1e-12) << "nothing was rounded";
}

TEST(QuantizedLayers, IntegersGiveTheBitsOfTheRoundedModel) {
  Rng rng{.seed = 1};
  for (const bool learned : {false, true})
    for (const Dtype dtype : {Dtype::s8, Dtype::s4})
      for (const auto weights :
           {Granularity::per_tensor, Granularity::per_channel, Granularity::per_group}) {
        SCOPED_TRACE(fmt::format("{} {} {}", learned, name(dtype), static_cast<int>(weights)));
        auto options = nn::qat_options(dtype, weights, learned);
        options.weight.scheme.group = 16;
        const std::vector<Tensor<Cpu>> rows = {normal<Cpu>(rng, {7, 48}),
                                               normal<Cpu>(rng, {3, 5, 48})};
        compare<A>(nn::Linear<A>(rng, {48, 12}), options, rows);
        if (!learned) {
          options.input.scheme.granularity = Granularity::per_token;
          compare<A>(nn::Linear<A>(rng, {48, 12}), options, rows);
        }
        if (weights == Granularity::per_group) continue;
        options.input.scheme.granularity = Granularity::per_tensor;
        const std::vector<Tensor<Cpu>> pictures = {normal<Cpu>(rng, {2, 4, 7, 6})};
        compare<Cpu>(
            nn::Conv2d<Cpu>(rng, {.in = 4, .out = 6, .shape = {.padding = {1, 1}, .groups = 2}}),
            options, pictures);
      }
}

TEST(QuantizedLayers, LongSumsToo) {  // beyond 2^24 in f32
  Rng rng{.seed = 2};
  nn::Linear<Cpu> layer(rng, {5000, 3});
  layer.weight.set(uniform<Cpu>(rng, {3, 5000}, 0.5, 1));
  compare<Cpu>(layer, nn::qat_options(Dtype::s8), {uniform<Cpu>(rng, {4, 5000}, 0.5, 1)});
}

TEST(QuantizedLayers, RefuseWhatTheyCannot) {
  Rng rng{.seed = 3};
  auto options = nn::qat_options(Dtype::s8, Granularity::per_group);
  EXPECT_EQ(
      message([&] { nn::QuantConv2d<Cpu>(nn::Conv2d<Cpu>(rng, {.in = 2, .out = 2}), options); }),
      "quantized layer: a weight is quantized per tensor, per channel or, in linear layers, "
      "per group");
  EXPECT_EQ(message([] { (void)nn::qat_options(Dtype::u8); }),
            "qat_options: the dtype is u8, it must be s8 or s4");
}

using QLinear = nn::Quantizable<nn::Linear<A>>;

// A rounded model, trained; then its state in a new one, by prepare, load and start.
TEST(QuantizedLayers, ResumedTrainingKeepsLearnedSteps) {
  for (const bool learned : {true, false}) {
    Rng rng{.seed = 5};
    const auto x = nn::constant<A>(normal<Cpu>(rng, {16, 8}));
    const auto options = nn::qat_options(Dtype::s4, Granularity::per_channel, learned);
    QLinear net(nn::Linear<A>(rng, {8, 4})), resumed(nn::Linear<A>(rng, {8, 4}));
    nn::prepare_qat(net, options);
    (void)net(x);
    nn::start_quantizing(net);
    optim::Sgd<A> sgd({.rate = 0.5});
    for (int i = 0; i < 3; ++i)
      sgd.step(net, optim::collect<A>(net, mean(square(net(x) - 1)).backward()));
    nn::eval(net);
    const auto wanted = net(x).inner().to_vector<float>();
    const auto saved = nn::state(net);
    nn::prepare_qat(resumed, options);
    nn::load_state(resumed, saved);
    QLinear unstarted = resumed;
    nn::eval(unstarted);
    EXPECT_EQ(unstarted(x).inner().to_vector<float>(), wanted) << "the state says it rounds";
    EXPECT_EQ(nn::state(unstarted), saved);
    nn::start_quantizing(resumed);
    EXPECT_EQ(nn::state(resumed), saved);
    nn::eval(resumed);
    EXPECT_EQ(resumed(x).inner().to_vector<float>(), wanted);
    nn::convert(resumed);
    EXPECT_EQ(resumed(x).inner().to_vector<float>(), wanted);
  }
}

TEST(QuantizedLayers, NeedCalibration) {
  Rng rng{.seed = 6};
  const auto x = nn::constant<A>(normal<Cpu>(rng, {16, 8}));
  for (const bool learned : {true, false}) {
    const auto options = nn::qat_options(Dtype::s8, Granularity::per_channel, learned);
    QLinear net(nn::Linear<A>(rng, {8, 4}));
    nn::prepare_qat(net, options);
    nn::start_quantizing(net);
    QLinear training = net;
    if (!learned) {
      EXPECT_EQ(training(x).shape(), (Shape{16, 4})) << "training observes";
    }
    nn::eval(net);
    EXPECT_EQ(message([&] { (void)net(x); }),
              "fake_quant: nothing was observed yet, so that x of shape [16, 8] has no scale; run "
              "batches between prepare_qat and start_quantizing, or load a state that has seen "
              "some");
    nn::convert(net);
    EXPECT_EQ(message([&] { (void)net(x); }),
              "integer layer: its input was never observed, its weight has shape [4, 8]; calibrate "
              "before convert, or load a state");
    // A state makes it whole.
    QLinear whole(nn::Linear<A>(rng, {8, 4}));
    nn::prepare_qat(whole, options);
    (void)whole(x);
    nn::convert(whole);
    nn::load_state(net, nn::state(whole));
    EXPECT_EQ(net(x).inner().to_vector<float>(), whole(x).inner().to_vector<float>());
  }
  // Scales of tokens are found from the tokens.
  auto options = nn::qat_options(Dtype::s8);
  options.input.scheme.granularity = Granularity::per_token;
  QLinear tokens(nn::Linear<A>(rng, {8, 4}));
  nn::prepare_qat(tokens, options);
  nn::start_quantizing(tokens);
  nn::eval(tokens);
  EXPECT_EQ(tokens(x).shape(), (Shape{16, 4}));
}

// LSQ: dy/ds is rint(v) − v inside the range and ±q outside, times 1/√(members · q).
TEST(QuantizedLayers, LearnedStepsHaveTheirGradient) {
  const std::vector<float> xs = {0.26f, -0.31f, 0.9f, 2.0f, -3.0f, 0.04f};
  const auto x = Tensor<A>::from(std::span<const float>(xs), {6}).require_grad();
  nn::FakeQuant<A> quant({.scheme = {.dtype = Dtype::s4, .range = IntRange{-7, 7}},
                          .observer = {.method = nn::Observe::min_max},
                          .learned = true},
                         {6}, Cpu::default_device());
  quant.observe(full<Cpu>({1}, 0.7));  // a step of 0.1
  const auto s = quant.scale(x);
  const auto y = sum(quant.codes(x, s) * s);
  const auto grads = y.backward();
  const auto dx = x.grad(grads)->to_vector<float>();
  EXPECT_EQ(dx, (std::vector<float>{1, 1, 0, 0, 0, 1}));
  double expected = 0;
  for (float v : xs) {
    const double at = static_cast<double>(v) / static_cast<double>(0.1f);
    expected += std::abs(at) <= 7 ? std::rint(at) - at : (v > 0 ? 7 : -7);
  }
  const auto found = optim::collect<A>(quant, grads);
  EXPECT_NEAR(found.at("step").item<float>(), expected / std::sqrt(6.0 * 7), 1e-5);
}

// What a pass decides by, read before it, and whether the next one will decide the same.
TEST(QuantizedLayers, SayWhatTheyDecideBy) {
  nn::FakeQuant<A> quant({.scheme = {.dtype = Dtype::s8, .range = IntRange{-127, 127}}}, {6},
                         Cpu::default_device());
  const auto parts = nn::parts_of(quant);
  const auto first = parts.read_ahead();
  EXPECT_EQ(first, std::vector<bool>{false});
  EXPECT_TRUE(parts.stay(first)) << "nothing looked at it";
  quant.observe(full<Cpu>({6}, 2));
  EXPECT_FALSE(parts.stay(first)) << "the next one has a range to start from";
  const auto second = parts.read_ahead();
  EXPECT_EQ(second, std::vector<bool>{true});
  quant.observe(full<Cpu>({6}, 3));
  EXPECT_TRUE(parts.stay(second));
}

TEST(Observers, FindTheirRanges) {
  const QuantScheme scheme{.dtype = Dtype::s4, .range = IntRange{-7, 7}};
  std::vector<float> xs(1000);
  for (std::size_t i = 0; i < xs.size(); ++i)
    xs[i] = (i % 2 == 0 ? 1.f : -1.f) * static_cast<float>(i + 1) / 1000;
  xs[999] = 50;  // an outlier
  const auto x = Tensor<Cpu>::from(std::span<const float>(xs), {1000});
  const auto range = [&](nn::Observe method) {
    return nn::batch_range(x, scheme, {.method = method, .percentile = 0.99}).item<float>();
  };
  EXPECT_EQ(range(nn::Observe::min_max), 50);
  EXPECT_EQ(range(nn::Observe::moving_average), 50);
  EXPECT_FLOAT_EQ(range(nn::Observe::percentile), 0.99f);
  // Brute force over the same candidates.
  double best = 0, least = 1e300;
  for (int i = 40; i > 0; --i) {
    const double r = 50.0 * i / 40, s = r / 7;
    double error = 0;
    for (float v : xs)
      error += std::pow(std::clamp(std::rint(v / s), -7.0, 7.0) * s - static_cast<double>(v), 2);
    if (error < least) {
      least = error;
      best = r;
    }
  }
  EXPECT_NEAR(range(nn::Observe::mse), best, 1e-3);

  const auto first = Tensor<Cpu>::from({1.f, -2.f}, {2}),
             second = Tensor<Cpu>::from({4.f, 0.f}, {2});
  std::optional<Tensor<Cpu>> none;
  const auto one = nn::observed(none, first, scheme, {.method = nn::Observe::min_max});
  EXPECT_EQ(one.item<float>(), 2);
  EXPECT_EQ(nn::observed<Cpu>(one, second, scheme, {.method = nn::Observe::min_max}).item<float>(),
            4);
  EXPECT_FLOAT_EQ(nn::observed<Cpu>(one, second, scheme, {.momentum = 0.25}).item<float>(), 2.5f);
  // Per channel: a range each.
  const QuantScheme rows{.granularity = Granularity::per_channel, .axis = 0};
  const auto both = Tensor<Cpu>::from({1.f, -3.f, 2.f, 0.5f}, {2, 2});
  EXPECT_EQ(nn::batch_range(both, rows, {.method = nn::Observe::min_max}).to_vector<float>(),
            (std::vector<float>{3, 2}));
}

}  // namespace

}  // namespace planck::test
