// Portions of bf16 through vectors.
#include "planck/loops/cpu/targets.h"
#include "planck/ops/elementwise/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/vectors.bf16.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/elementwise/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

const elementwise_cpu::PortionTable* bf16_portion_table() {
  static constexpr elementwise_cpu::PortionTable kTable = portion_table<bf16>();
  return &kTable;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(bf16_portion_table);

const PortionTable& bf16_portions() {
  static const PortionTable& table = *HWY_DYNAMIC_DISPATCH(bf16_portion_table)();
  return table;
}

}  // namespace planck::elementwise_cpu
#endif
