#include "planck/nn/compiled.h"

namespace planck::nn {

PLANCK_COMPILE_MODULES(template, Autodiff<Cpu>);
PLANCK_IF_CUDA(PLANCK_COMPILE_MODULES(template, Autodiff<Cuda>);)
PLANCK_COMPILE_MODULES(template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_IF_CUDA(PLANCK_COMPILE_MODULES(template, Autodiff<Cuda, BalancedCheckpointing>);)

}  // namespace planck::nn
