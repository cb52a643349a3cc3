// What the launchers of the backward kernels need of each other. Each is compiled once for each
// element type: launch_tiles in sources of its own, because it takes long to compile.
#pragma once

#include "planck/ops/grid_sample/cuda/bins.cuh"

namespace planck::sample_device {

inline constexpr std::int64_t kWalkers = 132 * 4;  // blocks of a kernel that walks over its work
using Backward = sample_operand::Backward;

// dinput and dgrid, either or both.
template <class T>
Result<void> launch_backward(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                             const Operands& o);
// dgrid alone.
template <class T>
Result<void> launch_dgrid(const Stream& stream, const GridSampleProblem& p, const Operands& o);

// 2-D bilinear: dinput, but for tiles with more points than a list holds. `slopes`: whether dgrid
// is done as well.
template <class T>
Result<void> launch_tiles(const Stream& stream, Workspace workspace, const GridSampleProblem& p,
                          const Operands& o, const BinLayout& l, const BinCall& t, bool& slopes);

}  // namespace planck::sample_device
