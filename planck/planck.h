// Everything that works on tensors: backends, Tensor<B>, every op with its functions and gradients,
// and Autodiff<B, C>.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/autodiff/checkpoint.h"
#include "planck/backend/device_backend.h"
#include "planck/ops/compiled.h"
#include "planck/ops/conv/conv.grad.h"
#include "planck/ops/elementwise/elementwise.grad.h"
#include "planck/ops/embedding/embedding.grad.h"
#include "planck/ops/grid_sample/grid_sample.grad.h"
#include "planck/ops/index/index.grad.h"
#include "planck/ops/matmul/matmul.grad.h"
#include "planck/ops/norm/norm.grad.h"
#include "planck/ops/pool/pool.grad.h"
#include "planck/ops/quantize/quantize.grad.h"
#include "planck/ops/reduce/reduce.grad.h"
#include "planck/ops/shape/shape.grad.h"
#include "planck/ops/softmax/softmax.grad.h"
#include "planck/ops/sort/sort.grad.h"
