// Ops on tensors that the library has compiled, with their gradients: a program that uses them
// compiles none of them again. Each family lists its ops in a *.list.h, which the build compiles
// (cmake/Family.cmake). What is not listed is compiled where it is used, as ops of one's own are.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/backend/device_backend.h"
#include "planck/ops/families.ops.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_OP(how, ...)     \
  how struct Planned<__VA_ARGS__>;      \
  how struct Tracking<Cpu, __VA_ARGS__> \
      PLANCK_IF_CUDA(; how struct Tracking<Cuda, __VA_ARGS__>)

// The tape itself; see autodiff/autodiff.compiled.cpp.
#define PLANCK_COMPILE_TAPE(how, B) \
  how class Gradients<B>;           \
  how class Saved<B>;               \
  how class Recompute<B>;           \
  how class Pass<B>;                \
  how class Flow<B>;                \
  how class Tape<B>

namespace planck {

#define PLANCK_OP(...) PLANCK_COMPILE_OP(extern template, __VA_ARGS__)
#define PLANCK_CREATION(...) extern template struct Planned<__VA_ARGS__>
#include "planck/ops/families.list.h"
#undef PLANCK_CREATION
#undef PLANCK_OP

PLANCK_COMPILE_TAPE(extern template, Cpu);
PLANCK_IF_CUDA(PLANCK_COMPILE_TAPE(extern template, Cuda);)

}  // namespace planck
