#include "planck/dist/split/tensor_parallel.h"

#include <cstring>

namespace planck::dist {

std::int64_t nowhere(Communicator& workers, std::int64_t elsewhere, std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(workers.size()));
  workers.host().all_gather(&elsewhere, sizeof elsewhere, all.data());
  std::int64_t sum = -count * (workers.size() - 1);
  for (const std::int64_t n : all) sum += n;
  return sum;
}

void join_bits(Communicator& workers, std::span<std::byte> bytes) {
  std::vector<std::uint32_t> mine((bytes.size() + 3) / 4), all(mine.size());
  if (mine.empty()) return;
  std::memcpy(mine.data(), bytes.data(), bytes.size());
  const void* root = mine.data();
  AllReduce reduce(workers.host());
  reduce(Grains(workers.size(), workers.size()), {&root, 1}, all.data(),
         static_cast<std::int64_t>(all.size()), Dtype::i32);
  std::memcpy(bytes.data(), all.data(), bytes.size());
}

}  // namespace planck::dist
