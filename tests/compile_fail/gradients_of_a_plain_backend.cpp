// expected: AutodiffBackend
#include "planck/planck.h"

auto f(const planck::Tensor<planck::Cpu>& x) { return x.backward(); }
