// A vector holds candidates, one to a lane, and goes through the elements one by one: no sum has to
// be made of lanes, and divisions are shared. Sums are those of the plain fit, in its order: eight
// partial ones of every eighth element, added pairwise.
//
// ns per element, one thread of an EPYC:               q4_k    q6_k
//   the plain fit, for the compiler's baseline         56      65
//   eight partial sums at a time                       16.2    15.7
//     few at a time                                    13.5    15.7
#include "tools/planck/checkpoint/units/block_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "planck/core/half.h"
#include "planck/io/gguf/decode_blocks.h"
#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tools/planck/checkpoint/units/block_fit.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

// Max and Min of x86 give their second argument where one is NaN, as std::max and std::min with
// their arguments exchanged do.
#if HWY_TARGET == HWY_SCALAR || !HWY_ARCH_X86
bool fit_q4_k(const float*, std::byte*) { return false; }
bool fit_q6_k(const float*, std::byte*) { return false; }
#else

namespace hn = hwy::HWY_NAMESPACE;
// Not 16, where there are so many: of 22 candidates a third would be nobody's (16.3 and 18.3 ns).
using D = hn::CappedTag<float, 8>;
using V = hn::VFromD<D>;

constexpr int kMostCandidates = 32;  // whole vectors of them
constexpr float kLargestHalf = 65504.0f, kWhole = 0x1.8p23f;

int lanes() { return static_cast<int>(hn::Lanes(D())); }

// To nearest, ties to even, of a value between the ends.
HWY_INLINE V code_of(V at, V lowest, V highest) {
  const V whole = hn::Set(D(), kWhole);
  return hn::Sub(hn::Add(hn::Min(hn::Max(at, lowest), highest), whole), whole);
}

// Sums over i < kCount, kSums of them at a time, to which `term` adds what i gives. A partial sum
// has the elements l, l + 8, …; no more are under way than registers hold.
template <int kCount, int kSums, class Term>
HWY_INLINE void partial(int l, Term term, V (&into)[kSums]) {
  for (int k = 0; k < kSums; ++k) into[k] = hn::Zero(D());
  for (int i = l; i < kCount; i += 8) term(i, into);
}
template <int kCount, int kSums, class Term>
HWY_INLINE void pair(int l, Term term, V (&into)[kSums]) {
  V other[kSums];
  partial<kCount>(l, term, into);
  partial<kCount>(l + 4, term, other);
  for (int k = 0; k < kSums; ++k) into[k] = hn::Add(into[k], other[k]);
}
template <int kCount, int kSums, class Term>
HWY_INLINE void four(int l, Term term, V (&into)[kSums]) {
  V other[kSums];
  pair<kCount>(l, term, into);
  pair<kCount>(l + 2, term, other);
  for (int k = 0; k < kSums; ++k) into[k] = hn::Add(into[k], other[k]);
}
template <int kCount, int kSums, class Term>
HWY_INLINE void sum(Term term, V (&total)[kSums]) {
  V other[kSums];
  four<kCount>(0, term, total);
  four<kCount>(1, term, other);
  for (int k = 0; k < kSums; ++k) total[k] = hn::Add(total[k], other[k]);
}

struct Candidates {
  alignas(64) float scale[kMostCandidates] = {}, min[kMostCandidates] = {};
  alignas(64) float error[kMostCandidates];
};

// Squared errors of the first n candidates: y = s q − m.
template <int kCount>
HWY_INLINE void find_errors(const float* HWY_RESTRICT x, float lowest, float highest, int n,
                            Candidates& all) {
  const D d;
  const V lo = hn::Set(d, lowest), hi = hn::Set(d, highest);
  for (int c = 0; c < n; c += lanes()) {
    const V s = hn::Load(d, all.scale + c), m = hn::Load(d, all.min + c);
    const V inverse = hn::IfThenElseZero(hn::Ne(s, hn::Zero(d)), hn::Div(hn::Set(d, 1.0f), s));
    V error[1];
    sum<kCount>(
        [&](int i, V(&into)[1]) HWY_ATTR {
          const V v = hn::Set(d, x[i]);
          const V q = code_of(hn::Mul(hn::Add(v, m), inverse), lo, hi);
          const V off = hn::Sub(hn::Sub(hn::Mul(s, q), m), v);
          into[0] = hn::Add(into[0], hn::Mul(off, off));
        },
        error);
    hn::Store(error[0], d, all.error + c);
  }
}

