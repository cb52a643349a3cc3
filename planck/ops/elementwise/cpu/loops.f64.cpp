// Loops of the elementwise family in f64.
#include "planck/ops/elementwise/cpu/loops.h"

#include "planck/loops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/loops.f64.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/elementwise/cpu/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

const LoopTable* f64_loop_table() {
  static constexpr LoopTable kTable = table_of<double, em::FloatUnary, em::FloatBinary>();
  return &kTable;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(f64_loop_table);

const LoopTable& f64_loops() {
  static const LoopTable& table = *HWY_DYNAMIC_DISPATCH(f64_loop_table)();
  return table;
}

}  // namespace planck::elementwise_cpu
#endif
