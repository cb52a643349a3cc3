// Modules: names, modes, state, and what each computes against loops in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

template <class B>
struct Small {
  nn::Linear<B> first;
  std::vector<nn::Linear<B>> more;
  std::optional<nn::BatchNorm<B>> norm;
  nn::Dropout drop;
  explicit Small(Rng& rng, bool normed = true)
      : first(rng, {4, 3}),
        more{nn::Linear<B>(rng, {3, 3, false}), nn::Linear<B>(rng, {3, 2})},
        drop(0.5, 7) {
    if (normed) norm.emplace(3);
  }
  Tensor<B> operator()(const Tensor<B>& x) {
    auto y = drop(relu(first(x)));
    if (norm) y = (*norm)(y);
    for (auto& m : more) y = m(y);
    return y;
  }
  void visit(auto&& part) {
    part("first", first);
    part("more", more);
    part("norm", norm);
    part("drop", drop);
  }
};

TEST(Modules, NameTheirParts) {
  Rng rng{.seed = 1};
  Small<Cpu> net(rng);
  std::vector<std::string> paths;
  nn::for_each_parameter<Cpu>(net, [&](const std::string& path, auto&) { paths.push_back(path); });
  EXPECT_EQ(paths,
            (std::vector<std::string>{"first.weight", "first.bias", "more.0.weight",
                                      "more.1.weight", "more.1.bias", "norm.weight", "norm.bias"}));
  std::vector<std::string> names;
  for (const auto& [name, entry] : nn::state(net)) names.push_back(name);
  EXPECT_EQ(names.size(), 10u);  // and running_mean, running_var, rng
  EXPECT_TRUE(std::find(names.begin(), names.end(), "drop.rng") != names.end());
}

TEST(Modules, TrainAndEvaluate) {
  Rng rng{.seed = 1};
  Small<Cpu> net(rng);
  const auto x = normal<Cpu>(rng, {8, 4});
  EXPECT_NE(net(x).to_vector<float>(), net(x).to_vector<float>()) << "dropout draws anew";
  nn::eval(net);
  EXPECT_FALSE(net.norm->mode.training);
  EXPECT_EQ(net(x).to_vector<float>(), net(x).to_vector<float>());
}

TEST(Modules, ACopyIsAModelOfItsOwn) {
  Rng rng{.seed = 1};
  Small<Cpu> net(rng);
  Small<Cpu> copy = net;
  copy.first.weight.set(zeros_like(copy.first.weight.value()));
  EXPECT_NE(nn::sha256_of(nn::state(net)), nn::sha256_of(nn::state(copy)));
}

TEST(Modules, StateGoesThroughAFile) {
  Rng rng{.seed = 1}, other{.seed = 2};
  Small<A> net(rng);
  const auto x = nn::constant<A>(normal<Cpu>(rng, {8, 4}));
  (void)net(x);  // moves statistics and the generator
  TemporaryDirectory folder;
  const std::string path = folder.file("model.safetensors");
  ASSERT_TRUE(nn::save_state(path, nn::state(net), {{"who", "me"}}));
  const auto saved = nn::read_state(path);
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->state, nn::state(net));
  EXPECT_EQ(saved->metadata.at("who"), "me");
  Small<Cpu> again(other);  // another backend
  nn::load_state(again, saved->state);
  nn::StateDict loaded = nn::state(again);
  EXPECT_EQ(nn::sha256_of(loaded), nn::sha256_of(nn::state(net)));
  EXPECT_EQ(again(nn::plain(x)).to_vector<float>(), nn::plain(net(x)).to_vector<float>());
}

TEST(Modules, StateThatDoesNotFitIsRefused) {
  Rng rng{.seed = 1};
  Small<Cpu> net(rng), less(rng, false);
  auto state = nn::state(net);
  EXPECT_EQ(message([&] { nn::load_state(net, nn::state(less)); }),
            "load_state: the state lacks norm.weight");
  EXPECT_EQ(message([&] { nn::load_state(less, state); }),
            "load_state: the state has norm.bias, the model has no such part");
  state["first.weight"] = state["more.1.weight"];
  EXPECT_EQ(message([&] { nn::load_state(net, state); }),
            "load_state: first.weight is f32 [2, 3] in the state, f32 [3, 4] in the model");
}

