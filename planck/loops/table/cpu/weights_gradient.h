// The gradient of per-sample weights, in the canonical pairwise order (docs/numerics.md):
//   dweights[n] = Σ over columns of dout[bag of n] * weight[indices[n]]
#pragma once

#include "planck/loops/table/cpu/bags.h"
#include "planck/plan/op.h"

namespace planck {

// bag_of: by entry, for entries that are in a bag.
template <class C>
void weights_gradient_cpu(const Stream& stream, const TableProblem& p, const Bags& bags,
                          const std::int64_t* bag_of, const Operands& operands);

}  // namespace planck
