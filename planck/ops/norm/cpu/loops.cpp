#include "planck/ops/norm/cpu/loops.h"

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/norm/cpu/loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/cpu/steps-inl.h"
#include "planck/ops/norm/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

const NormLoops<float>* norm_loops_f32() {
#if PLANCK_VECTOR_MATH
  static constexpr NormLoops<float> kLoops = {.forward = norm_vectors::forward,
                                              .backward = norm_vectors::backward,
                                              .columns = norm_vectors::columns};
#else
  static constexpr NormLoops<float> kLoops;
#endif
  return &kLoops;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck {

HWY_EXPORT(norm_loops_f32);

template <>
const NormLoops<float>& norm_loops<float>() {
  static const auto& table = *HWY_DYNAMIC_DISPATCH(norm_loops_f32)();
  return table;
}
template <>
const NormLoops<double>& norm_loops<double>() {
  static constexpr NormLoops<double> kNone;
  return kNone;
}

}  // namespace planck
#endif
