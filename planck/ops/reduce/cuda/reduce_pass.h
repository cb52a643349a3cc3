// One pass over the elements of a CUDA reduction, as host code sees it.
#pragma once

#include "planck/ops/reduce/host/layout.h"

namespace planck::reduce_device {

struct ReducePass {
  const ReduceProblem& problem;
  ReduceLayout layout;
  const void* x = nullptr;
  void* out = nullptr;
  void* partials = nullptr;
};

Result<void> sum_pass(const Stream&, const ReducePass&);
Result<void> prod_pass(const Stream&, const ReducePass&);
Result<void> extreme_pass(const Stream&, const ReducePass&);
Result<void> find_pass(const Stream&, const ReducePass&);

// var and logsumexp.
Result<void> stat_rows_pass(const Stream&, const ReducePass&);
Result<void> stat_columns_pass(const Stream&, const ReducePass&);

}  // namespace planck::reduce_device
