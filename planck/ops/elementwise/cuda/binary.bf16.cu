// y = f(a, b) in bf16.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_binary<bf16>(const Stream& stream, const ElementwiseProblem& p,
                                       const Call& call) {
  return launch_binary<bf16>(stream, p, call, em::FloatBinary{});
}

}  // namespace planck::elementwise_device
