// How the Reference backend pools.
#pragma once

#include "planck/core/exception.h"
#include "planck/ops/pool/pool.ops.h"
#include "tests/reference/evaluate.h"

namespace planck {

// x → y, and for the largest also indices.
ReferenceOutputs pooled(const PoolProblem& problem, const ReferenceValues& x);
// dy, and the indices of the largest → dx.
ReferenceOutputs pooled_backward(const PoolProblem& problem, const ReferenceValues& dy,
                                 const ReferenceValues* indices);

template <class Op>
requires std::same_as<decltype(std::declval<const Op&>().problem({})), PoolProblem> ReferenceOutputs
evaluate(const Op& op, const ReferenceInputs& in) {
  const PoolProblem problem = op.problem(specs_of(in));
  value_or_throw(problem.check());
  if (problem.backward()) return pooled_backward(problem, *in[0], in.size() > 1 ? in[1] : nullptr);
  return pooled(problem, *in[0]);
}

}  // namespace planck
