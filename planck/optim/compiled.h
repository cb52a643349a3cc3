// Optimizers that the library has compiled for its backends (optim.compiled.cpp).
#pragma once

#include "planck/optim/adagrad.h"
#include "planck/optim/adam.h"
#include "planck/optim/lamb.h"
#include "planck/optim/lion.h"
#include "planck/optim/muon.h"
#include "planck/optim/rmsprop.h"
#include "planck/optim/sgd.h"
#include "planck/planck.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_OPTIMIZERS(how, ...)                                                       \
  how ModelGradients<nn::Inner<__VA_ARGS__>> collect_parts<__VA_ARGS__>(                          \
      const nn::PartList&, const Gradients<nn::Inner<__VA_ARGS__>>&);                             \
  how void step_parameters<__VA_ARGS__>(Slots&, const nn::PartList&,                              \
                                        const ModelGradients<nn::Inner<__VA_ARGS__>>&,            \
                                        const Clip<nn::Inner<__VA_ARGS__>>&, bool, const Choose&, \
                                        const std::shared_ptr<const Outcome>&)

namespace planck::optim {

extern template struct ModelGradients<Cpu>;
PLANCK_IF_CUDA(extern template struct ModelGradients<Cuda>;)
PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cpu>);
PLANCK_IF_CUDA(PLANCK_COMPILE_OPTIMIZERS(extern template, Autodiff<Cuda>);)

}  // namespace planck::optim
