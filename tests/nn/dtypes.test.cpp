// Modules in f64, f32, f16 and bf16: each beside the same module in f64 that has its values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

constexpr std::pair<Dtype, double> kBounds[] = {
    {Dtype::f64, 1e-12}, {Dtype::f32, 2e-5}, {Dtype::f16, 2e-2}, {Dtype::bf16, 1.5e-1}};

std::vector<double> numbers(const Tensor<Cpu>& t) {
  return to_float(t, Dtype::f64).to_vector<double>();
}
// Differences are of the largest magnitude.
void expect_near(const Tensor<Cpu>& found, const Tensor<Cpu>& wanted, double bound,
                 const std::string& what) {
  ASSERT_EQ(found.shape(), wanted.shape()) << what;
  const auto a = numbers(found), b = numbers(wanted);
  double largest = 0, worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::isfinite(a[i])) << what;
    largest = std::max(largest, std::abs(b[i]));
    worst = std::max(worst, std::abs(a[i] - b[i]));
  }
  EXPECT_LE(worst, bound * std::max(largest, 1e-2)) << what;
}

// make(options) gives a module, run(module, dtype) what it makes of inputs of that dtype.
template <class Make, class Run>
void compare(const std::string& what, const Make& make, const Run& run) {
  for (const auto& [dtype, bound] : kBounds) {
    auto module = make(nn::Options<A>(dtype));
    auto exact = make(nn::Options<A>(Dtype::f64));
    nn::load_state(exact, nn::state(module), {.cast = true});
    const auto y = run(module, dtype), wanted = run(exact, Dtype::f64);
    const std::string at = what + " in " + std::string(name(dtype));
    ASSERT_EQ(y.dtype(), dtype) << at;
    expect_near(y.inner(), wanted.inner(), bound, at);
    const auto g = optim::collect<A>(module, sum(square(y + 0.25)).backward());
    const auto h = optim::collect<A>(exact, sum(square(wanted + 0.25)).backward());
    ASSERT_EQ(g.size(), h.size()) << at;
    for (const auto& [path, gradient] : g) {
      ASSERT_EQ(gradient.dtype(), dtype) << at << ", " << path;
      expect_near(gradient, h.at(path), 2 * bound, at + ", gradient of " + path);
    }
  }
}

Tensor<A> input(const Shape& shape, Dtype dtype) {
  Rng rng{.seed = 3};
  return nn::constant<A>(to_float(to_float(uniform<Cpu>(rng, shape, -1, 1), Dtype::bf16), dtype));
}
auto on(const Shape& shape) {
  return [shape](auto& module, Dtype dtype) { return module(input(shape, dtype)); };
}
Rng seeded() { return {.seed = 1}; }

