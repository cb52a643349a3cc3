// cuda:fma_chain. product.launch.cuh chooses the tiles, loops/gemm/cuda/tile.cuh multiplies them.
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/ops/matmul/cuda/product.cuh"

namespace planck {

Result<void> matmul_cuda(const Stream& stream, Workspace, const MatmulProblem& p,
                         const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  gemm::Geometry g = gemm::geometry(p.batch, p.m, p.n, p.k, operands);
  if (g.batches.count == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  // Tiles are wider than high: C lies, or is long, along their rows.
  if (g.n <= 8 ? g.m > g.n : g.m > 8 && g.c.row == 1 && g.c.column != 1) g = g.transposed();
  switch (p.element_dtype) {
    case Dtype::f64:
      return gemm_device::multiply<double>(stream, g);
    case Dtype::f16:
      return gemm_device::multiply<f16>(stream, g);
    case Dtype::bf16:
      return gemm_device::multiply<bf16>(stream, g);
    case Dtype::s8:
      return gemm_device::multiply<std::int8_t>(stream, g);
    default:
      return gemm_device::multiply<float>(stream, g);
  }
}

}  // namespace planck
