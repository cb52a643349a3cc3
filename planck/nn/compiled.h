// Modules that the library has compiled for its backends (nn.compiled.cpp): programs that use them
// do not compile them again.
#pragma once

#include "planck/nn/attention.h"
#include "planck/nn/conv.h"
#include "planck/nn/linear.h"
#include "planck/nn/norm.h"
#include "planck/nn/quantize/quantizable.h"
#include "planck/planck.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_MODULES(how, ...)  \
  how struct Linear<__VA_ARGS__>;         \
  how struct Conv2d<__VA_ARGS__>;         \
  how struct BatchNorm<__VA_ARGS__>;      \
  how class FakeQuant<__VA_ARGS__>;       \
  how class Quant<Linear<__VA_ARGS__>>;   \
  how class Quant<Conv2d<__VA_ARGS__>>;   \
  how class Integer<Linear<__VA_ARGS__>>; \
  how class Integer<Conv2d<__VA_ARGS__>>

namespace planck::nn {

PLANCK_COMPILE_MODULES(extern template, Autodiff<Cpu>);
PLANCK_COMPILE_MODULES(extern template, Autodiff<Cuda>);
PLANCK_COMPILE_MODULES(extern template, Autodiff<Cpu, BalancedCheckpointing>);
PLANCK_COMPILE_MODULES(extern template, Autodiff<Cuda, BalancedCheckpointing>);

}  // namespace planck::nn
