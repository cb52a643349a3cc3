// cuda:fma_chain. product.launch.cuh chooses the tiles, loops/gemm/cuda/tile.cuh multiplies them.
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/epilogue.cuh"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/ops/matmul/cuda/product.cuh"
#include "planck/ops/matmul/host/geometry.h"

namespace planck {

namespace {

// What follows is a pass of its own.
template <class T>
Result<void> multiply(const Stream& stream, const gemm::Geometry& g) {
  auto ok = gemm_device::multiply<T>(stream, g);
  return ok ? gemm_device::follow_in_place<T>(stream, g) : ok;
}

}  // namespace

Result<void> matmul_cuda(const Stream& stream, Workspace, const MatmulProblem& p,
                         const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  gemm::Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  // Tiles are wider than high: C lies, or is long, along their rows.
  if (g.n <= 8 ? g.m > g.n : g.m > 8 && g.c.row == 1 && g.c.column != 1) g = g.transposed();
  switch (p.element_dtype) {
    case Dtype::f64:
      return multiply<double>(stream, g);
    case Dtype::f16:
      return multiply<f16>(stream, g);
    case Dtype::bf16:
      return multiply<bf16>(stream, g);
    case Dtype::s8:
      return gemm_device::multiply<std::int8_t>(stream, g);
    default:
      return multiply<float>(stream, g);
  }
}

}  // namespace planck
