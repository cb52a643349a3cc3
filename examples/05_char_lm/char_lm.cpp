// A character language model: embeddings, attention, layer norm, gelu. Prints bits per character on
// text it has not seen, a sample, and a hash of the weights that is the same everywhere.
//
//   char_lm [FILE] [STEPS]
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "model.h"
#include "planck/balanced.h"

using namespace planck;
using A = Autodiff<Cpu, BalancedCheckpointing>;

namespace {

constexpr std::int64_t kLength = 48, kWidth = 64, kBatch = 12;

struct Windows {
  Tensor<Cpu, IntKind> text, next;
};
// Windows of the text and, a byte further, what follows.
Windows windows(const std::string& text, std::span<const std::int64_t> starts) {
  std::vector<std::int64_t> in, out;
  for (const std::int64_t s : starts)
    for (std::int64_t i = s; i < s + kLength; ++i) {
      in.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(i)]));
      out.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(i + 1)]));
    }
  const auto n = static_cast<std::int64_t>(starts.size());
  return {Tensor<Cpu, IntKind>::from(std::span<const std::int64_t>(in), {n, kLength}),
          Tensor<Cpu, IntKind>::from(std::span<const std::int64_t>(out), {n * kLength})};
}

template <class B>
Tensor<B> loss_of(CharLm<B>& model, const Windows& w) {
  const auto logits = model(nn::constant<B>(w.text));
  return nn::cross_entropy_loss(reshape(logits, {-1, 256}), nn::constant<B>(w.next));
}

double bits_per_character(CharLm<Cpu>& model, const std::string& text) {
  double sum = 0;
  int count = 0;
  for (std::int64_t s = 0; s + kLength < static_cast<std::int64_t>(text.size());
       s += kLength, ++count)
    sum += static_cast<double>(loss_of(model, windows(text, {&s, 1})).item<float>());
  return sum / count / std::log(2.0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : DEFAULT_TEXT;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 400;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.size() < 2000 || steps < 1) {
    fmt::print(stderr, "usage: char_lm [FILE] [STEPS]; {} has {} bytes, 2000 are the least\n", path,
               text.size());
    return 2;
  }
  const std::size_t cut = text.size() / 10 * 9;
  const std::string train = text.substr(0, cut), test = text.substr(cut);

  Rng rng{.seed = 5};
  CharLm<A> model(rng, kLength, kWidth, 2);
  optim::Adam<A> adam({.weight_decay = 0.01});
  for (int step = 0; step < steps; ++step) {
    const auto drawn =
        uniform<Cpu>(rng, {kBatch}, 0, static_cast<double>(train.size() - kLength - 1));
    const auto starts = to_int(drawn).to_vector<std::int64_t>();
    const auto loss = loss_of(model, windows(train, starts));
    auto gradients = optim::collect<A>(model, loss.backward());
    optim::clip_norm(gradients, 1.0);
    adam.options.rate = 3e-3 * optim::warm_up(step, 10) * optim::cosine(step, steps, 0.05);
    adam.step(model, gradients);
    if (step % 20 == 0 || step + 1 == steps)
      fmt::print("step {:4}  loss {:.4f}\n", step, loss.inner().item<float>());
  }

  CharLm<Cpu> trained(rng, kLength, kWidth, 2);
  nn::load_state(trained, nn::state(model));
  fmt::print("{:.3f} bits per character on {} unseen bytes\n", bits_per_character(trained, test),
             test.size());
  std::string written = test.substr(0, static_cast<std::size_t>(kLength));
  for (int i = 0; i < 80; ++i) {
    const std::string seen = written.substr(written.size() - kLength) + " ";
    const std::int64_t start = 0;
    const auto logits = trained(windows(seen, {&start, 1}).text);
    const auto best = argmax(select(select(logits, 0, 0), 0, kLength - 1));
    written += static_cast<char>(best.item<std::int64_t>());
  }
  fmt::print("it goes on: {}\n", written.substr(static_cast<std::size_t>(kLength)));
  fmt::print("weights sha256 {}\n", nn::sha256_of(nn::state(model)));
}
