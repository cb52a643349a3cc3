// Everything to build and train models with.
#pragma once

#include "planck/nn/nn.h"
#include "planck/optim/adam.h"
#include "planck/optim/compiled.h"
#include "planck/optim/schedule.h"
#include "planck/optim/sgd.h"
