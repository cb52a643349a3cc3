// What an odd case that was taken must give, by naive loops: elementwise ops without scalars,
// reductions, ops by index and mask, sorting, pooling.
#pragma once

#include <string>
#include <vector>

#include "planck/plan/registry.h"
#include "planck/verify/tensors/host_tensor.h"

namespace planck::conformance {

struct TakenCase {
  const AnyProblem& problem;
  std::vector<verify::HostTensor> inputs, outputs;  // those that are used, in the op's order
  double max_ulp = 0;                               // that the kernel promises
};

// "" where the outputs are the naive ones, else what is wrong. `compared` counts the cases that
// have a naive result; sums of values that may overflow have none.
std::string wrong_values(const TakenCase& taken, std::size_t& compared);

}  // namespace planck::conformance
