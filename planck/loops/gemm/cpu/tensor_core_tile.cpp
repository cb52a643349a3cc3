// A row of a panel and a block of k at a time: one pass finds the largest exponent of each column,
// in lanes of 16 bits; a second adds the terms. One thread of a Xeon (Sapphire Rapids), 1024 cubed,
// bf16: 22 GFLOP/s with AVX-512, 12 with AVX2; TF32, whose blocks are half as long, 18 and 10.
#include "planck/loops/gemm/cpu/tensor_core_tile.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "planck/loops/cpu/targets.h"
#include "planck/math/products/tensor_core.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/gemm/cpu/tensor_core_tile.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef PLANCK_TENSOR_CORE_FORMULA
#define PLANCK_TENSOR_CORE_FORMULA
namespace planck::gemm {
// The formula for one element: a[0 … count), b[0 … count) with a step between them.
float add_block_by_formula(Dtype dtype, float c, const float* a, const float* b, int b_step,
                           int count);
}  // namespace planck::gemm
#endif

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using gemm::TensorCoreBlock;
using gemm::TensorCoreOps;

template <Dtype kDtype, class E>
void exponents_of(float* values, std::int64_t n, E* exponents) {
  for (std::int64_t i = 0; i < n; ++i) {
    auto bits = std::bit_cast<std::uint32_t>(values[i]);
    if constexpr (kDtype == Dtype::f32) {
      bits &= 0xffffe000u;
      values[i] = std::bit_cast<float>(bits);
    }
    const auto field = static_cast<std::int32_t>((bits >> 23) & 0xffu);
    constexpr std::int32_t kSmallest = kDtype == Dtype::f16 ? -14 : -126;
    std::int32_t e = std::max(field - 127, kSmallest);
    e = field == 255 ? gemm::kExponentOfSpecial : e;
    e = (bits & 0x7fffffffu) == 0 ? gemm::kExponentOfZero : e;
    if constexpr (sizeof(E) == 4)
      e = static_cast<std::int32_t>(static_cast<std::uint32_t>(e) << 16 |
                                    (static_cast<std::uint32_t>(e) & 0xffffu));
    exponents[i] = static_cast<E>(e);
  }
}
template <class E>
void prepare(Dtype dtype, float* values, std::int64_t n, E* exponents) {
  dtype == Dtype::f32   ? exponents_of<Dtype::f32>(values, n, exponents)
  : dtype == Dtype::f16 ? exponents_of<Dtype::f16>(values, n, exponents)
                        : exponents_of<Dtype::bf16>(values, n, exponents);
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2

using D = hn::ScalableTag<float>;
using D32 = hn::ScalableTag<std::int32_t>;
using D16 = hn::ScalableTag<std::int16_t>;
using V = hn::Vec<D>;
using V32 = hn::Vec<D32>;
using V16 = hn::Vec<D16>;
constexpr int kLanes = HWY_MAX_BYTES / 4, kColumns = 2 * kLanes;
static_assert(kColumns <= gemm::kMostTensorCoreColumns);

// Toward zero; |v| < 2^31. Highway's conversion looks for larger ones.
HWY_INLINE V32 truncated(V v) {
#if HWY_TARGET == HWY_AVX3
  return V32{_mm512_cvttps_epi32(v.raw)};
#else
  return V32{_mm256_cvttps_epi32(v.raw)};
#endif
}

// An integer as f32, toward zero.
HWY_INLINE V cut(V32 v) {
#if HWY_TARGET == HWY_AVX3
  return V{_mm512_cvt_roundepi32_ps(v.raw, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
#else
  const D d;
  const D32 d32;
  const V32 magnitude = hn::Abs(v);
  V32 drop = hn::ShiftRight<24>(magnitude);  // as many low bits as it has
  drop = hn::Or(drop, hn::ShiftRight<1>(drop));
  drop = hn::Or(drop, hn::ShiftRight<2>(drop));
  drop = hn::Or(drop, hn::ShiftRight<4>(drop));
  const V kept = hn::ConvertTo(d, hn::AndNot(drop, magnitude));
  return hn::Or(kept, hn::BitCast(d, hn::And(v, hn::Set(d32, INT32_MIN))));
#endif
}

// One block of one row. kCount: products of a whole block; 0: `count` of them.
template <int kBlock, int kCount>
HWY_INLINE void add_block(const TensorCoreBlock& w, std::int64_t row, std::int64_t k, int count,
                          float* HWY_RESTRICT sums) {
  const D d;
  const D32 d32;
  const D16 d16;
  const hn::Half<D16> half;
  const int n = kCount == 0 ? count : kCount;
  const float* HWY_RESTRICT a = w.a + row * w.k + k;
  const std::int32_t* HWY_RESTRICT a_exponent = w.a_exponent + row * w.k + k;
  const float* HWY_RESTRICT b = w.b + k * kColumns;
  const std::int16_t* HWY_RESTRICT b_exponent = w.b_exponent + k * kColumns;
  V16 e = hn::Set(d16, gemm::kExponentOfZero);
#pragma GCC unroll 16
  for (int i = 0; i < n; ++i)
    e = hn::Max(e, hn::Add(hn::BitCast(d16, hn::Set(d32, a_exponent[i])),
                           hn::LoadU(d16, b_exponent + i * kColumns)));
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    const V c = hn::LoadU(d, sums + v * kLanes);
    const V32 field = hn::And(hn::ShiftRight<23>(hn::BitCast(d32, c)), hn::Set(d32, 0xff));
    const V32 c_exponent =
        hn::IfThenElse(hn::RebindMask(d32, hn::Eq(c, hn::Zero(d))),
                       hn::Set(d32, gemm::kExponentOfZero), hn::Sub(field, hn::Set(d32, 127)));
    const V32 largest = hn::Max(
        hn::PromoteTo(d32, v == 0 ? hn::LowerHalf(half, e) : hn::UpperHalf(half, e)), c_exponent);
    auto odd = hn::Or(
        hn::Gt(largest, hn::Set(d32, 120)),
        hn::And(hn::Lt(largest, hn::Set(d32, -100)), hn::Gt(largest, hn::Set(d32, gemm::kNoTerm))));
    const V32 ordinary = hn::Max(largest, hn::Set(d32, -100));
    const V scale = hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(hn::Set(d32, 152), ordinary)));
    const V unit = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Set(d32, 102), ordinary)));
    V32 products = hn::Zero(d32);
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i)
      products = hn::Add(
          products,
          truncated(hn::Mul(hn::Mul(hn::Set(d, a[i]), hn::LoadU(d, b + i * kColumns + v * kLanes)),
                            scale)));
    const V32 start = truncated(hn::Mul(c, scale));
    const V32 sum = hn::Add(products, start);
    if constexpr (kBlock == 16)  // sixteen products fit in 32 bits, c beside them may not
      odd =
          hn::Or(odd, hn::Lt(hn::And(hn::Xor(products, sum), hn::Xor(start, sum)), hn::Zero(d32)));
    V result = hn::Mul(cut(sum), unit);
    if (HWY_UNLIKELY(!hn::AllFalse(d32, odd))) {
      alignas(64) std::int32_t is_odd[kLanes];
      alignas(64) float values[kLanes];
      hn::Store(hn::VecFromMask(d32, odd), d32, is_odd);
      hn::Store(result, d, values);
      for (int j = 0; j < kLanes; ++j)
        if (is_odd[j] != 0)
          values[j] = gemm::add_block_by_formula(w.dtype, sums[v * kLanes + j], a,
                                                 b + v * kLanes + j, kColumns, n);
      result = hn::Load(d, values);
    }
    hn::StoreU(result, d, sums + v * kLanes);
  }
}

