// Random affine distortions of images, for training on more images than there are.
//
// What is seen moves by  p → R K p s + t  in the coordinates of affine_grid (x to the right, y
// down, the image is −1 … 1 either way, align_corners = false): sheared along x by k, turned by a
// (clockwise as it is seen), scaled by s, shifted by t. theta is the inverse, which tells
// affine_grid where to look:
//
//   theta = | (c + k n)/s   (n − k c)/s   −(theta00 tx + theta01 ty) |     c = cos a, n = sin a
//           |   −n/s           c/s        −(theta10 tx + theta11 ty) |
//
// With u0 … u4 uniform in [0, 1), 24 bits each, words 0 … 4 of an image's eight:
//   a  = max_rotation (2 u0 − 1)    tx = 2 max_shift (2 u2 − 1)
//   k  = max_shear (2 u1 − 1)       ty = 2 max_shift (2 u3 − 1)
//   s  = min_scale + (max_scale − min_scale) u4
//
// Promise: a function of the arguments alone, with the same bits from every compiler on every CPU.
// Arithmetic is f32 with Planck's own sin and cos; a product that is added to something is always a
// fused multiply-add (distortion.cpp says which), so that nothing is left to contract. Zeros are
// +0. No distortion gives exactly 1 0 0 0 1 0.
#pragma once

#include <cstdint>

#include "planck/core/result.h"

namespace planck {

struct Distortion {
  float max_rotation = 0;              // radians
  float max_shift = 0;                 // a fraction of the image's side
  float min_scale = 1, max_scale = 1;  // above 1 is larger
  float max_shear = 0;                 // of x by y
};

// All finite and not negative, 0 < min_scale <= max_scale; else ErrorCode::invalid_problem. The
// results for others are not promised.
[[nodiscard]] Result<void> check(const Distortion& distortion);

// theta: [2, 3], row-major, of one image in one epoch.
void affine_parameters(const Distortion& distortion, std::uint64_t seed, std::uint64_t epoch,
                       std::int64_t image, float theta[6]);

}  // namespace planck