TEST(Dtypes, EveryModuleInEveryDtype) {
  compare(
      "linear",
      [](auto o) {
        auto r = seeded();
        return nn::Linear<A>(r, {7, 5}, o);
      },
      on({4, 7}));
  compare(
      "conv",
      [](auto o) {
        auto r = seeded();
        return nn::Conv2d<A>(r, {.in = 4, .out = 6, .shape = {.padding = {1, 1}, .groups = 2}}, o);
      },
      on({2, 4, 5, 6}));
  compare(
      "conv_transpose",
      [](auto o) {
        auto r = seeded();
        return nn::ConvTranspose2d<A>(r, {.in = 4, .out = 3, .shape = {.stride = {2, 2}}}, o);
      },
      on({2, 4, 3, 3}));
  compare(
      "conv1d and its adjoint",
      [](auto o) {
        auto r = seeded();
        return nn::Sequential(nn::Conv1d<A>(r, {.in = 4, .out = 6, .shape = {.groups = 2}}, o),
                              nn::ConvTranspose1d<A>(r, {.in = 6, .out = 3}, o));
      },
      on({2, 4, 9}));
  compare(
      "conv3d",
      [](auto o) {
        auto r = seeded();
        return nn::Conv3d<A>(r, {.in = 2, .out = 3, .shape = {.padding = {1, 0, 1}}}, o);
      },
      on({2, 2, 3, 4, 3}));
  compare(
      "layer_norm", [](auto o) { return nn::LayerNorm<A>({9}, o); }, on({4, 9}));
  compare(
      "rms_norm", [](auto o) { return nn::RmsNorm<A>({9}, o); }, on({4, 9}));
  compare(
      "attention",
      [](auto o) {
        auto r = seeded();
        return nn::MultiHeadAttention<A>(r, {.width = 8, .heads = 2}, o);
      },
      on({2, 5, 8}));
  compare(
      "attention of groups that knows its places",
      [](auto o) {
        auto r = seeded();
        return nn::MultiHeadAttention<A>(r,
                                         {.width = 16,
                                          .heads = 4,
                                          .causal = true,
                                          .kv_heads = 2,
                                          .window = 3,
                                          .scale = 0.4,
                                          .rope = nn::RopeOptions{}},
                                         o);
      },
      on({2, 5, 16}));
  const auto rows = [](auto& module, Dtype) {
    return module(Tensor<A, IntKind>::from({1, 4, 4, 0}, {2, 2}));
  };
  compare(
      "embedding",
      [](auto o) {
        auto r = seeded();
        return nn::Embedding<A>(r, 6, 3, o);
      },
      rows);
  compare(
      "embedding_bag",
      [](auto o) {
        auto r = seeded();
        return nn::EmbeddingBag<A>(r, 6, 3, o);
      },
      [](auto& module, Dtype) {
        return module(Tensor<A, IntKind>::from({1, 4, 4, 0}, {4}),
                      Tensor<A, IntKind>::from({0, 3}, {2}));
      });
  compare(
      "activations",
      [](auto o) {
        auto r = seeded();
        return nn::Sequential(nn::Linear<A>(r, {7, 5}, o), nn::Gelu{}, nn::LeakyRelu{});
      },
      on({4, 7}));
  compare(
      "transformer",
      [](auto o) {
        auto r = seeded();
        nn::Linear<A> theta(r, {25, 6}, o);
        theta.weight.set(theta.weight.value() * 0.25);
        return nn::SpatialTransformer<A, nn::Sequential<nn::Flatten, nn::Linear<A>>>(
            nn::Sequential(nn::Flatten{}, theta), {4, 4});
      },
      on({3, 1, 5, 5}));
}

// The same elements in f32 and in narrower floats; f64 draws its own.
TEST(Dtypes, DropoutDropsTheSame) {
  const auto dropped = [](Dtype dtype) {
    nn::Dropout drop(0.25, 9);
    const auto y = drop(full<A>({400}, 3, dtype));
    EXPECT_EQ(y.dtype(), dtype);
    return numbers(y.inner());
  };
  EXPECT_EQ(dropped(Dtype::f32), dropped(Dtype::f16)) << "3 / 0.75 is 4";
  EXPECT_EQ(dropped(Dtype::f32), dropped(Dtype::bf16));
  const auto wide = dropped(Dtype::f64);
  EXPECT_NEAR(static_cast<double>(std::count(wide.begin(), wide.end(), 0)), 100, 30);
}

TEST(Dtypes, BatchNormTrainsAndEvaluates) {
  const auto make = [](auto o) { return nn::BatchNorm<A>(3, o); };
  compare("batch_norm", make, on({8, 3, 4}));
  compare("batch_norm, evaluated", make, [](auto& module, Dtype dtype) {
    (void)module(input({8, 3, 4}, dtype) * 2 + 1);
    nn::eval(module);
    return module(input({8, 3, 4}, dtype));
  });
  nn::BatchNorm<A> half(3, Dtype::bf16);
  EXPECT_EQ(half.running_mean.value.dtype(), Dtype::f32) << "16 bits do not hold small moves";
  EXPECT_EQ(half.weight->dtype(), Dtype::bf16);
  EXPECT_EQ(nn::BatchNorm<A>(3, Dtype::f64).running_var.value.dtype(), Dtype::f64);
}

