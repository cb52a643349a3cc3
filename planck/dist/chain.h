// A matrix product whose k is spread over the workers, with the bits of the whole one: one chain
// of fused multiply-adds per element, k ascending, that each worker continues where the one before
// it stopped. Rows go through the workers like through a pipe, so that all of them are busy.
#pragma once

#include "planck/core/dtype.h"
#include "planck/dist/transport/communicator.h"

namespace planck::dist {

// C [m, n] = A [m, k] × B [k, n], of which this worker has its own k columns of A and rows of B, in
// the order of ranks; row-major, on the host. Every worker gets C.
struct ChainedProduct {
  Dtype dtype;
  std::int64_t m, n, k;
  const void *a, *b;
  void* c;
};
void multiply(Communicator& workers, const ChainedProduct& product);

}  // namespace planck::dist