TEST(Modules, LinearAndConvolutionsAsTheirOps) {
  Rng rng{.seed = 3};
  nn::Linear<Cpu> linear(rng, {5, 4});
  const auto x = normal<Cpu>(rng, {2, 3, 5});
  const auto y = linear(x).to_vector<float>(), xs = x.to_vector<float>(),
             w = linear.weight->to_vector<float>(), b = (*linear.bias)->to_vector<float>();
  for (std::size_t n = 0; n < 6; ++n)
    for (std::size_t o = 0; o < 4; ++o) {
      double sum = b[o];
      for (std::size_t i = 0; i < 5; ++i) sum += double(xs[n * 5 + i]) * w[o * 5 + i];
      EXPECT_NEAR(y[n * 4 + o], sum, 1e-6);
    }
  nn::Conv2d<Cpu> conv(rng, {.in = 2, .out = 3, .shape = {.stride = {2, 2}, .padding = {1, 1}}});
  EXPECT_EQ(conv(normal<Cpu>(rng, {2, 2, 8, 6})).shape(), (Shape{2, 3, 4, 3}));
  nn::ConvTranspose2d<Cpu> up(rng, {.in = 3,
                                    .out = 2,
                                    .shape = {.stride = {2, 2}, .padding = {1, 1}},
                                    .output_padding = {1, 1}});
  EXPECT_EQ(up(normal<Cpu>(rng, {2, 3, 4, 3})).shape(), (Shape{2, 2, 8, 6}));
}

TEST(Modules, BatchNormNormalizesAndRemembers) {
  Rng rng{.seed = 4};
  nn::BatchNorm<Cpu> norm(3);
  norm.weight.set(Tensor<Cpu>::from({1.f, 2.f, 3.f}, {3}));
  norm.bias.set(Tensor<Cpu>::from({0.f, 1.f, -1.f}, {3}));
  const auto x = normal<Cpu>(rng, {4, 3, 5}, 2, 3);
  const auto y = norm(x).to_vector<float>(), xs = x.to_vector<float>();
  const auto mean_of = norm.running_mean.value.to_vector<float>(),
             var_of = norm.running_var.value.to_vector<float>();
  const auto at = [](std::size_t n, std::size_t c, std::size_t i) { return (n * 3 + c) * 5 + i; };
  for (std::size_t c = 0; c < 3; ++c) {
    double mean = 0, var = 0;
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t i = 0; i < 5; ++i) mean += xs[at(n, c, i)] / 20.0;
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t i = 0; i < 5; ++i) var += std::pow(xs[at(n, c, i)] - mean, 2) / 20;
    for (std::size_t n = 0; n < 4; ++n)
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_NEAR(
            y[at(n, c, i)],
            (xs[at(n, c, i)] - mean) / std::sqrt(var + 1e-5) * double(c + 1) + (c == 0   ? 0
                                                                                : c == 1 ? 1
                                                                                         : -1),
            1e-5);
    EXPECT_NEAR(mean_of[c], 0.1 * mean, 1e-6);
    EXPECT_NEAR(var_of[c], 0.9 + 0.1 * var * 20 / 19, 1e-5);
  }
  norm.mode.training = false;
  const auto quiet = norm(x).to_vector<float>();
  EXPECT_NEAR(quiet[0], (xs[0] - double(mean_of[0])) / std::sqrt(double(var_of[0]) + 1e-5), 1e-5);
  EXPECT_EQ(message([&] {
              (void)norm(normal<Cpu>(rng, {2, 4}));
            }),
            "batch_norm: x has shape [2, 4], its second axis must have 3 channels");
}

TEST(Modules, DropoutKeepsTheMeanAndIsPartOfTheState) {
  nn::Dropout drop(0.25, 5);
  const auto x = ones<Cpu>({100, 100});
  const auto y = drop(x).to_vector<float>();
  std::size_t zeros = 0;
  for (float v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 1 / 0.75f) < 1e-6f);
    zeros += v == 0;
  }
  EXPECT_NEAR(static_cast<double>(zeros), 2500, 200);
  nn::Dropout resumed(0.25, 0);
  nn::load_state(resumed, nn::state(drop));
  EXPECT_EQ(resumed(x).to_vector<float>(), drop(x).to_vector<float>());
  EXPECT_EQ(message([] { nn::Dropout(1.0, 0); }),
            "dropout: the probability is 1, it must be in [0, 1)");
}