// The candidate of the least error: the one that comes first, then the others in their order. NaN
// is less than nothing.
int best_of(const Candidates& all, int first, int n) {
  int best = first;
  for (int c = 0; c < n; ++c)
    if (all.error[c] < all.error[best]) best = c;
  return best;
}

// Codes of x as integers.
template <int kCount>
HWY_INLINE void put_codes(const float* HWY_RESTRICT x, float s, float m, float lowest,
                          float highest, std::int32_t* HWY_RESTRICT q) {
  const D d;
  const hn::Rebind<std::int32_t, D> ints;
  const V inverse = hn::Set(d, s != 0 ? 1 / s : 0), min = hn::Set(d, m);
  for (int i = 0; i < kCount; i += lanes())
    hn::StoreU(hn::ConvertTo(ints, code_of(hn::Mul(hn::Add(hn::LoadU(d, x + i), min), inverse),
                                           hn::Set(d, lowest), hn::Set(d, highest))),
               ints, q + i);
}

float nearest(float v) { return (v + kWhole) - kWhole; }

float stored(float value, std::byte* p) {
  const f16 half(std::clamp(value, -kLargestHalf, kLargestHalf));
  std::memcpy(p, &half.bits, 2);
  return static_cast<float>(half);
}

bool all_finite(const float* x) {
  const D d;
  V odd = hn::Zero(d);
  for (int i = 0; i < 256; i += lanes()) {
    const V v = hn::LoadU(d, x + i);
    odd = hn::Add(odd, hn::Sub(v, v));
  }
  return hn::AllTrue(d, hn::Eq(odd, hn::Zero(d)));
}

// ---- Q4_K ---------------------------------------------------------------------------------------

constexpr int kAffineSteps = 21;

// The inverse scales of the search, but for the range.
struct Steps {
  alignas(64) float of[kMostCandidates] = {};
  constexpr Steps(float middle, int first, int count) {
    for (int k = 0; k < count; ++k) of[k] = middle + 0.1f * static_cast<float>(first + k);
  }
};

struct Affine {
  float scale = 0, min = 0;
};

