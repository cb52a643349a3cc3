// How long a step of AdamW and the norm of all gradients take, beside the memory they move.
//
//   optim_bench [TENSORS] [ELEMENTS] [f32|bf16]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "planck/training.h"

using namespace planck;
using A = Autodiff<Cpu>;

namespace {

struct Model {
  std::vector<nn::Parameter<A>> all;
  void visit(auto&& part) { part("all", all); }
};

// Milliseconds, the best of several.
template <class F>
double best(const F& f) {
  double least = 1e300;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    least = std::min(
        least, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                   .count());
  }
  return least;
}
void print(std::string_view what, double ms, double bytes) {
  fmt::print("{:24} {:9.3f} ms  {:6.2f} GB/s\n", what, ms, bytes / ms / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const int tensors = argc > 1 ? std::atoi(argv[1]) : 32;
  const std::int64_t each = argc > 2 ? std::atoll(argv[2]) : 1 << 20;
  const Dtype dtype = argc > 3 ? parse_dtype(argv[3]).value_or(Dtype::f32) : Dtype::f32;
  Rng rng{.seed = 1};
  Model model;
  optim::ModelGradients<Cpu> gradients;
  for (int i = 0; i < tensors; ++i) {
    model.all.emplace_back(normal<Cpu>(rng, {each}, 0, 1, dtype));
    gradients.emplace(fmt::format("all.{}", i), normal<Cpu>(rng, {each}, 0, 1, dtype));
  }
  optim::Adam<A> adam({.rate = 1e-3, .weight_decay = 0.01});
  adam.step(model, gradients);
  const double count = static_cast<double>(each) * tensors, stored = bits(dtype) / 8.0;
  // Weight and gradient read, weight written; slots, and a master of 16 bits, both ways.
  const double kept = dtype == Dtype::f64 ? 16 : 8, master = bits(dtype) == 16 ? 4 : 0;
  print("adamw", best([&] { adam.step(model, gradients); }),
        count * (3 * stored + 2 * kept + 2 * master));
  print("adamw, clipped", best([&] { adam.step(model, gradients, optim::clip(gradients, 1)); }),
        count * (4 * stored + 2 * kept + 2 * master));
  print("norm", best([&] { (void)optim::norm(gradients); }), count * stored);
  std::vector<float> from(static_cast<std::size_t>(count)), to(from.size());
  print("memcpy, one thread",
        best([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }), count * 8);
}
