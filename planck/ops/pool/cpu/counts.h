// What the averages of a row of windows divide by.
#pragma once

#include <algorithm>

#include "planck/ops/pool/pool.math.h"

namespace planck {

// Windows [first, first + n) of an axis, each count times `along`. Only those that reach over an
// end of the image differ.
template <class C>
void window_counts(const PoolAxis& axis, std::int64_t along, std::int64_t first, int n, C* counts) {
  std::fill_n(counts, n, static_cast<C>(along * axis.kernel));
  const auto count = [&](int i) { counts[i] = static_cast<C>(along * axis.count(first + i)); };
  for (int i = 0; i < n && axis.start(first + i) < 0; ++i) count(i);
  for (int i = n; i-- > 0 && axis.start(first + i) + axis.kernel > axis.in;) count(i);
}

}  // namespace planck
