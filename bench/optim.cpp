// How long a step of AdamW and the norm of all gradients take, beside the memory they move.
//
//   optim_bench [TENSORS] [ELEMENTS] [f32|bf16] [cpu|cuda]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "planck/training.h"

using namespace planck;

namespace {

template <class A>
struct Model {
  std::vector<nn::Parameter<A>> all;
  void visit(auto&& part) { part("all", all); }
};

// Milliseconds of one f(), the best of several times `repeats`, to the end of what it started.
template <class B, class F>
double best(const typename B::Device& device, int repeats, const F& f) {
  double least = 1e300;
  for (int i = 0; i < 7; ++i) {
    B::synchronize(device);
    const auto begin = std::chrono::steady_clock::now();
    for (int r = 0; r < repeats; ++r) f();
    B::synchronize(device);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / repeats);
  }
  return least;
}
void print(std::string_view what, double ms, double bytes) {
  fmt::print("{:24} {:9.3f} ms  {:7.2f} GB/s\n", what, ms, bytes / ms / 1e6);
}

template <class B>
void run(const Stream& device, int tensors, std::int64_t each, Dtype dtype) {
  using A = Autodiff<B>;
  const bool on_gpu = device.device().kind == DeviceKind::cuda;
  const auto time = [&](const auto& f) { return best<B>(device, on_gpu ? 20 : 1, f); };
  Rng rng{.seed = 1};
  Model<A> model;
  optim::ModelGradients<B> gradients;
  for (int i = 0; i < tensors; ++i) {
    model.all.emplace_back(normal<B>(rng, {each}, 0, 1, dtype, device));
    gradients.emplace(fmt::format("all.{}", i), normal<B>(rng, {each}, 0, 1, dtype, device));
  }
  optim::Adam<A> adam({.rate = 1e-3, .weight_decay = 0.01});
  adam.step(model, gradients);
  const double count = static_cast<double>(each) * tensors, stored = bits(dtype) / 8.0;
  // Weight and gradient read, weight written; slots, and a master of 16 bits, both ways.
  const double kept = dtype == Dtype::f64 ? 16 : 8, master = bits(dtype) == 16 ? 4 : 0;
  print("adamw", time([&] { adam.step(model, gradients); }),
        count * (3 * stored + 2 * kept + 2 * master));
  print("adamw, clipped", time([&] { adam.step(model, gradients, optim::clip(gradients, 1)); }),
        count * (4 * stored + 2 * kept + 2 * master));
  print("norm and factor", time([&] { (void)optim::clip(gradients, 1); }), count * stored);
  if (on_gpu) return;
  std::vector<float> from(static_cast<std::size_t>(count)), to(from.size());
  print("memcpy, one thread",
        time([&] { std::memcpy(to.data(), from.data(), from.size() * sizeof(float)); }), count * 8);
}

}  // namespace

int main(int argc, char** argv) try {
  const int tensors = argc > 1 ? std::atoi(argv[1]) : 32;
  const std::int64_t each = argc > 2 ? std::atoll(argv[2]) : 1 << 20;
  const Dtype dtype = argc > 3 ? parse_dtype(argv[3]).value_or(Dtype::f32) : Dtype::f32;
  const bool on_gpu = argc > 4 && std::string_view(argv[4]) == "cuda";
  const Stream device = on_gpu ? value_or_throw(Stream::cuda(0)) : Stream::cpu();
  with_backend_of(device,
                  [&]<class B>(std::type_identity<B>) { run<B>(device, tensors, each, dtype); });
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
