// What a product of matrices means, as a part of the problem: kernels of one meaning give the same
// bits. docs/numerics.md, "Products", has the formulas and their errors.
//
//   chain        one fma after the other, k ascending, in the compute type; every dtype
//   exact        f32: rows of A and columns of B rounded to integers of 23 bits, their product
//                exact, rounded once (exact_product.h); s8: the integer sum
//   tensor_core  bf16, f16, and f32 cut to TF32: blocks of k added at 25 bits, cut toward zero, as
//                the tensor cores of Hopper do (tensor_core.h)
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "planck/core/dtype.h"

namespace planck {

enum class ProductMath : std::uint8_t { chain, exact, tensor_core };

inline constexpr std::array<ProductMath, 3> kAllProductMath = {
    ProductMath::chain, ProductMath::exact, ProductMath::tensor_core};

constexpr std::string_view name(ProductMath m) {
  constexpr std::string_view kNames[] = {"chain", "exact", "tensor_core"};
  return kNames[static_cast<int>(m)];
}

// Whether products of such elements can have that meaning.
constexpr bool serves(ProductMath m, Dtype element) {
  const bool half = element == Dtype::bf16 || element == Dtype::f16;
  switch (m) {
    case ProductMath::chain:
      return element != Dtype::s8;
    case ProductMath::exact:
      return element == Dtype::f32 || element == Dtype::s8;
    default:
      return half || element == Dtype::f32;
  }
}
// What is meant where nobody says: what everybody means by such a product.
constexpr ProductMath default_product_math(Dtype element) {
  if (element == Dtype::s8) return ProductMath::exact;
  return element == Dtype::bf16 || element == Dtype::f16 ? ProductMath::tensor_core
                                                         : ProductMath::chain;
}

constexpr std::optional<ProductMath> parse_product_math(std::string_view text) {
  for (ProductMath m : kAllProductMath)
    if (name(m) == text) return m;
  return std::nullopt;
}

}  // namespace planck
