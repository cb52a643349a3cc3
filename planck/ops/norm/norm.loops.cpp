#include "planck/ops/norm/norm.loops.h"

#include "planck/loops/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/norm/norm.loops.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/loops/steps-inl.h"
#include "planck/ops/norm/norm.vectors-inl.h"

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
