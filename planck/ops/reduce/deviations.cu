// Sums of squared deviations and of exponentials on the device.
#include "planck/ops/reduce/device.cuh"

namespace planck::reduce_device {

Result<void> square_pass(const Stream& stream, const ReducePass& pass, bool first) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, rm::Add, Lift::square>(stream, pass, first);
  });
}

Result<void> exponential_pass(const Stream& stream, const ReducePass& pass, bool first) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, rm::Add, Lift::exponential>(stream, pass,
                                                                                  first);
  });
}

}  // namespace planck::reduce_device
