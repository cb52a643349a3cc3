#include "tools/planck/checkpoint/units/quantization_error.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/planck/checkpoint/units/quantization_error.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using cli::ErrorSum;
using cli::kErrorLanes;
using cli::RestoredCodes;
constexpr int kErrorStep = 1024;
using FloatLanes = hn::CappedTag<float, kErrorLanes>;

template <class C>
HWY_INLINE void add_element(C v, C y, int l, ErrorSum::Lanes& sum) {
  const bool finite = v - v == 0;
  const double kept = finite ? static_cast<double>(v) : 0;
  const double off = finite ? static_cast<double>(v - y) : 0, size = std::fabs(off);
  sum.signal[l] += kept * kept;
  sum.noise[l] += off * off;
  // Not std::max: a NaN in y must come through.
  sum.most[l] = size <= sum.most[l] ? sum.most[l] : size;
  sum.odd[l] += finite ? 0 : 1;
}

// ---- what a step is made of, a vector at a time ----

// of_run: of the run r of a step, whose elements have one scale.
struct Floats {
  const float* p;
  HWY_INLINE Floats of_run(int) const { return *this; }
  HWY_INLINE auto operator()(FloatLanes d, int i) const { return hn::LoadU(d, p + i); }
};
struct Bf16Floats {
  const std::uint16_t* p;
  HWY_INLINE auto operator()(FloatLanes d, int i) const {
    const hn::Rebind<std::uint16_t, FloatLanes> narrow;
    const hn::Rebind<std::uint32_t, FloatLanes> wide;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, p + i))));
  }
};
template <class Q, bool kToBf16, bool kByRuns>
struct Restored {
  const Q* q;
  const float *s, *z;  // of each element, or of each run
  HWY_INLINE Restored of_run(int r) const { return kByRuns ? Restored{q, s + r, z + r} : *this; }
  HWY_INLINE auto operator()(FloatLanes d, int i) const {
    const hn::Rebind<Q, FloatLanes> bytes;
    const hn::Rebind<std::int32_t, FloatLanes> ints;
    const hn::Rebind<std::uint32_t, FloatLanes> bits;
    const auto code = hn::ConvertTo(d, hn::PromoteTo(ints, hn::LoadU(bytes, q + i)));
    const auto scale = kByRuns ? hn::Set(d, *s) : hn::LoadU(d, s + i);
    const auto zero = kByRuns ? hn::Set(d, *z) : hn::LoadU(d, z + i);
    const auto y = hn::Mul(scale, hn::Sub(code, zero));
    if constexpr (!kToBf16) return y;
    const auto b = hn::BitCast(bits, y);
    const auto even = hn::And(hn::ShiftRight<16>(b), hn::Set(bits, 1));
    const auto rounded = hn::Add(b, hn::Add(even, hn::Set(bits, 0x7fff)));
    return hn::BitCast(d, hn::And(rounded, hn::Set(bits, 0xffff0000u)));
  }
};

// n elements, whole runs, each of a multiple of kErrorLanes. False, and nothing added, where an x
// is not finite: then a sum of squares is not, and squares of f32 alone never are too large. They
// are exact in f64, so a fused operation rounds as two do.
#if HWY_TARGET == HWY_SCALAR
template <class X, class Y>
HWY_INLINE bool add_finite(X, Y, int, int, ErrorSum::Lanes&) {
  return false;
}
#else
template <class X, class Y>
HWY_INLINE bool add_finite(X x, Y y, int run, int n, ErrorSum::Lanes& sum) {
  const FloatLanes d;
  const hn::Half<FloatLanes> half;
  const hn::RepartitionToWide<FloatLanes> dd;
  const int lanes = static_cast<int>(hn::Lanes(d)), upper = lanes / 2;
  alignas(64) double signal[kErrorLanes], noise[kErrorLanes];
  alignas(64) float most[kErrorLanes];
  auto odd = hn::Zero(dd);
  for (int l = 0; l < kErrorLanes; l += lanes) {
    auto s0 = hn::LoadU(dd, sum.signal + l), s1 = hn::LoadU(dd, sum.signal + l + upper);
    auto n0 = hn::LoadU(dd, sum.noise + l), n1 = hn::LoadU(dd, sum.noise + l + upper);
    auto size = hn::Zero(d);
    for (int begin = 0, r = 0; begin < n; begin += run, ++r) {
      const auto w = y.of_run(r);
      for (int i = begin + l; i < begin + run; i += kErrorLanes) {
        const auto v = x(d, i), off = hn::Sub(v, w(d, i));
        size = hn::Max(size, hn::Abs(off));
        const auto v0 = hn::PromoteTo(dd, hn::LowerHalf(half, v));
        const auto v1 = hn::PromoteTo(dd, hn::UpperHalf(half, v));
        const auto o0 = hn::PromoteTo(dd, hn::LowerHalf(half, off));
        const auto o1 = hn::PromoteTo(dd, hn::UpperHalf(half, off));
        s0 = hn::MulAdd(v0, v0, s0);
        s1 = hn::MulAdd(v1, v1, s1);
        n0 = hn::MulAdd(o0, o0, n0);
        n1 = hn::MulAdd(o1, o1, n1);
      }
    }
    odd = hn::Add(odd, hn::Add(hn::Sub(s0, s0), hn::Sub(s1, s1)));  // 0, or NaN
    hn::Store(s0, dd, signal + l);
    hn::Store(s1, dd, signal + l + upper);
    hn::Store(n0, dd, noise + l);
    hn::Store(n1, dd, noise + l + upper);
    hn::Store(size, d, most + l);
  }
  if (!hn::AllTrue(dd, hn::Eq(odd, hn::Zero(dd)))) return false;
  std::memcpy(sum.signal, signal, sizeof signal);
  std::memcpy(sum.noise, noise, sizeof noise);
  for (int l = 0; l < kErrorLanes; ++l) {
    const double size = static_cast<double>(most[l]);
    sum.most[l] = size <= sum.most[l] ? sum.most[l] : size;
  }
  return true;
}
#endif

