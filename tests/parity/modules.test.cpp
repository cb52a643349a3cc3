// One module at a time against what PyTorch computed in f64 (fixtures.py): what it gives, and the
// gradients of its input and its parameters, in f64 and f32.
#include <gtest/gtest.h>

#include "tests/parity/fixtures.h"

namespace planck::test {

namespace {

// make(options) gives the module; on(module, input) runs it.
template <class Make, class On>
void compare(const std::string& name, const Make& make, const On& on) {
  for (const auto& [dtype, bound] : {std::pair{Dtype::f64, kF64}, std::pair{Dtype::f32, kF32}}) {
    const auto as = [&, dtype = dtype](const std::string& of) {
      return to_float(floats(name + "/" + of), dtype);
    };
    const auto at = [&, dtype = dtype](const std::string& what) {
      return name + " in " + std::string(planck::name(dtype)) + ", " + what;
    };
    auto module = make(nn::Options<A>(dtype));
    nn::parts_of(module).template for_each<nn::Parameter<A>>(
        [&](const std::string& path, nn::Parameter<A>& p) { p.set(as(path)); });
    const bool reads_rows = fixtures().at(name + "/in0").dtype == Dtype::i64;
    const auto x = nn::constant<A>(reads_rows ? zeros<Cpu>({}) : as("in0")).require_grad();
    const auto y = on(module, x);
    EXPECT_EQ(y.dtype(), dtype);
    expect_near(y.inner(), floats(name + "/out"), bound, at("out"));
    const auto gradients = y.backward({.cotangent = as("dout")});
    if (!reads_rows)
      expect_near(*x.grad(gradients), floats(name + "/gradient/in0"), bound, at("gradient of x"));
    const auto of_parameters = optim::collect<A>(module, gradients);
    std::size_t parameters = 0;
    nn::parts_of(module).template for_each<nn::Parameter<A>>(
        [&](const std::string& path, nn::Parameter<A>&) {
          ++parameters;
          expect_near(of_parameters.at(path), floats(name + "/gradient/" + path), bound,
                      at("gradient of " + path));
        });
    EXPECT_EQ(of_parameters.size(), parameters);
  }
}
template <class Make>
void compare(const std::string& name, const Make& make) {
  compare(name, make, [](auto& module, const Tensor<A>& x) { return module(x); });
}
// A module without parameters.
template <class Module>
void compare_fixed(const std::string& name, const Module& module) {
  compare(name, [&](const nn::Options<A>&) { return module; });
}

TEST(ParityOfModules, ConvTranspose2d) {
  Rng rng{.seed = 1};
  compare("up", [&](const auto& at) {
    return nn::ConvTranspose2d<A>(rng,
                                  {.in = 4,
                                   .out = 6,
                                   .shape = {.stride = {2, 2}, .padding = {1, 1}, .groups = 2},
                                   .output_padding = {1, 1}},
                                  at);
  });
}

TEST(ParityOfModules, RmsNorm) {
  compare("rms_norm", [](const auto& at) { return nn::RmsNorm<A>({5}, at); });
}

// Rows of a table; a gradient that is dense.
TEST(ParityOfModules, Embeddings) {
  Rng rng{.seed = 1};
  const auto rows = [](const std::string& name) { return nn::constant<A>(integers(name)); };
  compare(
      "embedding", [&](const auto& at) { return nn::Embedding<A>(rng, 6, 3, at, 2); },
      [&](auto& module, const auto&) { return module(rows("embedding/in0")); });
  const auto bags = [&](auto& module, const auto&) {
    return module(rows("bag mean/in0"), rows("bag mean/in1"));
  };
  compare(
      "bag mean", [&](const auto& at) { return nn::EmbeddingBag<A>(rng, 5, 3, at); }, bags);
  compare(
      "bag sum",
      [&](const auto& at) { return nn::EmbeddingBag<A, BagMode::sum>(rng, 5, 3, at, 2); }, bags);
  compare(
      "bag max", [&](const auto& at) { return nn::EmbeddingBag<A, BagMode::max>(rng, 5, 3, at); },
      bags);
}

TEST(ParityOfModules, Pools) {
  const PoolOptions usual{.kernel = {3, 2}, .stride = {2, 2}, .padding = {1, 1}};
  compare_fixed("max_pool", nn::MaxPool2d{usual});
  compare_fixed(
      "max_pool wide",
      nn::MaxPool2d{{.kernel = {2, 2}, .stride = {2, 3}, .dilation = {2, 2}, .ceil_mode = true}});
  compare_fixed("avg_pool", nn::AvgPool2d{usual});
  compare_fixed("avg_pool inside", nn::AvgPool2d{{.kernel = {3, 3},
                                                  .stride = {2, 2},
                                                  .padding = {1, 1},
                                                  .ceil_mode = true,
                                                  .count_include_pad = false}});
  compare_fixed("adaptive_avg_pool", nn::AdaptiveAvgPool2d{{3, 2}});
}

TEST(ParityOfModules, Activations) {
  compare_fixed("relu", nn::Relu{});
  compare_fixed("leaky_relu", nn::LeakyRelu{0.1});
  compare_fixed("gelu", nn::Gelu{});
  compare_fixed("silu", nn::Silu{});
  compare_fixed("tanh", nn::Tanh{});
  compare_fixed("sigmoid", nn::Sigmoid{});
  compare_fixed("softplus", nn::Softplus{});
}

}  // namespace

}  // namespace planck::test
