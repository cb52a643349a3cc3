// Quantized tensors in states, files and modules.
#include <gtest/gtest.h>

#include "planck/io/test/temporary_directory.test.h"
#include "planck/training.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

std::vector<QuantScheme> schemes() {
  std::vector<QuantScheme> all;
  for (Dtype t : {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4})
    for (Granularity g : {Granularity::per_tensor, Granularity::per_channel, Granularity::per_token,
                          Granularity::per_group})
      all.push_back({.granularity = g, .axis = 1, .group = 2, .dtype = t});
  return all;
}

void expect_equal(const QuantizedTensor<Cpu>& a, const QuantizedTensor<Cpu>& b) {
  EXPECT_EQ(a.scheme(), b.scheme());
  EXPECT_EQ(nn::to_entry(a.values()), nn::to_entry(b.values()));
  EXPECT_EQ(nn::to_entry(a.scale()), nn::to_entry(b.scale()));
  EXPECT_EQ(nn::to_entry(a.zero_point()), nn::to_entry(b.zero_point()));
}

TEST(QuantizedState, SurvivesAFile) {
  const TemporaryDirectory folder;
  const std::string path = folder.file("state.safetensors");
  Rng rng{.seed = 3};
  nn::SavedState saved;
  std::vector<QuantizedTensor<Cpu>> all;
  for (const QuantScheme& s : schemes()) {
    all.push_back(dynamic_quantize(normal<Cpu>(rng, {3, 4}), s, false));
    nn::put(saved, "part." + std::to_string(all.size()), all.back());
  }
  ASSERT_TRUE(nn::save_state(path, saved.state, saved.metadata));
  const auto read = nn::read_state(path);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->state, saved.state);
  for (std::size_t i = 0; i < all.size(); ++i)
    expect_equal(nn::get_quantized<Cpu>(*read, "part." + std::to_string(i + 1)), all[i]);
  const auto tracked = nn::get_quantized<A>(*read, "part.1");
  EXPECT_EQ(dequantize(tracked).inner().to_vector<float>(), dequantize(all[0]).to_vector<float>());
}

TEST(QuantizedState, RefusesPartsThatDoNotFit) {
  nn::SavedState saved;
  nn::put(saved, "w", dynamic_quantize(ones<Cpu>({2, 4})));
  const auto refused = [](nn::SavedState s, auto change) {
    change(s);
    try {
      (void)nn::get_quantized<Cpu>(s, "w");
    } catch (const Exception& e) {
      return std::string(e.what());
    }
    return std::string("nothing was refused");
  };
  EXPECT_EQ(refused(saved, [](auto& s) { s.metadata.clear(); }),
            "load_state: the metadata lack \"scheme of w\"");
  EXPECT_EQ(refused(saved, [](auto& s) { s.metadata["scheme of w"] = "no"; }),
            "load_state: the scheme of w is \"no\"");
  EXPECT_EQ(refused(saved, [](auto& s) { s.state.erase("w.scale"); }),
            "load_state: the state lacks w.scale");
  EXPECT_EQ(refused(saved, [](auto& s) { s.state["w.values"].dtype = Dtype::f32; }),
            "load_state: w.values is f32, values must be integers");
  EXPECT_EQ(refused(saved, [](auto& s) { s.state["w.values"].dtype = Dtype::u8; }),
            "quantized: values are u8, the scheme says s8");
}

template <class B>
struct Compressed {
  nn::QuantizedBuffer<B> weight;
  Tensor<B> operator()(const Tensor<B>& x) {
    return matmul(x, nn::constant<B>(dequantize(weight.value())));
  }
  void visit(auto&& part) { part("weight", weight); }
};

TEST(QuantizedState, IsPartOfAModule) {
  Rng rng{.seed = 8};
  const auto make = [&] {
    return Compressed<A>{nn::QuantizedBuffer<A>(dynamic_quantize(
        normal<Cpu>(rng, {4, 6}), {.granularity = Granularity::per_channel, .axis = 1}, false))};
  };
  auto first = make(), second = make();
  const auto x = nn::constant<A>(normal<Cpu>(rng, {3, 4}));
  const auto state = nn::state(first);
  std::vector<std::string> names;
  for (const auto& [name, entry] : state) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"weight.scale", "weight.values", "weight.zero_point"}));
  EXPECT_NE(second(x).inner().to_vector<float>(), first(x).inner().to_vector<float>());
  nn::load_state(second, state);
  EXPECT_EQ(second(x).inner().to_vector<float>(), first(x).inner().to_vector<float>());
}

}  // namespace

}  // namespace planck::test
