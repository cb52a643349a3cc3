// Threads that train models of their own and read one that is frozen together: each gets the bits
// that it gets alone. With one thread per op, as here, the thread sanitizer sees all there is to
// see (cmake --preset tsan, target tape_test).
#include <gtest/gtest.h>

#include <thread>

#include "planck/training.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;

struct Net {
  nn::Linear<A> first, last;
  nn::LayerNorm<A> norm;
  nn::Dropout drop;
  Net(Rng rng, const nn::Options<A>& at)
      : first(rng, {6, 8}, at), last(rng, {8, 3}, at), norm(Shape{8}, at), drop(0.25, rng.seed) {}
  Tensor<A> operator()(const Tensor<A>& x) { return last(drop(gelu(norm(first(x))))); }
  void visit(auto&& part) {
    part("first", first);
    part("last", last);
    part("norm", norm);
    part("drop", drop);
  }
};

// Twenty steps towards what the teacher says, and a look at it without a graph.
std::string trained(std::uint64_t seed, Net& teacher, const Stream& stream) {
  Rng rng{.seed = seed};
  Net net(rng, stream);
  optim::Adam<A> adam({.rate = 0.01});
  optim::Muon<A> muon({.rate = 0.01});
  optim::Ema<A> average(0.9);
  for (int step = 0; step < 20; ++step) {
    const auto x = nn::constant<A>(normal<Cpu>(rng, {5, 6}, 0, 1, Dtype::f32, stream));
    const auto y = checkpoint([&](const Tensor<A>& t) { return net(t); }, x);
    const auto loss = nn::mse_loss(y, teacher(x));
    auto g = optim::collect<A>(net, loss.backward());
    const auto clip = optim::clip(g, 1);
    muon.step(net, optim::take(g, optim::ending_with("first.weight")), clip);
    adam.step(net, g, clip);
    average.update(net);
  }
  const NoGrad no_graph;
  auto state = nn::state(net);
  state.merge(nn::with_prefix("average.", average.state()));
  state.merge(nn::with_prefix("adam.", adam.state()));
  state["says"] = nn::to_entry(teacher(ones<A>({2, 6}, Dtype::f32, stream)).inner());
  return nn::sha256_of(state);
}

TEST(Threads, TrainModelsOfTheirOwnAndReadOneTogether) {
  const Stream stream = Stream::cpu(1);
  Net teacher(Rng{.seed = 99}, stream);
  nn::requires_grad(teacher, false);
  nn::eval(teacher);
  constexpr std::size_t kThreads = 2;
  std::string wanted[kThreads], found[kThreads];
  for (std::size_t t = 0; t < kThreads; ++t) wanted[t] = trained(t, teacher, stream);
  EXPECT_NE(wanted[0], wanted[1]);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] { found[t] = trained(t, teacher, stream); });
  for (auto& thread : threads) thread.join();
  for (std::size_t t = 0; t < kThreads; ++t) EXPECT_EQ(found[t], wanted[t]) << "thread " << t;
}

}  // namespace

}  // namespace planck::test
