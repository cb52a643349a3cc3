// The largest and the smallest on the device.
#include "planck/ops/reduce/device.cuh"

namespace planck::reduce_device {

Result<void> extreme_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, rm::Largest, Lift::key>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, rm::Largest, Lift::key>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, rm::Largest, Lift::key>(stream, pass, first);
    case Dtype::i32:
      return reduce_pass<std::int32_t, rm::Largest, Lift::key>(stream, pass, first);
    case Dtype::i64:
      return reduce_pass<std::int64_t, rm::Largest, Lift::key>(stream, pass, first);
    case Dtype::boolean:
      return reduce_pass<std::uint8_t, rm::Largest, Lift::key>(stream, pass, first);
    default:
      return reduce_pass<float, rm::Largest, Lift::key>(stream, pass, first);
  }
}

}  // namespace planck::reduce_device
