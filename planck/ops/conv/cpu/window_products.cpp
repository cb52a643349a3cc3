// The rows of the kernel tables that sum as tensor_core and exact say.
#include "planck/ops/conv/cpu/window_products.h"

#include "planck/ops/conv/cpu/kernels.h"

namespace planck {

using conv_detail::Engine;
using gemm::ExactBy;

namespace {

Result<void> run(const Stream& stream, Workspace workspace, const ConvProblem& p,
                 const Operands& operands, const Engine& engine) {
  return p.kind == ConvKind::conv2d_weight
             ? conv_detail::weight_sums(stream, workspace, p, operands, engine)
             : conv_detail::image_sums(stream, workspace, p, operands, engine);
}
std::size_t workspace_of(const ConvProblem& p, const Engine& engine) {
  return p.kind == ConvKind::conv2d_weight ? conv_detail::weight_sums_workspace(p, engine)
                                           : conv_detail::image_sums_workspace(p, engine);
}

}  // namespace

Result<void> conv_integer_lanes_cpu(const Stream& stream, Workspace workspace, const ConvProblem& p,
                                    const Operands& operands) {
  return run(stream, workspace, p, operands, {});
}
std::size_t conv_integer_lanes_cpu_workspace(const ConvProblem& p) { return workspace_of(p, {}); }

std::string conv_exact_amx_refusal(const ConvProblem&) { return gemm::exact_refusal(ExactBy::amx); }
Result<void> conv_exact_amx(const Stream& stream, Workspace workspace, const ConvProblem& p,
                            const Operands& operands) {
  return run(stream, workspace, p, operands, {ExactBy::amx});
}
std::size_t conv_exact_amx_workspace(const ConvProblem& p) {
  return workspace_of(p, {ExactBy::amx});
}

std::string conv_exact_vnni_refusal(const ConvProblem&) {
  return gemm::exact_refusal(ExactBy::vnni);
}
Result<void> conv_exact_vnni(const Stream& stream, Workspace workspace, const ConvProblem& p,
                             const Operands& operands) {
  return run(stream, workspace, p, operands, {ExactBy::vnni});
}
std::size_t conv_exact_vnni_workspace(const ConvProblem& p) {
  return workspace_of(p, {ExactBy::vnni});
}

Result<void> conv_exact_f64(const Stream& stream, Workspace workspace, const ConvProblem& p,
                            const Operands& operands) {
  return run(stream, workspace, p, operands, {ExactBy::f64});
}
std::size_t conv_exact_f64_workspace(const ConvProblem& p) {
  return workspace_of(p, {ExactBy::f64});
}

}  // namespace planck
