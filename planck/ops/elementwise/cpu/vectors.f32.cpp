// Chunks of f32 through vectors.
#include "planck/loops/cpu/targets.h"
#include "planck/ops/elementwise/cpu/loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "planck/ops/elementwise/cpu/vectors.f32.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "planck/ops/elementwise/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::HWY_NAMESPACE {

const elementwise_cpu::BlockTable* f32_block_table() {
  static constexpr elementwise_cpu::BlockTable kTable = block_table<float>();
  return &kTable;
}

}  // namespace planck::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::elementwise_cpu {

HWY_EXPORT(f32_block_table);

const BlockTable& f32_blocks() {
  static const BlockTable& table = *HWY_DYNAMIC_DISPATCH(f32_block_table)();
  return table;
}

}  // namespace planck::elementwise_cpu
#endif