template <class X, class Y>
HWY_NOINLINE void add_step(X x, Y y, int run, int n, ErrorSum::Lanes& sum) {
  if (add_finite(x, y, run, n, sum)) return;
  const FloatLanes d;
  alignas(64) float v[kErrorStep], w[kErrorStep];
  for (int i = 0; i < n; i += static_cast<int>(hn::Lanes(d))) {
    hn::Store(x(d, i), d, v + i);
    hn::Store(y.of_run(i / run)(d, i), d, w + i);
  }
  for (int i = 0; i < n; ++i) add_element(v[i], w[i], i % kErrorLanes, sum);
}

int padded(int n) { return (n + kErrorLanes - 1) / kErrorLanes * kErrorLanes; }

// In place, or copied and filled up with zeros, which add nothing.
template <class T>
const T* filled_up(const T* in, int n, T* buffer) {
  if (n % kErrorLanes == 0) return in;
  std::copy_n(in, n, buffer);
  std::fill(buffer + n, buffer + padded(n), T(0));
  return buffer;
}

void add_pairs(const float* x, const float* y, std::int64_t n, ErrorSum::Lanes& sum) {
  float v[kErrorStep], w[kErrorStep];
  for (std::int64_t i = 0; i < n; i += kErrorStep) {
    const int m = static_cast<int>(std::min<std::int64_t>(kErrorStep, n - i));
    const int all = padded(m);
    add_step(Floats{filled_up(x + i, m, v)}, Floats{filled_up(y + i, m, w)}, all, all, sum);
  }
}

// ---- codes ----

void widen_scales(Dtype dtype, const void* scale, std::int64_t first, int n, float* out) {
  const auto* halves = static_cast<const std::uint16_t*>(scale) + first;
  if (dtype == Dtype::f32)
    std::copy_n(static_cast<const float*>(scale) + first, n, out);
  else
    dtype == Dtype::f16 ? widen_f16(halves, n, out, 0) : widen_bf16(halves, n, out, 0);
}

// Scale and zero point of each element of a step, or of each run.
struct StepScales {
  alignas(64) float s[kErrorStep], z[kErrorStep];

  void set(Dtype dtype, const RestoredCodes& y, std::int64_t first_run, int runs) {
    for (int done = 0; done < runs;) {
      const std::int64_t c = (first_run + done) % y.channels;
      const int m = static_cast<int>(std::min<std::int64_t>(runs - done, y.channels - c));
      widen_scales(dtype, y.scale, c, m, s + done);
      for (int k = 0; k < m; ++k) z[done + k] = static_cast<float>(y.zero_point[c + k]);
      done += m;
    }
  }
  void fill(Dtype dtype, const RestoredCodes& y, std::int64_t first, int n) {
    for (int done = 0; done < n;) {
      const std::int64_t at = first + done, run = at / y.inner, c = run % y.channels;
      if (y.inner == 1) {
        const int m = static_cast<int>(std::min<std::int64_t>(n - done, y.channels - c));
        widen_scales(dtype, y.scale, c, m, s + done);
        for (int k = 0; k < m; ++k) z[done + k] = static_cast<float>(y.zero_point[c + k]);
        done += m;
        continue;
      }
      const int m = static_cast<int>(std::min<std::int64_t>(n - done, (run + 1) * y.inner - at));
      float scale = 0;
      widen_scales(dtype, y.scale, c, 1, &scale);
      std::fill_n(s + done, m, scale);
      std::fill_n(z + done, m, static_cast<float>(y.zero_point[c]));
      done += m;
    }
    std::fill(s + n, s + padded(n), 0.0f);
    std::fill(z + n, z + padded(n), 0.0f);
  }
};

