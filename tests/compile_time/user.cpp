// What a user's file costs to compile: a model, a step of training, quantization, saving.
#include "planck/training.h"

using namespace planck;
using A = Autodiff<Cpu>;

template <class B>
struct Mlp {
  nn::Quantizable<nn::Linear<B>> first, second;

  explicit Mlp(Rng& rng)
      : first(nn::Linear<B>(rng, {64, 32})), second(nn::Linear<B>(rng, {32, 10})) {}
  Tensor<B> operator()(const Tensor<B>& x) { return second(relu(first(x))); }
  void visit(auto&& part) {
    part("first", first);
    part("second", second);
  }
};

int main() {
  Rng rng{.seed = 1};
  Mlp<A> model(rng);
  optim::Adam<A> adam({.rate = 1e-3});
  const auto x = uniform<A>(rng, {16, 64});
  const auto labels = to_int(arange<A>(16)) - to_int(arange<A>(16));
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      nn::prepare_qat(model, nn::qat_options(Dtype::s8));
      (void)model(x);
      nn::start_quantizing(model);
    }
    const auto loss = nn::cross_entropy_loss(model(x), labels);
    adam.step(model, optim::collect<A>(model, loss.backward()));
  }
  nn::convert(model);
  value_or_throw(nn::save_state("model.safetensors", nn::state(model)));
  nn::load_state(model, value_or_throw(nn::read_state("model.safetensors")).state);
  return argmax(model(x).inner(), 1).extent(0) == 16 ? 0 : 1;
}
