// How many elements ranges have, and what their arguments may be. Throws for others.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck {

// Of start, start + step, … before stop. All of them fit the dtype.
std::int64_t arange_count(std::int64_t start, std::int64_t stop, std::int64_t step, Dtype dtype);
std::int64_t arange_count(double start, double stop, double step);
double linspace_step(double start, double stop, std::int64_t count);
// high − low, which f64 holds.
double randint_range(std::int64_t low, std::int64_t high, Dtype dtype);

}  // namespace planck
