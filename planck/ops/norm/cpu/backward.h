// The gradients of the CPU norms. C is the compute type.
#pragma once

#include "planck/ops/norm/norm.problem.h"

namespace planck {

// bypass: dx is written past the caches.
template <class C>
void norm_backward_cpu(const Stream&, const NormProblem&, const Operands&, C* partials,
                       bool bypass);

}  // namespace planck
