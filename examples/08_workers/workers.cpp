// The transformer of 05_char_lm on any number of workers: one hash for all of them.
//
//   workers [FILE] [STEPS]
//   mpirun -np 3 workers
//
// A batch is cut into grains of two windows. Optimizer state is spread over the workers.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "../05_char_lm/model.h"
#include "planck/dist/data_parallel.h"
#include "planck/dist/sharded.h"
#include "planck/dist/transport/mpi.h"

using namespace planck;
using A = Autodiff<Cpu>;

namespace {

constexpr std::int64_t kLength = 48, kWidth = 64, kGrains = 8, kWindows = 2;  // of a grain

Tensor<A, IntKind> bytes(const std::string& text, std::span<const std::int64_t> starts,
                         const Shape& shape, const Stream& stream) {
  std::vector<std::int64_t> codes;
  for (const std::int64_t s : starts)
    for (std::int64_t i = s; i < s + kLength; ++i)
      codes.push_back(static_cast<unsigned char>(text[static_cast<std::size_t>(i)]));
  return Tensor<A, IntKind>::from(std::span<const std::int64_t>(codes), shape, stream);
}

int train(dist::Communicator& workers, const std::string& text, int steps) {
  const Stream stream = Cpu::default_device();
  Rng rng{.seed = 5 + static_cast<std::uint64_t>(workers.rank())};
  CharLm<A> model(rng, kLength, kWidth, 2);
  dist::broadcast_state(workers, model);  // the first worker's
  dist::DataParallel<A> parallel(workers);
  dist::Sharded<A, optim::Adam<A>> adam(workers, optim::Adam<A>({.rate = 3e-3}));
  for (int step = 0; step < steps; ++step) {
    auto found = parallel(model, kGrains, [&](std::int64_t grain) {
      Rng places{.seed = 7, .offset = static_cast<std::uint64_t>(step * kGrains + grain) * 64};
      const auto drawn =
          uniform<Cpu>(places, {kWindows}, 0, static_cast<double>(text.size() - kLength - 1));
      auto starts = to_int(drawn).to_vector<std::int64_t>();
      const auto logits = model(bytes(text, starts, {kWindows, kLength}, stream));
      for (std::int64_t& s : starts) ++s;
      const auto next = bytes(text, starts, {kWindows * kLength}, stream);
      return nn::cross_entropy_loss(reshape(logits, {-1, 256}), next) * (1.0 / kGrains);
    });
    optim::clip_norm(found.gradients, 1.0);
    adam.step(model, found.gradients);
    if (workers.rank() == 0 && (step % 10 == 0 || step + 1 == steps))
      fmt::print("step {:4}  loss {:.4f}\n", step, found.loss);
  }
  if (const auto differs = dist::difference(workers, model)) raise(ErrorCode::device, *differs);
  auto all = nn::state(model);
  all.merge(nn::with_prefix("adam.", adam.state()));
  if (workers.rank() == 0) fmt::print("weights sha256 {}\n", nn::sha256_of(all));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : DEFAULT_TEXT;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 20;
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file || text.size() < 2000 || steps < 1) {
    fmt::print(stderr, "usage: workers [FILE] [STEPS]; {} has {} bytes, 2000 are the least\n", path,
               text.size());
    return 2;
  }
  dist::Alone alone;
  if (!dist::Mpi::launched()) return train(alone, text, steps);
  const auto workers = value_or_throw(dist::Mpi::join());
  return dist::or_abort(*workers, "workers", [&] { return train(*workers, text, steps); });
}
