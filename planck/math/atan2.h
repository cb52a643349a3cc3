// atan2(y, x), the angle of the point (x, y) in (−π, π], as in C99 for zeros and infinities.
//
//   q = min(|x|, |y|) / max(|x|, |y|);  atan q = q + q³ P(q²), then reflected into the octant
//
// f64 halves the range once more: for q > tan(π/8), atan q = π/4 + atan((min − max) / (min + max)).
#pragma once

#include "planck/math/float_bits.h"

namespace planck::math {

namespace atan_detail {

// (atan q − q) / q³, z = q²: errors of the product with z 2^-28.7 up to 1, 2^-59.4 up to tan²(π/8).
PLANCK_HD float tail(float z) {
  return polynomial(z, -0x1.55554p-2f, 0x1.999298p-3f, -0x1.24283ap-3f, 0x1.c0dea8p-4f,
                    -0x1.58fdaep-4f, 0x1.dd7aa6p-5f, -0x1.02163cp-5f, 0x1.6b63d2p-7f,
                    -0x1.e06deep-10f);
}
PLANCK_HD double tail(double z) {
  return polynomial(z, -0x1.5555555555543p-2, 0x1.999999999639ap-3, -0x1.24924922e8ce4p-3,
                    0x1.c71c70fa584d6p-4, -0x1.745cfae5cfdcbp-4, 0x1.3b113a043379dp-4,
                    -0x1.10ed1012cdde5p-4, 0x1.df216c177a5ffp-5, -0x1.9d1f0fdef38aap-5,
                    0x1.388be9cc0c375p-5, -0x1.26e370584bdcfp-6);
}

// π in two parts.
template <class T>
constexpr T kPi = sizeof(T) == 4 ? T(0x1.921fb6p1f) : T(0x1.921fb54442d18p1);
template <class T>
constexpr T kPiRest = sizeof(T) == 4 ? T(-0x1.777a5cp-24f) : T(0x1.1a62633145c07p-53);

// atan(small / large), 0 <= small <= large, large > 0.
PLANCK_HD float first_octant(float small, float large) {
  const float q = small / large, z = q * q;
  return fma_of(q * z, tail(z), q);
}
PLANCK_HD double first_octant(double small, double large) {
  const bool outer = small > 0.41421356237309503 * large;
  const double q = (outer ? small - large : small) / (outer ? small + large : large), z = q * q;
  const double near = fma_of(q * z, tail(z), q);
  const double far = 0.25 * kPi<double> + (near + 0.25 * kPiRest<double>);
  return outer ? far : near;
}

}  // namespace atan_detail

template <class T>
PLANCK_HD T atan2(T y, T x) {
  using namespace atan_detail;
  constexpr T kHuge = sizeof(T) == 4 ? T(0x1p120f) : T(0x1p1000);
  const T infinity = infinity_of(x), ax = abs_of(x), ay = abs_of(y);
  const bool steep = ay > ax;
  T large = steep ? ay : ax, small = steep ? ax : ay;
  const bool corner = small == infinity;  // both are infinite
  // Sums of the largest numbers must not overflow; what the small one loses is far below the
  // result.
  const T down = large > kHuge ? T(0.25) : T(1);
  small = corner ? T(1) : small * down;
  large = corner ? T(1) : large == T(0) ? T(1) : large * down;
  T r = first_octant(small, large);
  r = steep ? (T(0.5) * kPi<T> - r) + T(0.5) * kPiRest<T> : r;
  const bool left = (bits_of(x) >> (sizeof(T) * 8 - 1)) != 0;
  r = left ? (kPi<T> - r) + kPiRest<T> : r;
  return x != x || y != y ? nan_of(x) : with_sign(r, y);
}

}  // namespace planck::math
