// cpu:integer_lanes against the formula of planck/math/products/tensor_core.h, bit for bit, on the
// instruction set in force (--cpu_target).
#include "planck/math/products/tensor_core.h"

#include <gtest/gtest.h>

#include <random>

#include "planck/ops/matmul/cpu/kernels.h"
#include "planck/ops/matmul/test/placed_product.test.h"

namespace planck {
namespace {

using math::tensor_core::Bf16;
using math::tensor_core::F16;
using math::tensor_core::Tf32;

template <class Format>
constexpr Dtype kDtype = std::is_same_v<Format, Bf16>  ? Dtype::bf16
                         : std::is_same_v<Format, F16> ? Dtype::f16
                                                       : Dtype::f32;

// An f32 sum as it is stored.
template <class Format>
typename Format::Bits stored(float sum) {
  if constexpr (std::is_same_v<Format, Bf16>) return bf16(sum).bits;
  if constexpr (std::is_same_v<Format, F16>) return f16(sum).bits;
  if constexpr (std::is_same_v<Format, Tf32>) return math::bits_of(sum);
}

// Numbers around 1; of all exponents; now and then tiny, huge, zero, infinite or NaN; the largest.
enum class Values { ordinary, wide, hostile, largest };

template <class Format>
typename Format::Bits draw(std::mt19937_64& random, Values values) {
  using Bits = typename Format::Bits;
  constexpr int kM = Format::kMantissa + Format::kDropped;
  constexpr auto kTop = static_cast<std::uint64_t>((1 << Format::kExponent) - 1), kOne = kTop / 2;
  const std::uint64_t r = random(), pick = r >> 40 & 0xffff;
  const auto with = [&](std::uint64_t exponent) {
    return static_cast<Bits>(r >> 63 << (kM + Format::kExponent) | exponent << kM |
                             (r & ((std::uint64_t{1} << kM) - 1)));
  };
  switch (values) {
    case Values::ordinary:
      return pick % 16 == 0 ? Bits{0} : with(kOne - 4 + pick % 6);
    case Values::wide:
      return with(pick % kTop);
    case Values::hostile:
      return pick % 97 == 0   ? with(kTop)
             : pick % 89 == 0 ? static_cast<Bits>(with(kTop) >> kM << kM)
             : pick % 83 == 0 ? with(0)
             : pick % 3 == 0  ? static_cast<Bits>(with(0) >> kM << kM)
             : pick % 71 == 0 ? with(kTop - 1)
             : pick % 5 == 0  ? with(1 + pick % 2)
                              : with(kOne - 2 + pick % 3);
    default:
      return static_cast<Bits>(with(kOne) | ((Bits{1} << kM) - 1)) &
             static_cast<Bits>(pick % 50 == 0 ? ~Bits{0} : static_cast<Bits>(~Bits{0}) >> 1);
  }
}

template <class Format>
void hold(const ProductSizes& e, Placing how, Values values, int threads) {
  using Bits = typename Format::Bits;
  std::mt19937_64 random(static_cast<std::uint64_t>(e.m * 131 + e.n * 17 + e.k));
  PlacedProduct<Bits, Bits> p(kDtype<Format>, e, how, [&] { return draw<Format>(random, values); });
  p.run(matmul_tensor_core_cpu, matmul_tensor_core_cpu_workspace, threads);
  p.expect(
      [&](std::int64_t t, std::int64_t i, std::int64_t j) {
        if (e.k == 0) return Bits{0};
        return stored<Format>(math::tensor_core::product<Format>(
            p.a.pointer(t, i, 0), p.a.column(), p.b.pointer(t, 0, j), p.b.row(), e.k));
      },
      std::string(name(kDtype<Format>)) + " placing " + std::to_string(static_cast<int>(how)) +
          " values " + std::to_string(static_cast<int>(values)));
}

template <class Format>
class TensorCoreProduct : public testing::Test {};
using Formats = testing::Types<Bf16, F16, Tf32>;
TYPED_TEST_SUITE(TensorCoreProduct, Formats);

TYPED_TEST(TensorCoreProduct, IsTheFormula) {
  for (const ProductSizes& e :
       {ProductSizes{0, 1, 1, 1}, ProductSizes{0, 3, 5, 0}, ProductSizes{0, 2, 33, 15},
        ProductSizes{0, 33, 2, 17}, ProductSizes{3, 5, 7, 40}, ProductSizes{0, 70, 140, 31}})
    for (const Placing how : kPlacings)
      for (const Values values : {Values::ordinary, Values::wide, Values::hostile, Values::largest})
        hold<TypeParam>(e, how, values, 2);
}

// Sums that wait between steps of k, more than one task, batches that are rows.
TYPED_TEST(TensorCoreProduct, InStepsAndTasks) {
  hold<TypeParam>({0, 67, 131, 530}, Placing::dense, Values::ordinary, 2);
  hold<TypeParam>({2, 40, 20, 270}, Placing::transposed, Values::hostile, 2);
  hold<TypeParam>({20, 9, 9, 33}, Placing::shared, Values::ordinary, 2);
  hold<TypeParam>({20, 9, 9, 33}, Placing::dense, Values::wide, 3);
}

// Parts of C past the first.
TYPED_TEST(TensorCoreProduct, InParts) {
  hold<TypeParam>({0, 1100, 3, 20}, Placing::dense, Values::ordinary, 2);
  hold<TypeParam>({0, 40, 1100, 20}, Placing::dense, Values::ordinary, 2);
  hold<TypeParam>({0, 1100, 40, 20}, Placing::dense, Values::ordinary, 2);
}

TYPED_TEST(TensorCoreProduct, ThreadsChangeNothing) {
  for (const int threads : {1, 3, 8})
    hold<TypeParam>({0, 130, 100, 300}, Placing::dense, Values::hostile, threads);
}

}  // namespace
}  // namespace planck
