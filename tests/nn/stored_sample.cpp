// stored_sample FLOATS: the state of a small float model, as a file.
// stored_sample QUANTIZED X OUT: the model on a quantized checkpoint of it; what its layers answer
// to x, and the weight of its convolution, for tests/cli/test_stored.py.
#include <cstdio>
#include <string>

#include "planck/training.h"

namespace {

using namespace planck;
using A = Autodiff<Cpu>;

struct Model {
  nn::Quantizable<nn::Linear<A>> first, second;
  nn::Quantizable<nn::Conv2d<A>> conv;

  explicit Model(Rng& rng)
      : first(nn::Linear<A>(rng, {33, 20})),
        second(nn::Linear<A>(rng, {20, 8, false})),
        conv(nn::Conv2d<A>(rng, {.in = 3, .out = 4})) {}
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
    part("conv", conv);
  }
};

int run(int argc, char** argv) {
  Rng rng{.seed = 4};
  Model model(rng);
  if (argc == 2) {
    nn::save(model, argv[1]);
    return 0;
  }
  if (argc != 4) return 2;
  nn::load_quantized(model, argv[1], {.cast = true});
  const auto x = nn::to_tensor<Cpu, FloatKind>(
      value_or_throw(nn::read_state(argv[2])).state.at("x"), Cpu::default_device());
  const auto y = model.first(nn::constant<A>(x));
  nn::StateDict out;
  out["y"] = nn::to_entry(nn::plain(y));
  out["z"] = nn::to_entry(nn::plain(model.second(y)));
  out["conv"] = nn::state(model).at("conv.weight");
  const auto again = std::string(argv[3]) + ".again";  // what was loaded can be written and loaded
  value_or_throw(nn::save_quantized(again, model));
  Model same(rng);
  if (model.first.is_float() && model.second.is_float())
    nn::load(same, again);
  else
    nn::load_quantized(same, again);
  out["again"] = nn::to_entry(nn::plain(same.first(nn::constant<A>(x))));
  value_or_throw(nn::save_state(argv[3], out));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const planck::Exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
