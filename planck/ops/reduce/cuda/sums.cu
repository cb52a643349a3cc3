// Sums and products on the device.
#include "planck/ops/reduce/cuda/device.cuh"
#include "planck/ops/reduce/cuda/visit_number.h"

namespace planck::reduce_device {

Result<void> sum_pass(const Stream& stream, const ReducePass& pass) {
  return visit_number(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, rm::Add, Lift::plain>(stream, pass);
  });
}

Result<void> prod_pass(const Stream& stream, const ReducePass& pass) {
  return visit_number(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, rm::Multiply, Lift::plain>(stream, pass);
  });
}

}  // namespace planck::reduce_device
