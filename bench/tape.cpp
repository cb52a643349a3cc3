// What the tape costs: a chain of tracked adds of one-element tensors, forward and backward,
// time per op for chains of 10^3 to 10^6 ops. Best of several; nothing but overhead is measured.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "planck/planck.h"

namespace {

using A = planck::Autodiff<planck::Cpu>;
using planck::Tensor;
using Clock = std::chrono::steady_clock;

struct Times {
  double forward, backward;  // ns per op
};

Times chain(int length) {
  const auto x = Tensor<A>::from({0.5f}, {1}).require_grad();
  const auto one = Tensor<A>::from({1.0f}, {1});
  const auto t0 = Clock::now();
  auto y = x;
  for (int i = 0; i < length; ++i) y = y + one;
  const auto t1 = Clock::now();
  const auto grads = y.backward();
  if (x.grad(grads)->to_vector<float>()[0] != 1.0f) std::abort();
  y = x;  // the graph goes
  const auto t2 = Clock::now();
  const auto ns = [&](auto d) {
    return std::chrono::duration<double, std::nano>(d).count() / length;
  };
  return {ns(t1 - t0), ns(t2 - t1)};
}

}  // namespace

int main() {
  std::printf("%10s %14s %22s %10s\n", "ops", "forward ns/op", "backward + free ns/op", "in all");
  for (int length = 1000; length <= 1000000; length *= 10) {
    Times best{1e9, 1e9};
    for (int i = 0; i < std::max(3, 20000 / length); ++i) {
      const Times t = chain(length);
      if (t.forward + t.backward < best.forward + best.backward) best = t;
    }
    std::printf("%10d %14.0f %22.0f %10.0f\n", length, best.forward, best.backward,
                best.forward + best.backward);
  }
}
