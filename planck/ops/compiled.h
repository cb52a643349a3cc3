// Ops on tensors that the library has compiled, with their gradients: a program that uses them
// compiles none of them again. Each family lists its ops in a *.list.h and compiles them in its
// *.compiled.cpp. What is not listed is compiled where it is used, as ops of one's own are.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/backend/device_backend.h"
#include "planck/ops/conv/conv.ops.h"
#include "planck/ops/elementwise/elementwise.ops.h"
#include "planck/ops/embedding/embedding.ops.h"
#include "planck/ops/grid_sample/grid_sample.ops.h"
#include "planck/ops/index/index.ops.h"
#include "planck/ops/matmul/matmul.ops.h"
#include "planck/ops/norm/norm.ops.h"
#include "planck/ops/pool/pool.ops.h"
#include "planck/ops/quantize/quantize.ops.h"
#include "planck/ops/reduce/reduce.ops.h"
#include "planck/ops/shape/shape.ops.h"
#include "planck/ops/softmax/softmax.ops.h"
#include "planck/ops/sort/sort.ops.h"

// `how` is template, or extern template for what is compiled elsewhere.
#define PLANCK_COMPILE_OP(how, ...)      \
  how struct Planned<__VA_ARGS__>;       \
  how struct Tracking<Cpu, __VA_ARGS__>; \
  how struct Tracking<Cuda, __VA_ARGS__>

// The tape itself; see autodiff/autodiff.compiled.cpp.
#define PLANCK_COMPILE_TAPE(how, B) \
  how class Gradients<B>;           \
  how class Saved<B>;               \
  how class Pass<B>;                \
  how class Flow<B>;                \
  how class Tape<B>

namespace planck {

#define PLANCK_OP(...) PLANCK_COMPILE_OP(extern template, __VA_ARGS__)
#define PLANCK_CREATION(...) extern template struct Planned<__VA_ARGS__>
#include "planck/ops/conv/conv.list.h"
#include "planck/ops/elementwise/elementwise.list.h"
#include "planck/ops/embedding/embedding.list.h"
#include "planck/ops/grid_sample/grid_sample.list.h"
#include "planck/ops/index/index.list.h"
#include "planck/ops/matmul/matmul.list.h"
#include "planck/ops/norm/norm.list.h"
#include "planck/ops/pool/pool.list.h"
#include "planck/ops/quantize/quantize.list.h"
#include "planck/ops/reduce/reduce.list.h"
#include "planck/ops/shape/shape.list.h"
#include "planck/ops/softmax/softmax.list.h"
#include "planck/ops/sort/sort.list.h"
#undef PLANCK_CREATION
#undef PLANCK_OP

PLANCK_COMPILE_TAPE(extern template, Cpu);
PLANCK_COMPILE_TAPE(extern template, Cuda);

}  // namespace planck
