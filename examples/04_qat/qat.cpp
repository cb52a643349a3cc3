// Quantization-aware training: a float model, the same model rounded to 4 bits and trained a little
// more, and its integer form, which gives the rounded model's results bit for bit.
#include <fmt/format.h>

#include "model.h"
#include "planck/data/batches.h"
#include "planck/data/images.h"

using namespace planck;
using A = Autodiff<Cpu>;

namespace {

struct Batch {
  Tensor<Cpu> pictures;
  Tensor<Cpu, IntKind> labels;
};
Batch batch_of(const ImageSet& set, std::span<const std::int64_t> which) {
  const auto n = static_cast<std::int64_t>(which.size());
  std::vector<float> pixels(static_cast<std::size_t>(n * set.height * set.width));
  std::vector<std::int32_t> labels(which.size());
  gather(set, which, pixels, labels);
  return {Tensor<Cpu>::from(std::span<const float>(pixels), {n, 1, set.height, set.width}),
          Tensor<Cpu, IntKind>::from(std::span<const std::int32_t>(labels), {n})};
}

void train(DigitNet<A>& net, const ImageSet& set, int epochs, double rate) {
  nn::train(net);
  optim::Adam<A> adam({.rate = rate});
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto order = shuffled(set.count, 1, static_cast<std::uint64_t>(epoch));
    for (const auto which : value_or_throw(Batches::create(order, 64))) {
      const Batch b = batch_of(set, which);
      const auto loss =
          nn::cross_entropy_loss(net(nn::constant<A>(b.pictures)), nn::constant<A>(b.labels));
      adam.step(net, optim::collect<A>(net, loss.backward()));
    }
  }
}

std::vector<float> logits(DigitNet<A>& net, const Batch& b) {
  nn::eval(net);
  return net(nn::constant<A>(b.pictures)).inner().to_vector<float>();
}

double accuracy(DigitNet<A>& net, const Batch& b) {
  nn::eval(net);
  const auto best = argmax(net(nn::constant<A>(b.pictures)).inner(), 1);
  return mean(to_float(eq(best, to_int(b.labels)), Dtype::f32)).item<float>();
}

}  // namespace

int main() {
  const ImageData data = value_or_throw(load_image_data(""));
  std::vector<std::int64_t> all(static_cast<std::size_t>(data.test.count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
  const Batch test = batch_of(data.test, all);

  Rng rng{.seed = 4};
  DigitNet<A> net(rng);
  train(net, data.train, 6, 3e-3);
  fmt::print("float                {:.1f} %\n", 100 * accuracy(net, test));

  // Four bits, a scale for each output channel, every scale learned.
  nn::prepare_qat(net, nn::qat_options(Dtype::s4, Granularity::per_channel, true));
  (void)logits(net, batch_of(data.train, std::span(all).first(256)));  // calibrates
  nn::start_quantizing(net);
  fmt::print("rounded to 4 bits    {:.1f} %\n", 100 * accuracy(net, test));
  train(net, data.train, 4, 1e-3);
  fmt::print("and trained so       {:.1f} %\n", 100 * accuracy(net, test));

  const auto rounded = logits(net, test);
  nn::convert(net);
  const bool equal = logits(net, test) == rounded;
  fmt::print("on integers          {:.1f} %, the same logits: {}\n", 100 * accuracy(net, test),
             equal ? "yes" : "no");
  fmt::print("weights sha256       {}\n", nn::sha256_of(nn::state(net)));
  return equal ? 0 : 1;
}