Affine fit_affine(const float* HWY_RESTRICT x) {
  constexpr static Steps kSteps(14.0f, 0, kAffineSteps);
  const D d;
  V least = hn::LoadU(d, x), most = least;
  for (int i = lanes(); i < 32; i += lanes()) {
    least = hn::Min(least, hn::LoadU(d, x + i));
    most = hn::Max(most, hn::LoadU(d, x + i));
  }
  const float lo = std::min(hn::GetLane(hn::MinOfLanes(d, least)), 0.0f);
  const float hi = hn::GetLane(hn::MaxOfLanes(d, most));
  if (hi <= lo) return {0, -lo};
  float lane[8] = {};
  for (int i = 0; i < 32; i += 8)
    for (int l = 0; l < 8; ++l) lane[l] += x[i + l];
  const V sx = hn::Set(
      d, ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7])));
  const V zero = hn::Zero(d), count = hn::Set(d, 32.0f), highest = hn::Set(d, 15.0f);
  Candidates all;
  for (int c = 0; c < kAffineSteps; c += lanes()) {
    const V inverse = hn::Div(hn::Load(d, kSteps.of + c), hn::Set(d, hi - lo));
    V sums[3];
    sum<32>(
        [&](int i, V(&into)[3]) HWY_ATTR {
          const V q = code_of(hn::Mul(hn::Set(d, x[i] - lo), inverse), zero, highest);
          into[0] = hn::Add(into[0], q);
          into[1] = hn::Add(into[1], hn::Mul(q, q));
          into[2] = hn::Add(into[2], hn::Mul(hn::Set(d, x[i]), q));
        },
        sums);
    const V sq = sums[0], sqq = sums[1], sxq = sums[2];
    const V determinant = hn::Sub(hn::Mul(count, sqq), hn::Mul(sq, sq));
    V scale = hn::Div(hn::Sub(hn::Mul(count, sxq), hn::Mul(sx, sq)), determinant);
    V min = hn::Div(hn::Neg(hn::Sub(hn::Mul(sqq, sx), hn::Mul(sq, sxq))), determinant);
    const auto below = hn::Lt(min, zero);
    scale = hn::IfThenElse(below, hn::IfThenElseZero(hn::Gt(sqq, zero), hn::Div(sxq, sqq)), scale);
    min = hn::IfThenElse(below, zero, min);
    const auto taken = hn::And(hn::Gt(determinant, zero), hn::Gt(scale, zero));
    // Without a fit: NaN, and so is the error.
    const V none = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    hn::Store(hn::IfThenElse(taken, scale, none), d, all.scale + c);
    hn::Store(min, d, all.min + c);
  }
  // The plain fit begins with the range's own.
  const int first = kAffineSteps;
  all.scale[first] = (hi - lo) / 15;
  all.min[first] = -lo;
  find_errors<32>(x, 0, 15, kAffineSteps + 1, all);
  const int best = best_of(all, first, kAffineSteps);
  return {all.scale[best], all.min[best]};
}

bool fit_q4_k(const float* x, std::byte* out) {
  if (!all_finite(x)) return false;
  Affine fits[8];
  float most_scale = 0, most_min = 0;
  for (int j = 0; j < 8; ++j) {
    fits[j] = fit_affine(x + 32 * j);
    most_scale = std::max(most_scale, fits[j].scale);
    most_min = std::max(most_min, fits[j].min);
  }
  const float d = stored(most_scale / 63, out), dmin = stored(most_min / 63, out + 2);
  const float per_d = d > 0 ? 1 / d : 0, per_dmin = dmin > 0 ? 1 / dmin : 0;
  ScalesAndMins s{};
  alignas(64) std::int32_t q[256];
  for (int j = 0; j < 8; ++j) {
    const float* part = x + 32 * j;
    const int scale = static_cast<int>(nearest(std::min(63.0f, fits[j].scale * per_d)));
    const int min = static_cast<int>(nearest(std::min(63.0f, fits[j].min * per_dmin)));
    Candidates near;
    std::uint8_t scales[9], mins[9];
    int n = 0;
    for (int a = std::max(0, scale - 1); a <= std::min(63, scale + 1); ++a)
      for (int b = std::max(0, min - 1); b <= std::min(63, min + 1); ++b, ++n) {
        scales[n] = static_cast<std::uint8_t>(a);
        mins[n] = static_cast<std::uint8_t>(b);
        near.scale[n] = d * static_cast<float>(a);
        near.min[n] = dmin * static_cast<float>(b);
      }
    find_errors<32>(part, 0, 15, n, near);
    const int best = best_of(near, 0, n);
    s.scale[j] = scales[best];
    s.min[j] = mins[best];
    put_codes<32>(part, near.scale[best], near.min[best], 0, 15, q + 32 * j);
  }
  pack_scales(s, out + 4);
  for (int j = 0; j < 8; j += 2)
    for (int i = 0; i < 32; ++i)
      out[16 + 16 * j + i] = static_cast<std::byte>(q[32 * j + i] | q[32 * j + 32 + i] << 4);
  return true;
}

// ---- Q6_K ---------------------------------------------------------------------------------------

constexpr int kCentredSteps = 19;

