// Which worker gets how many grains: those that were faster get more, so that all end together.
//
// Sums do not depend on it (grains.h); time does. Cores are halves of one, other programs use them,
// a GPU works beside CPUs: a batch takes as long as the slowest worker, and with equal shares all
// others wait for it.
#pragma once

#include <cstdint>
#include <span>

#include "planck/dist/grains.h"

namespace planck::dist {

// Shares for workers that took so many nanoseconds for a grain; 0: nobody knows. A function of
// whole numbers, so that all workers find the same ones. Those of Grains(grains, workers), whose
// sums are sent in the fewest bytes, unless the slowest worker ends a twentieth sooner with others.
// Everyone gets a grain, or it would never be known again how fast it is.
Grains balanced(std::int64_t grains, std::span<const std::int64_t> nanoseconds);

}  // namespace planck::dist
