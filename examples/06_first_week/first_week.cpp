// What one asks for in the first week: tensors out of what a program has, indices and masks, random
// choices, gradients by hand, a model that is partly frozen and trained in groups, files, the first
// NaN, and where the time went.
#include <fmt/format.h>

#include <filesystem>

#include "planck/backend/dlpack.h"
#include "planck/backend/fmt.h"
#include "planck/training.h"

using namespace planck;
using A = Autodiff<Cpu>;

// Tokens → logits of the next ones: causal attention over the rows of a table.
struct Net {
  nn::Embedding<A> words;
  nn::Linear<A> last;
  explicit Net(Rng& rng, Dtype t = Dtype::f32) : words(rng, 16, 8, t), last(rng, {8, 16}, t) {}
  Tensor<A> operator()(const Tensor<A, IntKind>& tokens) const {
    const auto x = words(tokens);
    const auto ahead = triu(ones<A, BoolKind>({x.extent(0), x.extent(0)}), 1);
    const auto scores = einsum("qd,kd->qk", x, x) * 0.35;
    return last(einsum("qk,kd->qd", softmax(mask_fill(scores, ahead, -1e30)), x));
  }
  void visit(auto&& part) {
    part("words", words);
    part("last", last);
  }
};

int main() {
  Rng rng{.seed = 7};
  // From literals (f32), a vector, memory of others and ranges; parts are read and assigned to.
  const std::vector<float> numbers = {1, 2, 3, 4, 5, 6};
  const auto v = Tensor<Cpu>::from(numbers, {2, 3});
  const auto seen = Tensor<Cpu>::from_blob(numbers.data(), {2, 3});
  auto x = Tensor<Cpu>::from({0.5, 1, 2, 4, 8, 16}, {2, 3});
  x += v * linspace<Cpu>(0, 1, 3) - seen;
  x[{kAll, 0}] = 0.25;
  x[-1] += 1;
  const auto lower = tril(einsum("ij,kj->ik", x, x)) + eye<Cpu>(2);
  const auto odd = (arange<Cpu>(8) ^ randperm<Cpu>(rng, 8)) & 1;
  const auto half = cast<double>(x.to(Dtype::f16) / 1e5);  // 1e5 is beyond f16, the quotient is not
  fmt::print("x {}\nabove 2: {}\nlower {}\nodd {}\n", x, x[(x > 2) & (x < 10)], lower, odd);
  const auto back = from_dlpack<Cpu>(to_dlpack(x));  // to another library and back, without a copy
  bool good = max(abs(back - x)).item<float>() == 0 && max(half).item<double>() > 0;

  // Gradients by hand: a cotangent, and a graph that is kept for another pass.
  const auto leaf = Tensor<A>(x).require_grad(), y = square(leaf);
  const auto once = *leaf.grad(y.backward({.cotangent = v, .retain_graph = true}));
  const auto twice = *leaf.grad(y.backward({.cotangent = v * 2}));
  good = good && max(abs(twice - once * 2)).item<float>() == 0 && Tensor<Cpu>(y).rank() == 2;

  // Training: the table is frozen for half of the steps, biases have a rate of their own.
  Net net(rng), narrow(rng, Dtype::bf16);
  const auto text = randint<A>(rng, 0, 16, {12});
  const auto loss = [&] {
    return nn::cross_entropy_loss(net(text[Range{.stop = -1}]), text[Range{.start = 1}]);
  };
  optim::Adam<A> adam({.rate = 0.03, .weight_decay = 0.01});
  adam.groups.push_back({optim::ending_with("bias"), {.rate = 0.1}});
  nn::requires_grad(net, false, "words");
  const float before = loss().inner().item<float>();
  const Profile profile;
  for (int step = 0; step < 60; ++step) {
    if (step == 30) nn::requires_grad(net, true);
    adam.step(net, optim::collect<A>(net, loss().backward()));
  }
  fmt::print("the slowest op: {}\n", profile.rows()[0].op);
  const NoGrad no_graph;
  const float after = loss().inner().item<float>();
  const auto drawn = multinomial(rng, softmax(net(text)[-1]).inner(), 3);
  fmt::print("loss {:.3f} -> {:.3f}, next tokens {}\n", before, after, drawn);

  // The table into a model of bf16 that has a bias of its own.
  const std::string path = std::filesystem::temp_directory_path() / "first_week.safetensors";
  nn::save(net, path);
  const auto rename = [](const std::string& name) { return name == "last.bias" ? "" : name; };
  const auto loaded = nn::load(narrow, path, {.partial = true, .cast = true, .rename = rename});
  fmt::print("left as they were: {}\n", loaded.missing[0]);
  try {
    const Anomaly watch;
    (void)sqrt(x - 1);
  } catch (const Exception& e) {
    fmt::print("{}\n", e.what());
  }
  std::filesystem::remove(path);
  return good && after < before && loaded.missing.size() == 1 ? 0 : 1;
}
