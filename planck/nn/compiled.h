// Modules that the library has compiled for its backends (nn.compiled.cpp): programs that use them
// do not compile them again.
#pragma once

#include "planck/nn/attention.h"
#include "planck/nn/conv.h"
#include "planck/nn/layers.h"
#include "planck/nn/linear.h"
#include "planck/nn/losses.h"
#include "planck/nn/norm.h"
#include "planck/nn/quantize/quantizable.h"
#include "planck/planck.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_MODULES(how, ...)                                          \
  how const PartType& part_type<Parameter<__VA_ARGS__>>();                        \
  how const PartType& part_type<Buffer<__VA_ARGS__>>();                           \
  how const PartType& part_type<IntBuffer<__VA_ARGS__>>();                        \
  how struct Linear<__VA_ARGS__>;                                                 \
  how struct Conv2d<__VA_ARGS__>;                                                 \
  how struct ConvTranspose2d<__VA_ARGS__>;                                        \
  how struct BatchNorm<__VA_ARGS__>;                                              \
  how struct LayerNorm<__VA_ARGS__>;                                              \
  how struct RmsNorm<__VA_ARGS__>;                                                \
  how struct MultiHeadAttention<__VA_ARGS__>;                                     \
  how struct Embedding<__VA_ARGS__>;                                              \
  how class FakeQuant<__VA_ARGS__>;                                               \
  how class Quant<Linear<__VA_ARGS__>>;                                           \
  how class Quant<Conv2d<__VA_ARGS__>>;                                           \
  how class Integer<Linear<__VA_ARGS__>>;                                         \
  how class Quantizable<Linear<__VA_ARGS__>>;                                     \
  how class Integer<Conv2d<__VA_ARGS__>>;                                         \
  how class Quantizable<Conv2d<__VA_ARGS__>>;                                     \
  how class StoredLinear<__VA_ARGS__>;                                            \
  how Tensor<__VA_ARGS__> cross_entropy_loss(const Tensor<__VA_ARGS__>&,          \
                                             const Tensor<__VA_ARGS__, IntKind>&, \
                                             const CrossEntropyOptions<__VA_ARGS__>&)

namespace planck::nn {

PLANCK_COMPILE_MODULES(extern template, Autodiff<Cpu>);
PLANCK_IF_CUDA(PLANCK_COMPILE_MODULES(extern template, Autodiff<Cuda>);)

}  // namespace planck::nn
