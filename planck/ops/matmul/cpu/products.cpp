// cpu:integer_lanes, cpu:exact_amx, cpu:exact_vnni, cpu:exact_f64: batches of the products of
// loops/gemm/cpu/product.h.
#include "planck/loops/gemm/cpu/blocked.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/loops/gemm/cpu/tensor_core_tile.h"
#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck {

using namespace gemm;

namespace {

// A problem with the axis in vectors that suits panels of so many columns.
Geometry oriented(const MatmulProblem& p, const Operands& operands, std::int64_t panel) {
  return vectors_along_rows(geometry_of(p, operands), panel);
}

}  // namespace

std::size_t matmul_tensor_core_cpu_workspace(const MatmulProblem& p) {
  return blocked_workspace(p.batch, p.m, p.n, p.k, tensor_core_bytes);
}

Result<void> matmul_tensor_core_cpu(const Stream& stream, Workspace workspace,
                                    const MatmulProblem& p, const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  const Geometry g = oriented(p, operands, tensor_core_ops().columns);
  for_batches(stream, workspace, g.m, g.n, g.k, g.batches.count, tensor_core_bytes(g.m, g.n, g.k),
              [&](const Stream& on, std::byte* bytes, std::int64_t batch) {
                multiply_tensor_core(on, p.element_dtype, product_of(g, batch), bytes);
              });
  return {};
}

namespace {

template <ExactBy kBy>
Result<void> run(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                 const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  const Geometry g = oriented(p, operands, exact_columns(kBy));
  for_batches(stream, workspace, g.m, g.n, g.k, g.batches.count, exact_bytes(kBy, g.m, g.n, g.k),
              [&](const Stream& on, std::byte* bytes, std::int64_t batch) {
                multiply_exact(kBy, on, product_of(g, batch), bytes);
              });
  return {};
}

template <ExactBy kBy>
std::size_t workspace_of(const MatmulProblem& p) {
  return blocked_workspace(
      p.batch, p.m, p.n, p.k,
      [](std::int64_t m, std::int64_t n, std::int64_t k) { return exact_bytes(kBy, m, n, k); });
}

}  // namespace

std::string matmul_exact_amx_refusal(const MatmulProblem&) { return exact_refusal(ExactBy::amx); }
Result<void> matmul_exact_amx(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                              const Operands& operands) {
  return run<ExactBy::amx>(stream, workspace, p, operands);
}
std::size_t matmul_exact_amx_workspace(const MatmulProblem& p) {
  return workspace_of<ExactBy::amx>(p);
}

std::string matmul_exact_vnni_refusal(const MatmulProblem&) { return exact_refusal(ExactBy::vnni); }
Result<void> matmul_exact_vnni(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                               const Operands& operands) {
  return run<ExactBy::vnni>(stream, workspace, p, operands);
}
std::size_t matmul_exact_vnni_workspace(const MatmulProblem& p) {
  return workspace_of<ExactBy::vnni>(p);
}

Result<void> matmul_exact_f64(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                              const Operands& operands) {
  return run<ExactBy::f64>(stream, workspace, p, operands);
}
std::size_t matmul_exact_f64_workspace(const MatmulProblem& p) {
  return workspace_of<ExactBy::f64>(p);
}

}  // namespace planck
