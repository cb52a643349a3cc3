// Where the largest and the smallest are, on the device.
#include "planck/ops/reduce/cuda/device.cuh"
#include "planck/ops/reduce/cuda/visit_number.h"

namespace planck::reduce_device {

Result<void> find_pass(const Stream& stream, const ReducePass& pass) {
  return visit_number(pass.problem.element_dtype, [&](auto type) {
    return reduce_pass<typename decltype(type)::type, Better, Lift::index_key>(stream, pass);
  });
}

}  // namespace planck::reduce_device
