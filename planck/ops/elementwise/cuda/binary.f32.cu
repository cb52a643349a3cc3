// y = f(a, b) in f32.
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <>
Result<void> launch_float_binary<float>(const Stream& stream, const ElementwiseProblem& p,
                                        const Call& call) {
  return launch_binary<float>(stream, p, call, em::FloatBinary{});
}

}  // namespace planck::elementwise_device
