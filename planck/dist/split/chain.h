// A matrix product whose k is spread over the workers, with the bits of the whole one, for every
// meaning of products (core/product_math.h). Each worker continues where the one before it stopped,
// k ascending; rows go through the workers like through a pipe, so that all of them are busy.
//
//   chain        the sums of fused multiply-adds are handed on
//   tensor_core  the sums of blocks are; what does not fill a block of k goes on as it is, and
//                fills one together with the next worker's
//   exact        exponents are those of whole rows and columns, of which all workers tell theirs;
//                the integer sums are handed on, and rounded by the last
#pragma once

#include "planck/core/product_math.h"
#include "planck/dist/transport/communicator.h"

namespace planck::dist {

// C [m, n] = A [m, k] × B [k, n], of which this worker has its own k columns of A and rows of B, in
// the order of ranks; row-major, on the host. Every worker gets C. Floats, and a meaning that
// serves them.
struct ChainedProduct {
  Dtype dtype;
  ProductMath math;
  std::int64_t m, n, k;
  const void *a, *b;
  void* c;
};
void multiply(Communicator& workers, const ChainedProduct& product);

}  // namespace planck::dist
