// expected: no match for .operator\*.
#include "planck/planck.h"

auto f(const planck::Tensor<planck::Cpu>& x, const planck::Tensor<planck::Cuda>& y) {
  return x * y;
}