// Rounded and integer layers give the same, in the dtype of their input.
TEST(Dtypes, QuantizedLayersGiveTheDtypeTheyAreGiven) {
  for (const auto& [dtype, bound] : kBounds) {
    Rng rng{.seed = 1};
    nn::Quantizable<nn::Linear<A>> layer(nn::Linear<A>(rng, {8, 5}, dtype));
    const auto x = input({6, 8}, dtype);
    const auto exact = layer(x);
    nn::prepare_qat(layer, nn::qat_options(Dtype::s8));
    (void)layer(x);
    nn::start_quantizing(layer);
    const auto rounded = layer(x);
    EXPECT_EQ(rounded.dtype(), dtype);
    expect_near(rounded.inner(), exact.inner(), 0.03 + bound, std::string(name(dtype)));
    const auto g = optim::collect<A>(layer, sum(rounded).backward());
    EXPECT_EQ(g.at("weight").dtype(), dtype);
    nn::eval(layer);
    const auto before = layer(x);
    nn::convert(layer);
    EXPECT_EQ(numbers(layer(x).inner()), numbers(before.inner())) << name(dtype);
  }
}

TEST(Dtypes, FirstValuesAreThoseOfF32Rounded) {
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Rng one{.seed = 4}, other{.seed = 4};
    nn::Linear<Cpu> wide(one, {9, 7}), narrow(other, {9, 7}, dtype);
    nn::Embedding<Cpu> rows(one, 5, 3), narrow_rows(other, 5, 3, dtype);
    EXPECT_EQ(numbers(to_float(wide.weight.value(), dtype)), numbers(narrow.weight.value()));
    EXPECT_EQ(numbers(to_float(rows.weight.value(), dtype)), numbers(narrow_rows.weight.value()));
  }
  Rng rng{.seed = 4};
  EXPECT_EQ(message([&] {
              nn::Linear<Cpu>(rng, {2, 2}, Dtype::i32);
            }),
            "module: its parameters cannot be i32, they are floats");
}

TEST(Dtypes, StateFilesKeepWhatTheyHold) {
  TemporaryDirectory folder;
  for (const auto& [dtype, bound] : kBounds) {
    Rng rng{.seed = 1};
    nn::Linear<A> layer(rng, {3, 2}, dtype), again(rng, {3, 2}, dtype);
    optim::Adam<A> adam({.rate = 0.1});
    adam.step(layer, optim::collect<A>(layer, sum(layer(input({2, 3}, dtype))).backward()));
    const auto path = folder.file(std::string(name(dtype)) + ".safetensors");
    auto state = nn::with_prefix("model.", nn::state(layer));
    state.merge(nn::with_prefix("adam.", adam.state()));
    value_or_throw(nn::save_state(path, state));
    const auto saved = value_or_throw(nn::read_state(path)).state;
    EXPECT_EQ(saved, state);
    EXPECT_EQ(saved.at("model.weight").dtype, dtype);
    EXPECT_EQ(saved.at("adam.mean.weight").dtype, dtype == Dtype::f64 ? Dtype::f64 : Dtype::f32);
    EXPECT_EQ(saved.contains("adam.master.weight"), bits(dtype) == 16);
    nn::load_state(again, nn::without_prefix("model.", saved));
    EXPECT_EQ(nn::state(again), nn::state(layer));
    const auto other = dtype == Dtype::f32 ? Dtype::bf16 : Dtype::f32;
    nn::Linear<A> different(rng, {3, 2}, other);
    EXPECT_NE(message([&] { nn::load_state(different, nn::state(layer)); }), "nothing was thrown");
  }
}

}  // namespace

}  // namespace planck::test
