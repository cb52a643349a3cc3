// Sums and products on the device.
#include "planck/ops/reduce/device.cuh"

namespace planck::reduce_device {

Result<void> sum_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, rm::Add, Lift::plain>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, rm::Add, Lift::plain>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, rm::Add, Lift::plain>(stream, pass, first);
    case Dtype::i32:
      return reduce_pass<std::int32_t, rm::Add, Lift::plain>(stream, pass, first);
    case Dtype::i64:
      return reduce_pass<std::int64_t, rm::Add, Lift::plain>(stream, pass, first);
    default:
      return reduce_pass<float, rm::Add, Lift::plain>(stream, pass, first);
  }
}

Result<void> prod_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, rm::Multiply, Lift::plain>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, rm::Multiply, Lift::plain>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, rm::Multiply, Lift::plain>(stream, pass, first);
    case Dtype::i32:
      return reduce_pass<std::int32_t, rm::Multiply, Lift::plain>(stream, pass, first);
    case Dtype::i64:
      return reduce_pass<std::int64_t, rm::Multiply, Lift::plain>(stream, pass, first);
    default:
      return reduce_pass<float, rm::Multiply, Lift::plain>(stream, pass, first);
  }
}

}  // namespace planck::reduce_device
