// The order of the sort family: an element's bits as an unsigned integer that is compared instead.
//
// Numbers as usual, −0 equal to +0, every NaN equal and above all numbers. Descending is the
// complement, so that NaN come first. Equal keys keep the order of their positions.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"
#include "planck/core/macros.h"

namespace planck::sort_math {

// What tells the dtypes of one size apart.
enum class Order : std::uint8_t { integer, f16, bf16, f32, f64 };

constexpr Order order_of(Dtype t) {
  switch (t) {
    case Dtype::f16:
      return Order::f16;
    case Dtype::bf16:
      return Order::bf16;
    case Dtype::f32:
      return Order::f32;
    case Dtype::f64:
      return Order::f64;
    default:
      return Order::integer;
  }
}

// kBits: of the element. The key has as many, in the low bits of U.
template <class U, int kBits>
PLANCK_HD U key_of(U bits, Order order, bool descending) {
  constexpr U kSign = U{1} << (kBits - 1);
  constexpr U kAll = static_cast<U>(~U{0}) >> (8 * sizeof(U) - kBits);
  U key = bits ^ kSign;
  if (order != Order::integer) {
    const int mantissa = order == Order::f16    ? 10
                         : order == Order::bf16 ? 7
                         : order == Order::f32  ? 23
                                                : 52;
    const U magnitude = bits & ~kSign;
    const U infinity = ((U{1} << (kBits - 1 - mantissa)) - 1) << mantissa;
    key = (bits & kSign) != 0 && magnitude != 0 ? kAll & ~bits : magnitude | kSign;
    if (magnitude > infinity) key = kAll;
  }
  return descending ? kAll & ~key : key;
}

}  // namespace planck::sort_math
