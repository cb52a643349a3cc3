// The loops of var and logsumexp, one table for each instruction set: what is known of chunks of
// elements (reduce.math.h). S is Spread or ExpSum.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/ops/reduce/reduce.math.h"

namespace planck {

template <template <class> class S, class C>
struct StatLoops {
  // n > 0 dense elements; the first starts a chunk, and chunks are joined.
  S<C> (*row)(const Source&, std::int64_t n);
  // Rows of n dense columns, `count` <= kStatChunk of them, which are a chunk of each column.
  void (*columns)(const void* const* rows, int count, Dtype, int n, S<C>* out);
  // right = left joined with right, n of each.
  void (*join)(int n, const S<C>* left, S<C>* right);
};

template <template <class> class S, class C>
const StatLoops<S, C>& stat_loops();

// For JoinCounter.
struct JoinStats {
  template <class A>
  PLANCK_HD static A nothing() {
    return {};
  }
  template <class A>
  PLANCK_HD static A of(const A& a, const A& b) {
    return reduce_math::joined(a, b);
  }
};

}  // namespace planck
