// Beside planck/training.h, for models of Autodiff<B, BalancedCheckpointing>: their modules and
// optimizers are compiled in the library too, and a program that says so does not compile them
// again.
#pragma once

#include "planck/training.h"

namespace planck {

namespace nn {
PLANCK_COMPILE_MODULES(extern template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_IF_CUDA(PLANCK_COMPILE_MODULES(extern template, Autodiff<Cuda, BalancedCheckpointing>);)
}  // namespace nn

namespace optim {
PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_IF_CUDA(PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cuda, BalancedCheckpointing>);)
}  // namespace optim

}  // namespace planck
