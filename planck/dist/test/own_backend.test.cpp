// DataParallel for a backend that the library was not compiled for: programs compile what they use.
#include <gtest/gtest.h>

#include "planck/dist/data_parallel.h"
#include "planck/dist/transport/threads.h"
#include "planck/training.h"

namespace planck::dist {

namespace {

using A = Autodiff<Cpu>;
const Stream kOne = Stream::cpu(1);

struct Own {
  static constexpr bool recomputes(const OpResult&) { return false; }
};
template <class Backend>
std::string hash_of_gradients(Communicator& workers) {
  Rng rng{.seed = 3};
  nn::Linear<Backend> net(rng, {4, 3}, kOne);
  DataParallel<Backend> parallel(workers);
  const auto found = parallel(net, 5, [&](std::int64_t g) {
    return sum(square(net(full<Backend>({2, 4}, 0.1 * static_cast<double>(g), Dtype::f32, kOne))));
  });
  nn::StateDict all;
  for (const auto& [path, g] : found.gradients) all[path] = nn::to_entry(g);
  return nn::sha256_of(all);
}
TEST(DataParallel, TakesBackendsOfTheProgram) {
  Threads::run(2, [](Communicator& c) {
    EXPECT_EQ((hash_of_gradients<Autodiff<Cpu, Own>>(c)), hash_of_gradients<A>(c));
  });
}

}  // namespace
}  // namespace planck::dist
