// What streams of products are made of: every meaning that the dtype's products can have, and
// values whose sums are worth comparing.
#pragma once

#include "planck/core/product_math.h"
#include "planck/verify/tensors/fill.h"

namespace planck::verify {

struct ProductValues {
  ProductMath math;
  Fill fill;  // of factors
};

// For the seeds of hostile_case. NaN is rare: a sum of many terms with one among them is NaN, and
// compares with anything that is.
inline ProductValues product_values(Dtype element, std::uint64_t seed) {
  std::array<ProductMath, 3> served{};
  std::size_t count = 0;
  for (const ProductMath m : kAllProductMath)
    if (serves(m, element)) served[count++] = m;
  constexpr Fill kFills[] = {Fill::normal, Fill::rare, Fill::wide, Fill::cancelling};
  return {served[(seed + seed / 4) % count], kFills[seed % 4]};
}

}  // namespace planck::verify
