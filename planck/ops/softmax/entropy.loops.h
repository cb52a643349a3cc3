// The terms of cross_entropy's sums on the CPU (math/exp_terms.h).
#pragma once

#include "planck/loops/blocks.h"

namespace planck {

template <class C>
struct TermSum {
  C largest, center, sum;  // of e(x - center)
};

template <class C>
struct EntropyLoops {
  // e(x - center) of n <= kBlock dense elements.
  void (*terms)(const Source& x, int n, C center, C* out);
  // A dense row of n > 0 elements; null where the instruction set or C has no such loop.
  TermSum<C> (*row)(Dtype, const void* x, std::int64_t n) = nullptr;
};

template <class C>
const EntropyLoops<C>& entropy_loops();

}  // namespace planck
