// cuda:digits: f32 products as exact sums of integers. A and B are cut into planes of s8 digits,
// then loops/gemm/cuda/exact_tiles.cuh multiplies and joins them.
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/loops/gemm/cuda/exact_tiles.cuh"
#include "planck/ops/matmul/cuda/exact.cuh"

namespace planck {

using namespace gemm_device;

Result<void> matmul_digits(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                           const Operands& operands) {
  auto* const parts = static_cast<char*>(workspace.data);
  return matmul_device::each_exact_run<DigitsLayout>(
      stream, p, operands, [&](const DigitsLayout& at, auto&&... of_run) -> Result<void> {
        matmul_device::ExactRun run(parts, at, Cutter::kPlanes, of_run...);
        if (auto ok = matmul_device::cut<Cutter>(stream, run.a, run.b, at.depth); !ok) return ok;
        ExactArgs& e = run.arguments;
        e.waiting = reinterpret_cast<std::int64_t*>(parts + at.waiting);
        if (at.cut < at.bytes) e.cut_sums = reinterpret_cast<std::int64_t*>(parts + at.cut);
        return launch_digits(native(stream), processors_of(stream), DigitsLayout::kMostBlocks,
                             run.planes_a, run.planes_b, e);
      });
}

}  // namespace planck
