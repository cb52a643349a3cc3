// expected: no match for .operator\+.
#include "planck/planck.h"

auto f(const planck::Tensor<planck::Cpu>& x,
       const planck::Tensor<planck::Cpu, planck::IntKind>& i) {
  return x + i;
}
