// Everything to build and train models with.
#pragma once

#include "planck/nn/nn.h"
#include "planck/optim/compiled.h"
#include "planck/optim/ema.h"
#include "planck/optim/scale/loss_scale.h"
#include "planck/optim/schedule.h"
