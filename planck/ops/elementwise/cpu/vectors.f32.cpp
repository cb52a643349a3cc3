// Portions of f32 through vectors.
#include "planck/loops/cpu/targets.h"
#include "planck/ops/elementwise/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/vectors.f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/elementwise/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

const elementwise_cpu::PortionTable* f32_portion_table() {
  static constexpr elementwise_cpu::PortionTable kTable = portion_table<float>();
  return &kTable;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(f32_portion_table);

const PortionTable& f32_portions() {
  static const PortionTable& table = *HWY_DYNAMIC_DISPATCH(f32_portion_table)();
  return table;
}

}  // namespace planck::elementwise_cpu
#endif
