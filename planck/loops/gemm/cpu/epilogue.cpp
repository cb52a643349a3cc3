#include "planck/loops/gemm/cpu/epilogue.h"

#include <algorithm>
#include <limits>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/cpu/targets.h"
#include "planck/math/activation.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/loops/gemm/cpu/epilogue.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/math/narrow-inl.h"

#ifndef PLANCK_LOOPS_GEMM_CPU_EPILOGUE_
#define PLANCK_LOOPS_GEMM_CPU_EPILOGUE_
namespace planck::gemm {

// Activations of kPortion numbers at most, in place, with room for whole vectors behind them. T: of
// C, which the results are to be rounded to.
struct ActivationOps {
  void (*of_f16)(Activation, float*, int);
  void (*of_bf16)(Activation, float*, int);
  void (*of_f32)(Activation, float*, int);
  void (*of_f64)(Activation, double*, int);
};

}  // namespace planck::gemm
#endif

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {
namespace {

#if PLANCK_VECTOR_MATH
namespace hn = hwy::HWY_NAMESPACE;
namespace vm = vector_math;

template <class T, Activation kActivation>
HWY_INLINE vm::V activated(vm::V x) {
  constexpr bool kNarrow = sizeof(T) == 2;
  if constexpr (kActivation == Activation::relu)  // the sum makes −0 +0
    return hn::Add(vm::at_least(x, 0.0f), vm::all(0.0f));
  else if constexpr (kActivation == Activation::gelu && kNarrow)
    return vm::narrow::gelu<T>(x);
  else if constexpr (kActivation == Activation::gelu)
    return vm::gelu(x);
  else if constexpr (kNarrow)
    return vm::narrow::silu<T>(x);
  else
    return vm::silu(x);
}
template <class T, Activation kActivation>
void activate_all(float* v, int n) {
  for (int i = 0; i < n; i += vm::kLanes)
    hn::Store(activated<T, kActivation>(hn::Load(vm::D(), v + i)), vm::D(), v + i);
}
#else
template <class T, Activation kActivation>
void activate_all(float* HWY_RESTRICT v, int n) {
  for (int i = 0; i < n; ++i) v[i] = math::activated<T, kActivation>(v[i]);
}
#endif
template <class T, Activation kActivation>
void activate_all(double* HWY_RESTRICT v, int n) {
  for (int i = 0; i < n; ++i) v[i] = math::activated<T, kActivation>(v[i]);
}

template <class T, class C>
void activate(Activation a, C* v, int n) {
  if (a == Activation::relu) activate_all<T, Activation::relu>(v, n);
  if (a == Activation::gelu) activate_all<T, Activation::gelu>(v, n);
  if (a == Activation::silu) activate_all<T, Activation::silu>(v, n);
}

constexpr gemm::ActivationOps kOps = {activate<f16, float>, activate<bf16, float>,
                                      activate<float, float>, activate<double, double>};

}  // namespace
const gemm::ActivationOps* activation_ops() { return &kOps; }
}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(activation_ops);

namespace gemm {

namespace {

const ActivationOps& best_ops() {
  static const ActivationOps& ops = *HWY_DYNAMIC_DISPATCH(activation_ops)();
  return ops;
}
void activate(Activation a, Dtype dtype, float* v, int n) {
  const ActivationOps& ops = best_ops();
  (dtype == Dtype::f32 ? ops.of_f32 : dtype == Dtype::f16 ? ops.of_f16 : ops.of_bf16)(a, v, n);
}
void activate(Activation a, Dtype, double* v, int n) { best_ops().of_f64(a, v, n); }

template <class C>
void make_nan_canonical(C* v, int n) {
  for (int i = 0; i < n; ++i) v[i] = v[i] != v[i] ? std::numeric_limits<C>::quiet_NaN() : v[i];
}

template <class C>
void follow(const Epilogue& e, Dtype dtype, void* c, std::int64_t offset, std::int64_t stride,
            int n, std::int64_t residual_at) {
  const PortionOps& ops = portion_ops();
  alignas(64) C v[kPortion], added[kPortion];
  load_portion(ops, dtype, c, offset, stride, n, v);
  if (e.activation != Activation::none) {
    constexpr int kLanes = 16;  // of the longest vectors
    std::fill(v + n, v + (n + kLanes - 1) / kLanes * kLanes, C{0});
    activate(e.activation, dtype, v, n);
    make_nan_canonical(v, n);
    if (e.residual.data != nullptr && dtype != dtype_of<C>) {
      alignas(64) std::uint16_t rounded[kPortion];
      store_portion(ops, dtype, rounded, 0, 1, n, v);
      load_portion(ops, dtype, rounded, 0, 1, n, v);
    }
  }
  if (e.residual.data != nullptr) {
    load_portion(ops, dtype, e.residual.data, residual_at, e.residual.column, n, added);
    for (int i = 0; i < n; ++i) v[i] += added[i];
    make_nan_canonical(v, n);
  }
  store_portion(ops, dtype, c, offset, stride, n, v);
}

}  // namespace

void follow_bias(const Epilogue& e, Dtype dtype, void* c, std::int64_t offset, std::int64_t stride,
                 int n, std::int64_t residual_at) {
  if (!e.follows_bias()) return;
  if (dtype == Dtype::f64)
    follow<double>(e, dtype, c, offset, stride, n, residual_at);
  else
    follow<float>(e, dtype, c, offset, stride, n, residual_at);
}

}  // namespace gemm

}  // namespace planck
#endif  // HWY_ONCE
