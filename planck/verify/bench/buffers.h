// Operands of a bench case in memory, several sets of them.
#pragma once

#include "planck/core/allocator.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/bench/ceiling.h"

namespace planck::verify {

struct BufferSet {
  std::vector<Buffer> buffers;
  Operands operands{};
  Traffic traffic;
};

// As many sets as it takes to fill `footprint` bytes, at least one, with the case's random values.
[[nodiscard]] Result<std::vector<BufferSet>> make_buffer_sets(const BenchCase& bench,
                                                              const AnyProblem& problem,
                                                              const Stream& stream,
                                                              std::size_t footprint);

// Bytes that the sets together must exceed so that no cache serves the next round.
std::size_t cache_footprint(const Stream& stream);

}  // namespace planck::verify
