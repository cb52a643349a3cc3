#include "planck/optim/compiled.h"

namespace planck::optim {

template struct ModelGradients<Cpu>;
PLANCK_IF_CUDA(template struct ModelGradients<Cuda>;)
PLANCK_COMPILE_OPTIMIZERS(template, Autodiff<Cpu>);
PLANCK_IF_CUDA(PLANCK_COMPILE_OPTIMIZERS(template, Autodiff<Cuda>);)
PLANCK_COMPILE_OPTIMIZERS(template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_IF_CUDA(PLANCK_COMPILE_OPTIMIZERS(template, Autodiff<Cuda, BalancedCheckpointing>);)

}  // namespace planck::optim
