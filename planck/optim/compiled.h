// Optimizers that the library has compiled for its backends (optim.compiled.cpp).
#pragma once

#include "planck/optim/adam.h"
#include "planck/optim/sgd.h"
#include "planck/planck.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_OPTIMIZERS(how, ...)                              \
  how ModelGradients<nn::Inner<__VA_ARGS__>> collect_parts<__VA_ARGS__>( \
      const nn::PartList&, const Gradients<nn::Inner<__VA_ARGS__>>&);    \
  how class Adam<__VA_ARGS__>;                                           \
  how class Sgd<__VA_ARGS__>

namespace planck::optim {

PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cpu>);
PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cuda>);
PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cuda, BalancedCheckpointing>);

}  // namespace planck::optim
