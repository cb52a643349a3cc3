// The shortcuts that CUDA kernels take, against plain math on the device itself.
#include <gtest/gtest.h>

#include "planck/core/cuda/runtime.h"
#include "planck/math/philox.h"
#include "planck/ops/quantize/cuda/cells.cuh"
#include "planck/ops/quantize/test/count_wrong.test.cuh"
#include "planck/verify/on_device.test.h"

namespace planck {
namespace {

namespace qm = quantize_math;
namespace qd = quantize_device;

// Every f32 pattern through the hardware's conversion.
template <class T>
__global__ void narrow_all(unsigned long long* wrong) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  std::uint32_t bits = blockIdx.x * blockDim.x + threadIdx.x;
  for (std::uint64_t n = bits; n < (std::uint64_t{1} << 32); n += stride, bits += stride) {
    const float v = __uint_as_float(bits);
    if (qd::narrow<T>(v).bits != T(qm::canonical(v)).bits) atomicAdd(wrong, 1ull);
  }
}

// Steps, in range and the quotient itself: quick against careful.
template <class T>
__device__ bool quick_is_careful(float x, float s, std::int32_t z) {
  const qd::GridAttributes grid{-128, 127, 128, false};
  const auto inner = qd::make_cell<T>(s, z, 0, grid), outer = qd::make_cell<T>(s, z, 1, grid);
  if (!inner.quick) return true;
  const float v = qd::quick_quotient<T>(x, s, inner.inverse);
  const bool in_reach = fabsf(x / s) < 0x1p22f;  // what f32 corrections are proven for
  const bool exact = qd::is_delicate<T>(x) || (sizeof(T) == 4 && !in_reach) ||
                     __float_as_uint(v) == __float_as_uint(x / s);
  return (exact || (sizeof(T) == 4 && x == 0)) &&
         qd::steps_of<qd::Way::divide, T>(x, inner, grid) ==
             qd::steps_of<qd::Way::careful, T>(x, inner, grid) &&
         qd::inside_of<qd::Way::divide, T>(x, outer, grid) ==
             qd::inside_of<qd::Way::careful, T>(x, outer, grid);
}

// Every 16-bit x by every 16-bit scale.
template <class T>
__global__ void quick_all(unsigned long long* wrong) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint64_t n = blockIdx.x * blockDim.x + threadIdx.x; n < (std::uint64_t{1} << 32);
       n += stride) {
    const float x = widen(T::from_bits(static_cast<std::uint16_t>(n)));
    const float s = widen(T::from_bits(static_cast<std::uint16_t>(n >> 16)));
    const std::int32_t z = static_cast<std::int32_t>(n >> 3 & 255) - 128;
    if (!quick_is_careful<T>(x, s, z)) atomicAdd(wrong, 1ull);
  }
}

// Every positive f32 as a scale: what is said of the inverse of ordinary ones.
__global__ void inverse_all(unsigned long long* wrong) {
  const qd::GridAttributes grid{-128, 127, 128, false};
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint32_t n = blockIdx.x * blockDim.x + threadIdx.x; n < 0x7f800000u; n += stride) {
    const float s = __uint_as_float(n);
    if (qm::has_ordinary_quotient(s) && qd::inverse_of<float>(s, grid) != 1.0f / s)
      atomicAdd(wrong, 1ull);
  }
}

// 2^31 random pairs of f32, x within reach of the grid and any pattern in turns.
__global__ void quick_random(unsigned long long* wrong) {
  const std::uint32_t stride = gridDim.x * blockDim.x;
  for (std::uint64_t n = blockIdx.x * blockDim.x + threadIdx.x; n < (std::uint64_t{1} << 31);
       n += stride) {
    const Philox4 r = PhiloxStream{2026, 7}.words(n);
    const float s = __uint_as_float(r.v[0] & 0x7fffffffu);
    const float near = s * (static_cast<float>(static_cast<std::int32_t>(r.v[1])) * 0x1p-22f);
    const float x = n % 4 == 0 ? __uint_as_float(r.v[2]) : near;
    if (!quick_is_careful<float>(x, s, static_cast<std::int32_t>(r.v[3] & 255) - 128))
      atomicAdd(wrong, 1ull);
  }
}

TEST(QuantizeCudaMath, NarrowingIsThatOfTheHalfTypes) {
  PLANCK_NEEDS_GPU();
  expect_none_wrong(narrow_all<f16>);
  expect_none_wrong(narrow_all<bf16>);
}

TEST(QuantizeCudaMath, QuickIsCarefulForAllHalfOperands) {
  PLANCK_NEEDS_GPU();
  expect_none_wrong(quick_all<f16>);
  expect_none_wrong(quick_all<bf16>);
}

TEST(QuantizeCudaMath, QuickIsCarefulForRandomFloats) {
  PLANCK_NEEDS_GPU();
  expect_none_wrong(quick_random);
}

TEST(QuantizeCudaMath, InverseOfOrdinaryScalesIsRounded) {
  PLANCK_NEEDS_GPU();
  expect_none_wrong(inverse_all);
}

}  // namespace
}  // namespace planck
