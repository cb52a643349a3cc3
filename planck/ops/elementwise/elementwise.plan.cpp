// The kernel table of the elementwise family.
#include <cmath>

#include "planck/ops/elementwise/cast.math.h"
#include "planck/ops/elementwise/cpu/kernels.h"
#include "planck/ops/elementwise/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// A 16-bit result is an f32 one rounded once more: half a place and a little, unless f32 holds
// twice the digits of all operands. Scalars have 24.
PrecisionGuarantee guarantee(const ElementwiseProblem& p) {
  const Dtype compute = compute_dtype(p.dtype);
  double ulp = std::ceil(elementwise_max_ulp(p.op));
  const bool scalar = p.op == ElementwiseOp::leaky_relu ||
                      (p.op >= ElementwiseOp::add_scalar && p.op <= ElementwiseOp::rdiv_scalar);
  if (p.dtype == Dtype::f16 || p.dtype == Dtype::bf16) ulp = ulp > 0 || scalar ? 1 : 0;
  return {compute, compute, Reproducibility::cross_device, ulp};
}

constexpr Kernel<ElementwiseProblem> kTable[] = {
    {"cuda:vector", kCuda, accept, no_workspace, guarantee, elementwise_cuda_run},
    {"cpu:simd", kCpu, accept, no_workspace, guarantee, elementwise_cpu_run},
};

template <class T>
std::uint64_t bits_in(T v) {
  if constexpr (sizeof(T) == 8)
    return std::bit_cast<std::uint64_t>(v);
  else if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(v);
  else if constexpr (sizeof(T) == 2)
    return v.bits;
  else
    return static_cast<std::uint8_t>(v);
}

}  // namespace

std::span<const Kernel<ElementwiseProblem>> ElementwiseProblem::kernels() const { return kTable; }

std::uint64_t scalar_bits(const ElementwiseProblem& p) {
  using elementwise_math::cast_to;
  const Scalar& s = p.scalars[0];
  const auto held = [&](std::int64_t low, std::int64_t high) {
    return s.whole < low ? low : s.whole > high ? high : s.whole;
  };
  switch (p.dtype) {
    case Dtype::f64:
      return bits_in(cast_to<double>(s.number));
    case Dtype::f32:
      return bits_in(cast_to<float>(s.number));
    case Dtype::f16:
      return bits_in(cast_to<f16>(s.number));
    case Dtype::bf16:
      return bits_in(cast_to<bf16>(s.number));
    case Dtype::i64:
      return static_cast<std::uint64_t>(s.whole);
    case Dtype::i32:
      return static_cast<std::uint32_t>(held(INT32_MIN, INT32_MAX));
    case Dtype::s8:
      return static_cast<std::uint8_t>(held(-128, 127));
    case Dtype::boolean:
      return s.number != 0 || s.whole != 0 ? 1 : 0;
    default:
      return static_cast<std::uint8_t>(held(0, 255));
  }
}

}  // namespace planck
