// Everything that works on tensors: backends, Tensor<B>, every op with its functions and gradients,
// and Autodiff<B, C>.
#pragma once

#include "planck/autodiff/autodiff.h"
#include "planck/autodiff/checkpoint.h"
#include "planck/autodiff/compiled.h"
#include "planck/backend/anomaly.h"
#include "planck/backend/device_backend.h"
#include "planck/backend/profile.h"
#include "planck/ops/families.grad.h"
