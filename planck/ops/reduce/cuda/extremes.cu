// The largest and the smallest on the device.
#include "planck/ops/reduce/cuda/device.cuh"
#include "planck/ops/reduce/cuda/visit_number.h"

namespace planck::reduce_device {

Result<void> extreme_pass(const Stream& stream, const ReducePass& pass) {
  if (pass.problem.element_dtype == Dtype::boolean)
    return reduce_pass<std::uint8_t, rm::Largest, Lift::key>(stream, pass);
  return visit_number(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, rm::Largest, Lift::key>(stream, pass);
  });
}

}  // namespace planck::reduce_device
