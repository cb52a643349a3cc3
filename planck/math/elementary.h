// Elementary functions of our own, in f32 and f64: the same bits on every processor.
//
// They are made of + − × ÷ sqrt fma and integer operations, all of which IEEE 754 fixes; no library
// function is called. Almost all are free of branches, so that plain loops around them vectorize.
// Zeros, infinities, subnormals and NaN are as in C99; every NaN returned is the canonical one.
//
// Largest error in units in the last place of the exact result, over all arguments (f32: every
// float has been tried, f64: samples):
//
//            f32    f64
//   exp      1.1    1.1
//   expm1    1.7    1.8
//   log      1.0    1.0
//   log1p    1.6    1.6
#pragma once

#include "planck/math/exp.h"
#include "planck/math/log.h"
