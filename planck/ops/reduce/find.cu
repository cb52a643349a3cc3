// Where the largest and the smallest are, on the device.
#include "planck/ops/reduce/device.cuh"

namespace planck::reduce_device {

Result<void> find_pass(const Stream& stream, const ReducePass& pass, bool first) {
  switch (pass.problem.element_dtype) {
    case Dtype::f64:
      return reduce_pass<double, Better, Lift::index_key>(stream, pass, first);
    case Dtype::f16:
      return reduce_pass<f16, Better, Lift::index_key>(stream, pass, first);
    case Dtype::bf16:
      return reduce_pass<bf16, Better, Lift::index_key>(stream, pass, first);
    case Dtype::i32:
      return reduce_pass<std::int32_t, Better, Lift::index_key>(stream, pass, first);
    case Dtype::i64:
      return reduce_pass<std::int64_t, Better, Lift::index_key>(stream, pass, first);
    default:
      return reduce_pass<float, Better, Lift::index_key>(stream, pass, first);
  }
}

}  // namespace planck::reduce_device