template <int kBlock>
void multiply_blocks(const TensorCoreBlock& w) {
  std::int64_t k = 0;
  for (; k + kBlock <= w.k; k += kBlock)
    for (std::int64_t row = 0; row < w.rows; ++row)
      add_block<kBlock, kBlock>(w, row, k, kBlock, w.sums + row * kColumns);
  if (k < w.k)
    for (std::int64_t row = 0; row < w.rows; ++row)
      add_block<kBlock, 0>(w, row, k, static_cast<int>(w.k - k), w.sums + row * kColumns);
}

#else

constexpr int kColumns = 8;

template <int kBlock>
void multiply_blocks(const TensorCoreBlock& w) {
  for (std::int64_t row = 0; row < w.rows; ++row)
    for (int j = 0; j < kColumns; ++j) {
      float& sum = w.sums[row * kColumns + j];
      for (std::int64_t k = 0; k < w.k; k += kBlock)
        sum = gemm::add_block_by_formula(w.dtype, sum, w.a + row * w.k + k, w.b + k * kColumns + j,
                                         kColumns,
                                         static_cast<int>(std::min<std::int64_t>(kBlock, w.k - k)));
    }
}

#endif

void multiply(const TensorCoreBlock& w) {
  const std::int64_t n = w.rows * kColumns;
  if (!w.continues) std::fill(w.sums, w.sums + n, 0.0f);
  w.dtype == Dtype::f32 ? multiply_blocks<8>(w) : multiply_blocks<16>(w);
  if (w.last)
    for (std::int64_t i = 0; i < n; ++i)
      w.sums[i] = w.sums[i] == w.sums[i] ? w.sums[i] : std::numeric_limits<float>::quiet_NaN();
}

constexpr TensorCoreOps kOps = {kColumns, prepare<std::int32_t>, prepare<std::int16_t>, multiply};

}  // namespace

const TensorCoreOps* tensor_core_ops() { return &kOps; }

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(tensor_core_ops);

namespace gemm {

namespace {
template <class Format, class ToBits>
float by_formula(float c, const float* a, const float* b, int b_step, int count, ToBits bits) {
  typename Format::Bits x[Format::kBlock] = {}, y[Format::kBlock] = {};
  for (int i = 0; i < count; ++i) {
    x[i] = bits(a[i]);
    y[i] = bits(b[i * b_step]);
  }
  return math::tensor_core::add_block<Format>(c, x, y);
}
}  // namespace

float add_block_by_formula(Dtype dtype, float c, const float* a, const float* b, int b_step,
                           int count) {
  using namespace math::tensor_core;
  if (dtype == Dtype::f32)
    return by_formula<Tf32>(c, a, b, b_step, count, [](float x) { return math::bits_of(x); });
  if (dtype == Dtype::f16)
    return by_formula<F16>(c, a, b, b_step, count, [](float x) { return f16(x).bits; });
  return by_formula<Bf16>(c, a, b, b_step, count, [](float x) { return bf16(x).bits; });
}

const TensorCoreOps& tensor_core_ops() {
  static const TensorCoreOps& ops = *HWY_DYNAMIC_DISPATCH(tensor_core_ops)();
  return ops;
}

}  // namespace gemm
}  // namespace planck
#endif
