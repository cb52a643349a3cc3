// Counts what the calling thread asks of the heap, by standing in front of malloc.
#pragma once

#include <cstddef>

namespace planck::conformance {

using AllocationCounter = std::size_t (*)();

// Null under a sanitizer, which stands there itself.
AllocationCounter allocation_counter();

}  // namespace planck::conformance
