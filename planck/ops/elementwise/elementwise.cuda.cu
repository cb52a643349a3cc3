#include "planck/ops/elementwise/kernels.h"
namespace planck {
Result<void> elementwise_cuda_run(const Stream&, Workspace, const ElementwiseProblem&, const Operands&) {
  return fail(ErrorCode::unsupported, "");
}
}
