// Sums of squared deviations and of exponentials on the device.
#include "planck/ops/reduce/device.cuh"

namespace planck::reduce_device {

Result<void> square_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, rm::Add, Lift::square>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, rm::Add, Lift::square>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, rm::Add, Lift::square>(stream, pass, first);
    default:
      return reduce_pass<float, rm::Add, Lift::square>(stream, pass, first);
  }
}

Result<void> exponential_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, rm::Add, Lift::exponential>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, rm::Add, Lift::exponential>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, rm::Add, Lift::exponential>(stream, pass, first);
    default:
      return reduce_pass<float, rm::Add, Lift::exponential>(stream, pass, first);
  }
}

}  // namespace planck::reduce_device
