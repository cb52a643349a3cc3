// Which cores a process may run on, and how many of them are for one worker of several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace planck::dist {

// A bit for each of the first 1,024 cores of a machine.
using Cores = std::array<std::uint64_t, 16>;

// Those that mpirun, taskset or a container leaves to this thread; none where there are too many.
Cores cores_of_this_thread();

// Of a core that k workers may run on each has a k-th part: workers that are bound to cores of
// their own have all of these, and those that are not bound share the machine. At least 1.
int cores_for(std::span<const Cores> workers, std::size_t worker);
// Whether that is a whole core, so that a worker that waits awake takes nothing from others.
bool has_own_core(std::span<const Cores> workers, std::size_t worker);

}  // namespace planck::dist
