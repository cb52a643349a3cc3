// Portions of dense f32, f16 or bf16 through functions of whole vectors, from memory to memory:
// four vectors at a time, so that one's arithmetic hides the latency of another's and rare cases
// (NaN, arguments outside a shorter formula) are tested once for all of them.
//
// Cycles for 16 elements on Zen 4, in the caches: plain loops over arrays, then vectors. A copy
// from memory to memory on both cores takes 15 to 22 (f32), or half as many (f16, bf16).
//                    f32            bf16             f16
//                loop   vec     loop   vec      loop   vec
//   mul_scalar      8     2       11     4        10     4
//   add            12     6       16     5        15     6
//   exp            19    10       25    12        25    11
//   log            35    14       32    16        29    13
//   tanh           31    19       32    16        32    16
//   sigmoid        24    15       30    16        31    16
//   silu           27    17       30    17        30    17
//   gelu           47    26       37    23        33    20
//   sin            32    15       25    14        21    11
//   pow           166    29       72    28        75    27
//   pow_scalar    166    29      166    33       166    32
// The functions are bound by their instructions, of which about 1.65 are done per cycle. gelu took
// 38 while it used one formula on each side of 1; pow took 60 with a division and three powers in
// two parts, where now a table of reciprocals, one permutation per vector, leaves one power
// (math/log2.h). Bases of either sign take 8 more.
//
// For instruction sets with fused multiply-add. Include after hwy/highway.h, within
// foreach_target's passes.
#if defined(PLANCK_OPS_ELEMENTWISE_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_OPS_ELEMENTWISE_VECTORS_INL_H_
#undef PLANCK_OPS_ELEMENTWISE_VECTORS_INL_H_
#else
#define PLANCK_OPS_ELEMENTWISE_VECTORS_INL_H_
#endif

#include "planck/loops/cpu/steps-inl.h"
#include "planck/math/pow-inl.h"
#include "planck/ops/elementwise/cpu/loops.h"
#include "planck/ops/elementwise/cpu/units-inl.h"

