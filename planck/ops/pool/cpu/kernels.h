// The CPU kernels of the pool family. Operands have been checked against the problem.
#pragma once

#include "planck/ops/pool/pool.problem.h"

namespace planck {

// cpu:pairs: windows of 2 x 2 side by side, rows dense
Result<void> pool_pairs_cpu(const Stream&, Workspace, const PoolProblem&, const Operands&);
std::string pool_pairs_refusal(const PoolProblem&);

// cpu:taps: tap by tap, in vectors along a row of windows
inline constexpr std::int64_t kMostTapsSpan = 512, kMostTapsBackward = 4;
Result<void> pool_taps_cpu(const Stream&, Workspace, const PoolProblem&, const Operands&);
std::string pool_taps_refusal(const PoolProblem&);
Result<void> pool_taps_backward_cpu(const Stream&, const PoolProblem&, const Operands&);

// cpu:rows
Result<void> pool_rows_cpu(const Stream&, Workspace, const PoolProblem&, const Operands&);

}  // namespace planck
