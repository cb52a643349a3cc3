// Elementary functions of our own, in f32 and f64: the same bits on every processor.
//
// They are made of + − × ÷ sqrt fma and integer operations, all of which IEEE 754 fixes; no library
// function is called. All but sin and cos of huge arguments are free of branches, so that plain
// loops around them vectorize. Zeros, infinities, subnormals and NaN are as in C99; every NaN
// returned is the canonical one.
//
// Largest error, in units in the last place of the exact result (a subnormal's is the smallest
// number). The tests hold these figures: f32 for every 4099th float and every 61st from 1/64 to 64,
// the long tests for every float; f64 and functions of two arguments for samples.
//
//              f32    f64                        f32    f64
//   exp        1.1    1.1          tanh          1.4    1.5
//   expm1      1.7    1.8          sigmoid       2.5    2.5
//   log        1.0    1.0          silu          3.5    3.5
//   log1p      1.6    1.6          softplus      1.9    1.9
//   sin, cos   1.6    1.6          erf           1.3    1.3
//   atan2      1.8    2.4          gelu          5.0    5.0
//   pow        1.3    1.3          rsqrt         1.5    1.5
#pragma once

#include "planck/math/atan2.h"
#include "planck/math/erf.h"
#include "planck/math/exp.h"
#include "planck/math/log.h"
#include "planck/math/pow.h"
#include "planck/math/sigmoid.h"
#include "planck/math/trig.h"

namespace planck::math {

// 1 / sqrt(x), both rounded. rsqrt(±0) = ±Inf.
template <class T>
PLANCK_HD T rsqrt(T x) {
  return canonical(T(1) / sqrt_of(x));
}

}  // namespace planck::math