#if PLANCK_VECTOR_MATH
HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE::vector_portions {

namespace em = elementwise_math;
using elementwise_cpu::Portion;
using elementwise_cpu::PortionTable;
// ---- functions ----

struct Scalars {
  V a, b;
};

// The vectors of an op F of stored type T. Where there is no such struct there is a plain loop.
template <class F, class T>
struct Vectors;

#define PLANCK_VECTORS(Name, ...)                                      \
  template <class T>                                                   \
  struct Vectors<em::Name, T> {                                        \
    static HWY_INLINE V of([[maybe_unused]] V x, [[maybe_unused]] V b, \
                           [[maybe_unused]] const Scalars& s) {        \
      return __VA_ARGS__;                                              \
    }                                                                  \
  };
#define PLANCK_FUNCTION(Name, f32_function, function) \
  template <class T>                                  \
  struct Vectors<em::Name, T> {                       \
    static HWY_INLINE V of(V x, V, const Scalars&) {  \
      if constexpr (std::is_same_v<T, float>)         \
        return vm::f32_function(x);                   \
      else                                            \
        return vm::narrow::function<T>(x);            \
    }                                                 \
  };

HWY_INLINE V softsign(V x) {
  const V a = vm::at_most(hn::Abs(x), 0x1p60f);
  return hn::CopySign(hn::Div(a, hn::Add(vm::all(1.0f), a)), x);
}

PLANCK_VECTORS(Neg, hn::Neg(x))
PLANCK_VECTORS(Abs, hn::Abs(x))
PLANCK_VECTORS(Square, hn::Mul(x, x))
PLANCK_VECTORS(Sqrt, hn::Sqrt(x))
PLANCK_VECTORS(Reciprocal, hn::Div(vm::all(1.0f), x))
PLANCK_VECTORS(Floor, hn::Floor(x))
PLANCK_VECTORS(Ceil, hn::Ceil(x))
PLANCK_VECTORS(Round, hn::Round(x))
PLANCK_VECTORS(Trunc, hn::Trunc(x))
PLANCK_VECTORS(Relu, hn::Add(vm::at_least(x, 0.0f), hn::Zero(D())))  // the sum makes −0 +0
PLANCK_VECTORS(Softsign, softsign(x))
PLANCK_VECTORS(LeakyRelu, hn::IfThenElse(hn::Gt(x, hn::Zero(D())), x, hn::Mul(s.a, x)))
PLANCK_VECTORS(Clamp, hn::Min(s.b, hn::Max(s.a, x)))  // the second where there is a NaN
PLANCK_VECTORS(AddScalar, hn::Add(x, s.a))
PLANCK_VECTORS(MulScalar, hn::Mul(x, s.a))
PLANCK_VECTORS(DivScalar, hn::Div(x, s.a))
PLANCK_VECTORS(RdivScalar, hn::Div(s.a, x))
PLANCK_VECTORS(Add, hn::Add(x, b))
PLANCK_VECTORS(Sub, hn::Sub(x, b))
PLANCK_VECTORS(Mul, hn::Mul(x, b))
PLANCK_VECTORS(Div, hn::Div(x, b))
PLANCK_VECTORS(Erf, vm::erf(x))
PLANCK_VECTORS(GeluBackward, hn::Mul(x, vm::gelu_slope(b)))
PLANCK_VECTORS(ReluBackward, hn::IfThenElseZero(hn::Gt(b, hn::Zero(D())), x))
PLANCK_FUNCTION(Exp, exp, exp)
PLANCK_FUNCTION(Tanh, tanh, tanh)
PLANCK_FUNCTION(Sigmoid, sigmoid, sigmoid)
PLANCK_FUNCTION(Gelu, gelu, gelu)
PLANCK_FUNCTION(Silu, silu, silu)
#undef PLANCK_VECTORS
#undef PLANCK_FUNCTION

// Whether y, of any NaN, has been found: what vectors cannot compute is left to a plain loop.
template <class F, class T>
requires requires { &Vectors<F, T>::of; }
HWY_INLINE bool find(F, T, const Unit& x, const Unit& b, const Scalars& s, Unit& y) {
  for (int k = 0; k < kVectors; ++k) y.v[k] = Vectors<F, T>::of(x.v[k], b.v[k], s);
  return true;
}

// Whether f is above the bound in one of the vectors.
template <class F>
HWY_INLINE bool any_above(const Unit& x, std::uint32_t bound, const F& f) {
  const U most = hn::Max(hn::Max(f(x.v[0]), f(x.v[1])), hn::Max(f(x.v[2]), f(x.v[3])));
  return !hn::AllFalse(vm::UD(), hn::Gt(most, vm::all_bits(bound)));
}

HWY_INLINE U size_of(V v) { return vm::bits_of(hn::Abs(v)); }

template <class T>
HWY_INLINE bool find(em::Log, T, const Unit& x, const Unit&, const Scalars&, Unit& y) {
  for (int k = 0; k < kVectors; ++k)
    y.v[k] =
        std::is_same_v<T, float> ? vm::log_of_normal(x.v[k]) : vm::narrow::log_of_normal(x.v[k]);
  return std::is_same_v<T, f16> ||  // has no subnormal numbers in f32
         !any_above(x, vm::kSubnormal, [](V v) HWY_ATTR { return vm::subnormal(v); });
}

template <class T>
HWY_INLINE bool find(em::Sin, T, const Unit& x, const Unit&, const Scalars&, Unit& y) {
  constexpr float kNear = math::trig_detail::Constants<float>::kNear;
  for (int k = 0; k < kVectors; ++k)
    y.v[k] = std::is_same_v<T, float> ? vm::sin_near(x.v[k]) : vm::narrow::sin_near(x.v[k]);
  return std::is_same_v<T, f16> || !any_above(x, math::bits_of(kNear), size_of);
}

// T: float, or a 16-bit type with a shorter formula.
template <class T>
HWY_INLINE bool find_power(const Unit& x, const Unit& b, Unit& y) {
  Unit n;  // large, or NaN, where b is not finite
  for (int k = 0; k < kVectors; ++k) {
    const V a = hn::Abs(x.v[k]);
    vm::Exponent<V> e;
    if constexpr (std::is_same_v<T, float>) {
      e = vm::exponent_of(b.v[k], vm::log2_pair(a));
      y.v[k] = vm::power_of(e);
    } else {
      e = vm::exponent_of(b.v[k], vm::narrow::short_log2(vm::logarithmic(a)));
      y.v[k] = vm::narrow::short_power(e);
    }
    n.v[k] = e.n;
  }
  if (any_above(x, 0x7fffffff, [](V v) HWY_ATTR { return vm::bits_of(v); }))
    for (int k = 0; k < kVectors; ++k) y.v[k] = vm::with_sign_of_power(y.v[k], x.v[k], b.v[k]);
  return !any_above(x, math::usual::kBase, [](V v) HWY_ATTR { return vm::base_of(v); }) &
         !any_above(n, math::bits_of(math::pow_detail::kFar), size_of);
}
template <class T>
HWY_INLINE bool find(em::Pow, T, const Unit& x, const Unit& b, const Scalars&, Unit& y) {
  return find_power<T>(x, b, y);
}
template <class T>
HWY_INLINE bool find(em::PowScalar, T, const Unit& x, const Unit&, const Scalars& s, Unit& y) {
  Unit b;
  for (int k = 0; k < kVectors; ++k) b.v[k] = s.a;
  return find_power<float>(x, b, y);
}

// ---- portions ----

template <class F, class T, int kInputs>
HWY_INLINE bool map_unit(const T* a, const T* b, const Scalars& s, T* to, bool stream) {
  const Unit x = load(a);
  Unit y;
  if (HWY_UNLIKELY(!find(F{}, T{}, x, kInputs == 2 ? load(b) : x, s, y))) return false;
  make_canonical(y);
  store(y, to, stream);
  return true;
}

// At most a unit, by vectors or by a plain loop.
template <class F, class T, int kInputs>
HWY_NOINLINE void map_some(const T* a, const T* b, int n, const Scalars& s,
                           const em::Scalars<float>& scalars, T* to) {
  alignas(64) T in[2][kUnit] = {}, out[kUnit];
  const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
  std::memcpy(in[0], a, bytes);
  if (kInputs == 2) std::memcpy(in[1], b, bytes);
  if (!map_unit<F, T, kInputs>(in[0], in[1], s, out, false)) {
    alignas(64) float p[kUnit], q[kUnit];
    store(load(in[0]), p, false);
    store(load(in[1]), q, false);
    for (int i = 0; i < kUnit; ++i) {
      if constexpr (kInputs == 2)
        p[i] = em::binary_of<F, T>(p[i], q[i]);
      else
        p[i] = em::unary_of<F, T>(p[i], scalars);
    }
    Unit y = load(p);
    make_canonical(y);
    store(y, out, false);
  }
  std::memcpy(to, out, bytes);
}

template <class F, class T, int kInputs>
void run(const Portion& portion) {
  const em::Scalars<float> scalars = portion.scalars->f32;
  const Scalars s = {vm::all(scalars.a), vm::all(scalars.b)};
  const T* a = static_cast<const T*>(portion.in[0].data);
  const T* b = static_cast<const T*>(portion.in[kInputs - 1].data);
  T* to = static_cast<T*>(portion.out.data);
  const std::ptrdiff_t a_step = portion.repeats[0] ? 0 : 1,
                       b_step = portion.repeats[kInputs - 1] ? 0 : 1;
  const std::int64_t a_ahead = portion.in[0].ahead, b_ahead = portion.in[kInputs - 1].ahead;
  const bool stream = portion.out.stream;
  const auto some = [&](int n) HWY_ATTR {
    map_some<F, T, kInputs>(a, b, n, s, scalars, to);
    a += n * a_step, b += n * b_step, to += n;
  };
  const int lead = lead_of(portion.out) < portion.n ? lead_of(portion.out) : portion.n;
  if (lead > 0) some(lead);
  for (int units = (portion.n - lead) / kUnit; units > 0; --units) {
    for (; units > 0; --units) {  // nothing is called in here, so that constants stay in registers
      if (stream)                 // long: see steps-inl.h
        for (int at = 0; at < kUnit * static_cast<int>(sizeof(T)); at += 64) {
          __builtin_prefetch(reinterpret_cast<const char*>(a) + a_ahead + at);
          if (kInputs == 2) __builtin_prefetch(reinterpret_cast<const char*>(b) + b_ahead + at);
        }
      if (!map_unit<F, T, kInputs>(a, b, s, to, stream)) break;
      a += kUnit * a_step, b += kUnit * b_step, to += kUnit;
    }
    if (units > 0) some(kUnit);
  }
  if (const int rest = (portion.n - lead) % kUnit; rest > 0) some(rest);
}

template <class T, int kInputs, class... F>
constexpr void put_runs(PortionTable& table, em::Ops<F...>) {
  const auto put_one = [&]<class One>(One) {
    if constexpr (requires(Unit x, Scalars s) { find(One{}, T{}, x, x, s, x); })
      table.run[static_cast<std::size_t>(One::kOp)] = &run<One, T, kInputs>;
  };
  (put_one(F{}), ...);
}

}  // namespace planck::HWY_NAMESPACE::vector_portions
HWY_AFTER_NAMESPACE();
#endif  // PLANCK_VECTOR_MATH

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

// Empty for instruction sets without the vectors.
template <class T>
constexpr elementwise_cpu::PortionTable portion_table() {
  elementwise_cpu::PortionTable table;
#if PLANCK_VECTOR_MATH
  vector_portions::put_runs<T, 1>(table, elementwise_math::FloatUnary{});
  vector_portions::put_runs<T, 2>(table, elementwise_math::FloatBinary{});
#endif
  return table;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target include guard