TEST(Modules, AttentionLooksOnlyWhereItMay) {
  Rng rng{.seed = 6};
  const std::int64_t length = 5, d = 4;
  const auto q = normal<Cpu>(rng, {2, length, d}), k = normal<Cpu>(rng, {2, length, d}),
             v = normal<Cpu>(rng, {2, length, d});
  const auto y = nn::attention<Cpu>(q, k, v, nn::causal_mask<Cpu>(length)).to_vector<float>();
  const auto qs = q.to_vector<float>(), ks = k.to_vector<float>(), vs = v.to_vector<float>();
  const auto at = [&](std::int64_t n, std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>((n * length + i) * d + j);
  };
  for (std::int64_t n = 0; n < 2; ++n)
    for (std::int64_t i = 0; i < length; ++i) {
      std::vector<double> chance;
      double total = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        double dot = 0;
        for (std::int64_t c = 0; c < d; ++c) dot += double(qs[at(n, i, c)]) * ks[at(n, j, c)];
        chance.push_back(std::exp(dot / 2));
        total += chance.back();
      }
      for (std::int64_t c = 0; c < d; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j <= i; ++j)
          sum += chance[static_cast<std::size_t>(j)] / total * vs[at(n, j, c)];
        EXPECT_NEAR(y[at(n, i, c)], sum, 2e-6);
      }
    }
  // Any rank, heads wider than the kernel's, and a query that sees nothing.
  const auto wide = normal<Cpu>(rng, {2, 1, 2, 3, 300});
  EXPECT_EQ(nn::attention<Cpu>(wide, wide, wide).shape(), wide.shape());
  const auto flat = reshape(q, {1, 2, 1, length, d});
  EXPECT_EQ(nn::attention<Cpu>(flat, flat, flat).to_vector<float>(),
            nn::attention<Cpu>(q, q, q).to_vector<float>());
  const auto all = full<Cpu, BoolKind>({length, length}, true);
  for (float nothing : nn::attention<Cpu>(q, k, v, all).to_vector<float>()) EXPECT_EQ(nothing, 0);
  nn::MultiHeadAttention<Cpu> heads(rng, {8, 2}), causal = heads;
  causal.options.causal = true;
  const auto x = normal<Cpu>(rng, {3, length, 8});
  EXPECT_EQ(causal(x).to_vector<float>(),
            heads(x, nn::causal_mask<Cpu>(length)).to_vector<float>());
  EXPECT_EQ(heads(normal<Cpu>(rng, {3, 5, 8})).shape(), (Shape{3, 5, 8}));
  EXPECT_EQ(message([&] {
              nn::MultiHeadAttention<Cpu>(rng, {8, 3});
            }),
            "attention: width 8 does not divide into 3 heads");
}

TEST(Modules, SpatialTransformerBeginsWithTheIdentity) {
  Rng rng{.seed = 8};
  nn::Linear<Cpu> theta(rng, {25, 6});
  theta.weight.set(zeros_like(theta.weight.value()));
  theta.bias->set(zeros_like(theta.bias->value()));
  using Chain = nn::Sequential<nn::Flatten, nn::Linear<Cpu>>;
  nn::SpatialTransformer<Cpu, Chain> see(Chain(nn::Flatten{}, theta), {5, 5});
  const auto x = uniform<Cpu>(rng, {2, 1, 5, 5});
  const auto y = see(x).to_vector<float>(), xs = x.to_vector<float>();
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_NEAR(y[i], xs[i], 1e-5);
}

TEST(Modules, Losses) {
  const auto x = Tensor<A>::from({-200.f, -1.f, 0.f, 2.f, 300.f}, {5}).require_grad();
  const auto t = nn::constant<A>(Tensor<Cpu>::from({0.f, 1.f, 0.25f, 1.f, 0.f}, {5}));
  const double xs[] = {-200, -1, 0, 2, 300}, ts[] = {0, 1, 0.25, 1, 0};
  double bce = 0, mse = 0, l1 = 0;
  for (int i = 0; i < 5; ++i) {
    bce += std::max(xs[i], 0.0) - xs[i] * ts[i] + std::log1p(std::exp(-std::abs(xs[i])));
    mse += std::pow(xs[i] - ts[i], 2);
    l1 += std::abs(xs[i] - ts[i]);
  }
  const auto loss = nn::bce_with_logits_loss(x, t);
  EXPECT_NEAR(loss.inner().item<float>(), bce / 5, 1e-4);
  const auto slope = x.grad(loss.backward())->to_vector<float>();
  for (std::size_t i = 0; i < 5; ++i)
    EXPECT_NEAR(slope[i], (1 / (1 + std::exp(-xs[i])) - ts[i]) / 5, 1e-6);
  EXPECT_NEAR(nn::mse_loss(x, t).inner().item<float>(), mse / 5, 1e-2);
  EXPECT_NEAR(nn::l1_loss(x, t).inner().item<float>(), l1 / 5, 1e-4);
}

}  // namespace

}  // namespace planck::test
