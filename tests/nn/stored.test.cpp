// Quantized checkpoints that do not fit: one line that names the tensor, and a model as it was.
#include <gtest/gtest.h>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using QLinear = nn::Quantizable<nn::Linear<A>>;

nn::StateEntry bytes_of(Dtype dtype, const Shape& shape, std::vector<int> values) {
  nn::StateEntry e{dtype, shape, {}};
  for (int v : values) e.bytes.push_back(static_cast<std::byte>(v));
  return e;
}

// A weight [2, 3] of u8, with a zero point for each row.
nn::SavedState good() {
  nn::SavedState saved;
  saved.state["weight"] = bytes_of(Dtype::u8, {2, 3}, {1, 2, 3, 255, 0, 128});
  const std::vector<float> scales = {0.5f, 2};
  const auto bytes = std::as_bytes(std::span(scales));
  saved.state["weight_scale"] = {Dtype::f32, {2}, {bytes.begin(), bytes.end()}};
  saved.state["weight_zero_point"] = bytes_of(Dtype::i32, {2}, {2, 0, 0, 0, 255, 0, 0, 0});
  saved.state["bias"] = {Dtype::f32, {2}, std::vector<std::byte>(8)};
  saved.metadata["planck.quantized"] = "2";
  saved.metadata["planck.quantized:weight"] = scheme_text({.scheme = "per_channel",
                                                           .dtype = Dtype::u8,
                                                           .range = {0, 255},
                                                           .symmetric = false,
                                                           .original_shape = {2, 3}});
  return saved;
}

class StoredLayers : public testing::Test {
 protected:
  // What a load of this says; the model stays what it was.
  template <class Change>
  std::string refused(Change change, const nn::LoadOptions& options = {}) {
    nn::SavedState saved = good();
    change(saved);
    value_or_throw(nn::save_state(path_, saved.state, saved.metadata));
    Rng rng{.seed = 1};
    QLinear layer(nn::Linear<A>(rng, {3, 2}));
    const auto before = nn::state(layer);
    std::string says = message([&] { nn::load_quantized(layer, path_, options); });
    if (says != "nothing was thrown") {
      EXPECT_TRUE(layer.is_float());
      EXPECT_EQ(nn::state(layer), before);
    }
    const auto at = says.find(path_ + ": ");
    return at == 0 ? says.substr(path_.size() + 2) : says;
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.file("q.safetensors");
};

TEST_F(StoredLayers, RunOnZeroPoints) {
  nn::SavedState saved = good();
  value_or_throw(nn::save_state(path_, saved.state, saved.metadata));
  Rng rng{.seed = 1};
  QLinear layer(nn::Linear<A>(rng, {3, 2}));
  nn::load_quantized(layer, path_);
  EXPECT_FALSE(layer.is_float());
  // q(x) = 127, −127, 0 with scale 1: 127 (1 − 2) − 127 (2 − 2), and
  // 127 (255 − 255) − 127 (0 − 255).
  const auto x = Tensor<Cpu>::from({127.0, -127.0, 0.0}, {1, 3});
  EXPECT_EQ(nn::plain(layer(nn::constant<A>(x))).to_vector<float>(),
            (std::vector<float>{-127 * 0.5f, 127 * 255 * 2.0f}));
  EXPECT_EQ(message([&] {
              layer(nn::constant<A>(Tensor<Cpu>::from({1.0, 2.0}, {1, 2})));
            }),
            "stored layer: its input has shape [1, 2], it takes [..., N, 3]");
}

// In f32 up to the bias, and rounded once: to what the same layer in f32 gives.
TEST_F(StoredLayers, RunInNarrowerModels) {
  const auto run = [&](Dtype dtype) {
    Rng rng{.seed = 1};
    QLinear layer(nn::Linear<A>(rng, {4, 2}, dtype));
    nn::load_quantized(layer, path_, {.cast = true});
    EXPECT_FALSE(layer.is_float());
    const auto x =
        to_float(Tensor<Cpu>::from({1.25, -0.75, 0.5, 3.0, 0.0, 2.0, -1.5, 0.25}, {2, 4}), dtype);
    const auto y = nn::plain(layer(nn::constant<A>(x)));
    EXPECT_EQ(y.dtype(), dtype);
    return y;
  };
  for (const bool groups : {false, true}) {
    nn::SavedState saved = good();
    saved.state["weight"] = bytes_of(Dtype::s8, {2, 4}, {1, 200, 3, 255, 0, 128, 77, 5});
    saved.state.erase("weight_zero_point");
    const std::vector<float> scales = {0.01f, 0.3f, 0.07f, 0.002f};
    const auto bytes = std::as_bytes(std::span(scales).first(groups ? 4 : 2));
    saved.state["weight_scale"] = {Dtype::f32, {groups ? 4 : 2}, {bytes.begin(), bytes.end()}};
    saved.state["bias"] = nn::to_entry(Tensor<Cpu>::from({0.5, -2.0}, {2}));
    saved.metadata["planck.quantized:weight"] =
        scheme_text({.scheme = groups ? "per_group" : "per_channel",
                     .group = 2,
                     .dtype = Dtype::s8,
                     .range = {-128, 127},
                     .symmetric = true,
                     .original_shape = {2, 4}});
    value_or_throw(nn::save_state(path_, saved.state, saved.metadata));
    const auto wide = run(Dtype::f32);
    for (const Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f64})
      EXPECT_EQ(nn::to_entry(run(dtype)), nn::to_entry(to_float(wide, dtype))) << name(dtype);
  }
}

