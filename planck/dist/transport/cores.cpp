#include "planck/dist/transport/cores.h"

#include <sched.h>

#include <algorithm>
#include <map>

namespace planck::dist {

namespace {
bool has(const Cores& cores, std::size_t core) { return (cores[core / 64] >> core % 64 & 1) != 0; }

double parts_for(std::span<const Cores> workers, std::size_t worker) {
  std::map<std::ptrdiff_t, int> shared_by;  // so many workers: how many cores
  for (std::size_t i = 0; i < 64 * workers[worker].size(); ++i)
    if (has(workers[worker], i))
      ++shared_by[std::count_if(workers.begin(), workers.end(),
                                [&](const Cores& other) { return has(other, i); })];
  double parts = 0;
  for (const auto& [sharing, cores] : shared_by)
    parts += static_cast<double>(cores) / static_cast<double>(sharing);
  return parts + 1e-9;
}
}  // namespace

Cores cores_of_this_thread() {
  Cores cores{};
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t i = 0; i < 64 * cores.size(); ++i)
    if (CPU_ISSET(i, &set)) cores[i / 64] |= std::uint64_t{1} << i % 64;
  return cores;
}

int cores_for(std::span<const Cores> workers, std::size_t worker) {
  return std::max(1, static_cast<int>(parts_for(workers, worker)));
}
bool has_own_core(std::span<const Cores> workers, std::size_t worker) {
  return parts_for(workers, worker) >= 1;
}

}  // namespace planck::dist
