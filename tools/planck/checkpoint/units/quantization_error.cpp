#include "tools/planck/checkpoint/units/quantization_error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "planck/loops/cpu/targets.h"
#include "planck/loops/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/planck/checkpoint/units/quantization_error.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr int kErrorLanes = 8, kErrorStep = 256;

// Sums of each lane: x², (x − y)², the largest |x − y|, how many are not finite.
struct ErrorLanes {
  double signal[kErrorLanes] = {}, noise[kErrorLanes] = {}, most[kErrorLanes] = {},
         odd[kErrorLanes] = {};
};

template <class C>
HWY_INLINE void add_element(double v, C y, int l, ErrorLanes& sum) {
  const bool finite = v - v == 0;
  const double kept = finite ? v : 0, off = finite ? v - static_cast<double>(y) : 0;
  const double size = std::fabs(off);
  sum.signal[l] += kept * kept;
  sum.noise[l] += off * off;
  // Not std::max: a NaN in y must come through.
  sum.most[l] = size <= sum.most[l] ? sum.most[l] : size;
  sum.odd[l] += finite ? 0 : 1;
}

HWY_INLINE auto loaded(const double* p, hn::CappedTag<double, kErrorLanes> d) {
  return hn::LoadU(d, p);
}
HWY_INLINE auto loaded(const float* p, hn::CappedTag<double, kErrorLanes> d) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, decltype(d)>(), p));
}

// Lanes of the definition in vectors of whatever length. In plain loops GCC does not vectorize it.
template <class C>
HWY_NOINLINE void add_step(const C* HWY_RESTRICT x, const C* HWY_RESTRICT y, int n,
                           ErrorLanes& sum) {
  const hn::CappedTag<double, kErrorLanes> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const int whole = n / kErrorLanes * kErrorLanes;
  for (int l = 0; l < kErrorLanes; l += lanes) {
    auto signal = hn::LoadU(d, sum.signal + l), noise = hn::LoadU(d, sum.noise + l);
    auto most = hn::LoadU(d, sum.most + l), odd = hn::LoadU(d, sum.odd + l);
    for (int i = l; i < whole; i += kErrorLanes) {
      const auto v = loaded(x + i, d);
      const auto finite = hn::Eq(hn::Sub(v, v), zero);
      const auto kept = hn::IfThenElseZero(finite, v);
      const auto off = hn::IfThenElseZero(finite, hn::Sub(v, loaded(y + i, d)));
      const auto size = hn::Abs(off);
      signal = hn::Add(signal, hn::Mul(kept, kept));
      noise = hn::Add(noise, hn::Mul(off, off));
      most = hn::IfThenElse(hn::Le(size, most), most, size);
      odd = hn::Add(odd, hn::IfThenElse(finite, zero, one));
    }
    hn::StoreU(signal, d, sum.signal + l);
    hn::StoreU(noise, d, sum.noise + l);
    hn::StoreU(most, d, sum.most + l);
    hn::StoreU(odd, d, sum.odd + l);
  }
  for (int i = whole; i < n; ++i)
    add_element(static_cast<double>(x[i]), y[i], i % kErrorLanes, sum);
}

void block_error(Dtype dtype, const void* x, const void* y, std::int64_t n, double* lanes_of) {
  ErrorLanes sum;
  for (std::int64_t i = 0; i < n; i += kErrorStep) {
    const int m = static_cast<int>(std::min<std::int64_t>(kErrorStep, n - i));
    if (dtype == Dtype::f64) {
      add_step(static_cast<const double*>(x) + i, static_cast<const double*>(y) + i, m, sum);
    } else if (dtype == Dtype::f32) {
      add_step(static_cast<const float*>(x) + i, static_cast<const float*>(y) + i, m, sum);
    } else {
      float wide[2][kErrorStep];
      const void* both[] = {x, y};
      for (int k = 0; k < 2; ++k) {
        const auto* in = static_cast<const std::uint16_t*>(both[k]) + i;
        dtype == Dtype::f16 ? widen_f16(in, m, wide[k], 0) : widen_bf16(in, m, wide[k], 0);
      }
      add_step(wide[0], wide[1], m, sum);
    }
  }
  for (int l = 0; l < kErrorLanes; ++l) {
    lanes_of[4 * l] = sum.signal[l];
    lanes_of[4 * l + 1] = sum.noise[l];
    lanes_of[4 * l + 2] = sum.most[l];
    lanes_of[4 * l + 3] = sum.odd[l];
  }
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(block_error);
constexpr std::int64_t kErrorBlock = 1 << 16;
constexpr int kErrorSums = 8;

void block_error(Dtype dtype, const void* x, const void* y, std::int64_t n, double* lanes) {
  HWY_DYNAMIC_DISPATCH(block_error)(dtype, x, y, n, lanes);
}

}  // namespace
}  // namespace planck

namespace planck::cli {

void QuantizationError::add(const QuantizationError& part) {
  signal += part.signal;
  noise += part.noise;
  max_abs = part.max_abs <= max_abs ? max_abs : part.max_abs;
  non_finite += part.non_finite;
}

double QuantizationError::sqnr_db() const {
  return noise == 0 ? std::numeric_limits<double>::infinity() : 10 * std::log10(signal / noise);
}

QuantizationError quantization_error(const Stream& stream, const View& x, const View& y) {
  const std::int64_t n = numel(x.shape), blocks = (n + kErrorBlock - 1) / kErrorBlock;
  std::vector<QuantizationError> parts(static_cast<std::size_t>(blocks));
  const std::size_t width = storage_bytes(x.dtype);
  parallel_for(stream, blocks, [&](std::int64_t b) {
    const auto at = static_cast<std::size_t>(b * kErrorBlock) * width;
    double lanes[4 * kErrorSums];
    block_error(x.dtype, static_cast<const std::byte*>(x.data) + at,
                static_cast<const std::byte*>(y.data) + at,
                std::min(kErrorBlock, n - b * kErrorBlock), lanes);
    for (int l = 0; l < kErrorSums; ++l)
      parts[static_cast<std::size_t>(b)].add({lanes[4 * l], lanes[4 * l + 1], lanes[4 * l + 2],
                                              static_cast<std::int64_t>(lanes[4 * l + 3])});
  });
  QuantizationError sum;
  for (const QuantizationError& e : parts) sum.add(e);
  return sum;
}

}  // namespace planck::cli
#endif