template <class Q>
void add_codes_as(Dtype dtype, const void* x, const RestoredCodes& y, std::int64_t n,
                  ErrorSum::Lanes& sum) {
  StepScales by;
  const Q* codes = reinterpret_cast<const Q*>(y.codes);
  Q some[kErrorStep];
  std::uint16_t narrow[kErrorStep];
  alignas(64) float v[kErrorStep], w[kErrorStep];
  // Of runs of whole vectors as many as a step holds, or a part of one; f16 is rounded apart.
  const bool by_runs = y.inner % kErrorLanes == 0 && dtype != Dtype::f16;
  int m = 0;
  for (std::int64_t i = 0; i < n; i += m) {
    std::int64_t most = n - i;
    if (by_runs)
      most = std::min(
          most, y.inner <= kErrorStep ? kErrorStep / y.inner * y.inner : y.inner - i % y.inner);
    m = static_cast<int>(std::min<std::int64_t>(kErrorStep, most));
    const int all = padded(m),
              run = by_runs ? static_cast<int>(std::min<std::int64_t>(m, y.inner)) : all;
    if (by_runs)
      by.set(dtype, y, i / y.inner, m / run);
    else
      by.fill(dtype, y, i, m);
    const Q* q = filled_up(codes + i, m, some);
    if (dtype == Dtype::f32) {
      const Floats in{filled_up(static_cast<const float*>(x) + i, m, v)};
      by_runs ? add_step(in, Restored<Q, false, true>{q, by.s, by.z}, run, all, sum)
              : add_step(in, Restored<Q, false, false>{q, by.s, by.z}, run, all, sum);
      continue;
    }
    const auto* in = filled_up(static_cast<const std::uint16_t*>(x) + i, m, narrow);
    if (dtype == Dtype::bf16) {
      by_runs ? add_step(Bf16Floats{in}, Restored<Q, true, true>{q, by.s, by.z}, run, all, sum)
              : add_step(Bf16Floats{in}, Restored<Q, true, false>{q, by.s, by.z}, run, all, sum);
      continue;
    }
    widen_f16(in, all, v, 0);
    for (int k = 0; k < all; ++k) w[k] = by.s[k] * (static_cast<float>(q[k]) - by.z[k]);
    std::uint16_t rounded[kErrorStep];
    narrow_f16(w, all, rounded);
    widen_f16(rounded, all, w, 0);
    add_step(Floats{v}, Floats{w}, all, all, sum);
  }
}

template <class Q>
void add_f64_codes(const double* x, const RestoredCodes& y, std::int64_t n, ErrorSum::Lanes& sum) {
  const Q* q = reinterpret_cast<const Q*>(y.codes);
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t c = i / y.inner % y.channels;
    const double steps = static_cast<double>(q[i]) - static_cast<double>(y.zero_point[c]);
    add_element(x[i], static_cast<const double*>(y.scale)[c] * steps,
                static_cast<int>(i % kErrorLanes), sum);
  }
}

void add_codes(Dtype dtype, const void* x, const RestoredCodes& y, std::int64_t n,
               ErrorSum::Lanes& sum) {
  if (dtype == Dtype::f64) {
    const double* in = static_cast<const double*>(x);
    y.is_signed ? add_f64_codes<std::int8_t>(in, y, n, sum)
                : add_f64_codes<std::uint8_t>(in, y, n, sum);
  } else {
    y.is_signed ? add_codes_as<std::int8_t>(dtype, x, y, n, sum)
                : add_codes_as<std::uint8_t>(dtype, x, y, n, sum);
  }
}

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(add_pairs);
HWY_EXPORT(add_codes);

void add_pairs(const float* x, const float* y, std::int64_t n, cli::ErrorSum::Lanes& sum) {
  HWY_DYNAMIC_DISPATCH(add_pairs)(x, y, n, sum);
}
void add_codes(Dtype dtype, const void* x, const cli::RestoredCodes& y, std::int64_t n,
               cli::ErrorSum::Lanes& sum) {
  HWY_DYNAMIC_DISPATCH(add_codes)(dtype, x, y, n, sum);
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

void ErrorSum::add(const float* x, const float* y, std::int64_t n) {
  planck::add_pairs(x, y, n, lanes_);
}
void ErrorSum::add(Dtype dtype, const void* x, const RestoredCodes& y, std::int64_t n) {
  planck::add_codes(dtype, x, y, n, lanes_);
}

QuantizationError ErrorSum::total() const {
  QuantizationError sum;
  for (int l = 0; l < kErrorLanes; ++l)
    sum.add({lanes_.signal[l], lanes_.noise[l], lanes_.most[l], lanes_.odd[l]});
  return sum;
}

}  // namespace planck::cli
#endif