TEST_F(StoredLayers, RefuseWhatDoesNotFit) {
  EXPECT_EQ(refused([](auto&) {}), "nothing was thrown");
  EXPECT_EQ(refused([](auto& s) { s.metadata.erase("planck.quantized"); }),
            "is not a quantized checkpoint: its metadata lack \"planck.quantized\"");
  EXPECT_EQ(refused([](auto& s) { s.metadata["planck.quantized"] = "3"; }),
            "is a quantized checkpoint of version \"3\", 2 is read; `planck dequantize` reads 1 "
            "too");
  EXPECT_EQ(refused([](auto& s) { s.metadata["planck.quantized:weight"] = "{}"; }),
            "tensor \"weight\": its metadata: scheme is \"\", must be per_tensor, per_channel, "
            "per_token or per_group");
  EXPECT_EQ(refused([](auto& s) { s.state.erase("weight_zero_point"); }),
            "tensor \"weight\": its \"weight_zero_point\" is missing");
  EXPECT_EQ(refused([](auto& s) { s.state["weight"].dtype = Dtype::s8; }),
            "tensor \"weight\": is s8 [2, 3], the scheme says 6 elements of u8");
  EXPECT_EQ(refused([](auto& s) {
              s.state["weight_scale"] = {Dtype::f32, {1}, std::vector<std::byte>(4)};
            }),
            "tensor \"weight_scale\": is f32 [1], the scheme says 2 elements of f32");
}

TEST_F(StoredLayers, ALoadThatIsRefusedLeavesTheModel) {
  EXPECT_EQ(refused([](auto& s) { s.state.erase("bias"); }), "load_state: the state lacks bias");
  EXPECT_EQ(refused([](auto& s) { s.state["more"] = s.state["bias"]; }),
            "load_state: the state has more, the model has no such part");
  EXPECT_EQ(refused([](auto&) {}, {.rename = [](const std::string&) { return std::string("x"); }}),
            "load_state: two entries of the state become x");
}

TEST_F(StoredLayers, AnotherShapeIsRestoredAndThenRefused) {
  EXPECT_EQ(refused([](auto& s) {
              s.metadata["planck.quantized:weight"] = scheme_text({.scheme = "per_channel",
                                                                   .axis = 1,
                                                                   .dtype = Dtype::u8,
                                                                   .range = {0, 255},
                                                                   .symmetric = false,
                                                                   .original_shape = {3, 2}});
            }),
            "load_state: weight is f32 [3, 2] in the state, f32 [2, 3] in the model");
}

}  // namespace
}  // namespace planck::test
