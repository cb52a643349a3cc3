// y = f(x) of floats. The build makes one source for each element type (CMakeLists.txt).
#pragma once

#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

template <class T>
Result<void> launch_float_unary(const Stream& stream, const ElementwiseProblem& p,
                                const Call& call) {
  return launch_unary<T>(stream, p, call, em::FloatUnary{});
}

}  // namespace planck::elementwise_device

#define PLANCK_INSTANTIATE(T)                                                           \
  namespace planck::elementwise_device {                                                \
  template Result<void> launch_float_unary<T>(const Stream&, const ElementwiseProblem&, \
                                              const Call&);                             \
  }
