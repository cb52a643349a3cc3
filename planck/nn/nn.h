// Everything to build models with: modules, losses, quantized layers, state.
#pragma once

#include "planck/nn/attention.h"
#include "planck/nn/compiled.h"
#include "planck/nn/conv.h"
#include "planck/nn/conv1d.h"
#include "planck/nn/conv3d.h"
#include "planck/nn/layers.h"
#include "planck/nn/linear.h"
#include "planck/nn/load.h"
#include "planck/nn/losses.h"
#include "planck/nn/norm.h"
#include "planck/nn/quantize/quantizable.h"
#include "planck/nn/quantize/quantized_file.h"
#include "planck/nn/quantize/quantized_state.h"
#include "planck/nn/spatial_transformer.h"
#include "planck/nn/state.h"
#include "planck/planck.h"
