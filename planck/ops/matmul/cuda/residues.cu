// cuda:residues: f32 products as exact sums of integers. A and B are cut into planes of residues
// modulo small numbers, then loops/gemm/cuda/residue_tiles.cuh multiplies and joins them.
#include "planck/loops/gemm/cuda/residue_cutter.cuh"
#include "planck/loops/gemm/cuda/residue_tiles.cuh"
#include "planck/ops/matmul/cuda/exact.cuh"

namespace planck {

using namespace gemm_device;

Result<void> matmul_residues(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                             const Operands& operands) {
  auto* const parts = static_cast<char*>(workspace.data);
  return matmul_device::each_exact_run<ResiduesLayout>(
      stream, p, operands, [&](const ResiduesLayout& at, auto&&... of_run) -> Result<void> {
        matmul_device::ExactRun run(parts, at, ResidueCutter::kPlanes, of_run...);
        if (auto ok = matmul_device::cut<ResidueCutter>(stream, run.a, run.b, at.depth); !ok)
          return ok;
        return launch_residues(native(stream), processors_of(stream), ResiduesLayout::kMostBlocks,
                               run.planes_a, run.planes_b,
                               {run.arguments, run.a.squares, run.b.squares,
                                reinterpret_cast<std::uint32_t*>(parts + at.residues)});
      });
}

}  // namespace planck
