// One training step of each model, tensor by tensor, for tests/parity/compare.py: weights, inputs,
// loss, gradients, and weights after the step.
//
//   parity_dump FOLDER
#include <filesystem>

#include "examples/04_qat/model.h"
#include "examples/05_char_lm/model.h"
#include "tools/planck/digits/model.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

template <class Net, class Loss>
void dump(const std::string& path, Net& net, nn::StateDict inputs, const Loss& loss_of) {
  nn::StateDict all = nn::with_prefix("inputs/", inputs);
  all.merge(nn::with_prefix("weights/", nn::state(net)));
  const auto loss = loss_of(net);
  const auto gradients = optim::collect<A>(net, loss.backward());
  all["loss"] = nn::to_entry(loss.inner());
  for (const auto& [name, g] : gradients) all["gradients/" + name] = nn::to_entry(g);
  optim::Adam<A> adam({.rate = 1e-2, .weight_decay = 0.1});
  adam.step(net, gradients);
  all.merge(nn::with_prefix("after/", nn::state(net)));
  value_or_throw(nn::save_state(path, all));
}

void dump_all(const std::string& folder) {
  std::filesystem::create_directories(folder);
  Rng rng{.seed = 11};
  const auto labels = to_int(uniform<Cpu>(rng, {32}, 0, 10));
  const auto label = nn::constant<A>(labels);
  const auto classify = [&](const Tensor<Cpu>& x) {
    return [&, x](auto& net) { return nn::cross_entropy_loss(net(nn::constant<A>(x)), label); };
  };
  {
    digits::Net<A> net(rng, {}, Cpu::default_device());
    // Off the identity, so that the localizer has gradients everywhere.
    net.upright.localizer.theta.weight.set(normal<Cpu>(rng, {6, 32}, 0, 0.02));
    const auto x = uniform<Cpu>(rng, {32, 1, 16, 16});
    dump(folder + "/digits.safetensors", net,
         {{"x", nn::to_entry(x)}, {"labels", nn::to_entry(labels)}}, classify(x));
  }
  const auto x = uniform<Cpu>(rng, {32, 1, 8, 8});
  const nn::StateDict inputs = {{"x", nn::to_entry(x)}, {"labels", nn::to_entry(labels)}};
  DigitNet<A> net(rng);
  DigitNet<A> rounded = net;
  dump(folder + "/qat_float.safetensors", net, inputs, classify(x));
  nn::prepare_qat(rounded, nn::qat_options(Dtype::s4, Granularity::per_channel, true));
  (void)rounded(nn::constant<A>(x));
  nn::start_quantizing(rounded);
  dump(folder + "/qat_rounded.safetensors", rounded, inputs, classify(x));
  {
    CharLm<A> model(rng, 24, 32, 2);
    const auto text = to_int(uniform<Cpu>(rng, {4, 24}, 0, 256)),
               next = to_int(uniform<Cpu>(rng, {96}, 0, 256));
    dump(folder + "/char_lm.safetensors", model,
         {{"text", nn::to_entry(text)}, {"next", nn::to_entry(next)}}, [&](auto& m) {
           const auto logits = m(nn::constant<A>(text));
           return nn::cross_entropy_loss(reshape(logits, {-1, 256}), nn::constant<A>(next));
         });
  }
}

}  // namespace

}  // namespace planck::test

int main(int argc, char** argv) { planck::test::dump_all(argc > 1 ? argv[1] : "parity"); }