float fit_centred(const float* HWY_RESTRICT x) {
  constexpr static Steps kSteps(32.0f, -9, kCentredSteps);
  float most = 0, value = 0;
  for (int i = 0; i < 16; ++i)
    if (most < std::fabs(x[i])) {
      most = std::fabs(x[i]);
      value = x[i];
    }
  if (most == 0) return 0;
  const D d;
  const V lowest = hn::Set(d, -32.0f), highest = hn::Set(d, 31.0f);
  Candidates all;
  for (int c = 0; c < kCentredSteps; c += lanes()) {
    const V inverse = hn::Div(hn::Neg(hn::Load(d, kSteps.of + c)), hn::Set(d, value));
    V sums[2];
    sum<16>(
        [&](int i, V(&into)[2]) HWY_ATTR {
          const V v = hn::Set(d, x[i]), q = code_of(hn::Mul(v, inverse), lowest, highest);
          into[0] = hn::Add(into[0], hn::Mul(q, q));
          into[1] = hn::Add(into[1], hn::Mul(v, q));
        },
        sums);
    const V none = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    hn::Store(hn::IfThenElse(hn::Gt(sums[0], hn::Zero(d)), hn::Div(sums[1], sums[0]), none), d,
              all.scale + c);
  }
  const int first = kCentredSteps;
  all.scale[first] = value / -32;
  find_errors<16>(x, -32, 31, kCentredSteps + 1, all);
  const int best = best_of(all, first, kCentredSteps);
  return all.scale[best];
}

bool fit_q6_k(const float* x, std::byte* out) {
  if (!all_finite(x)) return false;
  float scales[16], most = 0, value = 0;
  for (int j = 0; j < 16; ++j) {
    scales[j] = fit_centred(x + 16 * j);
    if (most < std::fabs(scales[j])) {
      most = std::fabs(scales[j]);
      value = scales[j];
    }
  }
  const float d = stored(value / -128, out + 208), per_d = d != 0 ? 1 / d : 0;
  alignas(64) std::int32_t q[256];
  for (int j = 0; j < 16; ++j) {
    const int scale = static_cast<int>(nearest(std::clamp(scales[j] * per_d, -128.0f, 127.0f)));
    Candidates near;
    const int lowest = std::max(-128, scale - 1), highest = std::min(127, scale + 1);
    for (int a = lowest; a <= highest; ++a) near.scale[a - lowest] = d * static_cast<float>(a);
    find_errors<16>(x + 16 * j, -32, 31, highest - lowest + 1, near);
    const int best = best_of(near, 0, highest - lowest + 1);
    out[192 + j] = static_cast<std::byte>(static_cast<std::int8_t>(lowest + best));
    put_codes<16>(x + 16 * j, near.scale[best], 0, -32, 31, q + 16 * j);
  }
  for (std::int32_t& code : q) code += 32;
  for (int half = 0; half < 2; ++half)
    for (int i = 0; i < 32; ++i) {
      const std::int32_t* p = q + 128 * half + i;
      out[64 * half + i] = static_cast<std::byte>((p[0] & 15) | (p[64] & 15) << 4);
      out[64 * half + 32 + i] = static_cast<std::byte>((p[32] & 15) | (p[96] & 15) << 4);
      out[128 + 32 * half + i] = static_cast<std::byte>(p[0] >> 4 | (p[32] >> 4) << 2 |
                                                        (p[64] >> 4) << 4 | (p[96] >> 4) << 6);
    }
  return true;
}
#endif

}  // namespace
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {
namespace {

HWY_EXPORT(fit_q4_k);
HWY_EXPORT(fit_q6_k);

}  // namespace

bool cli::fit_q4_k_by_vectors(const float* x, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(fit_q4_k)(x, out);
}
bool cli::fit_q6_k_by_vectors(const float* x, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(fit_q6_k)(x, out);
}

}  // namespace planck
#endif
