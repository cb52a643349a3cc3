// The range of a group's values on the device, and the scale and zero point it gives.
#pragma once

#include "planck/loops/teams.cuh"
#include "planck/ops/quantize/elements.cuh"
#include "planck/ops/quantize/members.cuh"

namespace planck::quantize_device {

// Operands of a MemberCall.
enum DynamicOperand { kDynamicX, kDynamicQ, kDynamicScale = kElementOperands, kDynamicZero };

// A range is held as (−lo, hi), both at least 0: the bits of such numbers are ordered like
// integers, and 0 is where they start.
template <class C>
__device__ __forceinline__ C larger(C a, C b) {
  return a > b ? a : b;
}
template <class C>
struct Widen {
  __device__ __forceinline__ Two<C> operator()(const Two<C>& a, const Two<C>& b) const {
    return {larger(a.first, b.first), larger(a.second, b.second)};
  }
};

template <class C>
__device__ __forceinline__ void include(Two<C>& range, C x) {
  const C v = qm::is_finite(x) ? x : C(0);
  range.first = larger(range.first, -v);
  range.second = larger(range.second, v);
}

template <class T>
struct RangeArguments {
  const void* x;
  void* q;
  T* scale;
  std::int32_t* zero_point;
  Compute<T>* ranges;  // [groups, 2], zeroed, where a group has several chunks
  GroupWalk groups;
  bool symmetric;
  GridAttributes grid;
};

template <class T>
struct DynamicGroup {
  T scale;
  std::int32_t zero_point;
};

template <class T>
__device__ __forceinline__ DynamicGroup<T> dynamic_group(const Two<Compute<T>>& range,
                                                         bool symmetric,
                                                         const GridAttributes& grid) {
  using C = Compute<T>;
  const qm::DataRange<C> r{-range.first, range.second};
  const T scale = qm::stored_scale<T>(r, symmetric, grid.q_min, grid.q_max);
  return {scale, qm::dynamic_zero_point(r, widen(scale), symmetric, grid.q_min, grid.q_max)};
}

template <class T>
__device__ __forceinline__ void store_group(const RangeArguments<T>& args, std::int64_t group,
                                            const DynamicGroup<T>& g) {
  std::int64_t offset[kGroupOperands] = {};
  args.groups.add(group, offset);
  args.scale[offset[0]] = g.scale;
  args.zero_point[offset[1]] = g.zero_point;
}

__device__ __forceinline__ void raise(float* target, float v) {
  atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(v) & 0x7fffffffu);
}
__device__ __forceinline__ void raise(double* target, double v) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(v)) & 0x7fffffffffffffffull);
}

// One chunk of a group is done.
template <class T>
__device__ __forceinline__ void store_chunk(const RangeArguments<T>& args, std::int64_t chunks,
                                            std::int64_t group, const Two<Compute<T>>& range) {
  if (chunks == 1)
    return store_group(args, group, dynamic_group<T>(range, args.symmetric, args.grid));
  Compute<T>* target = args.ranges + 2 * group;
  if (range.first > target[0]) raise(target, range.first);
  if (range.second > target[1]) raise(target + 1, range.second);
}

// R elements a run, 16 bytes; one where strides are free.
template <class T, bool kDense>
inline constexpr int kRangeRun = kDense ? 16 / static_cast<int>(sizeof(T)) : 1;

// One launch: range, scale, zero point and q of groups that fit a block. In dynamic_quantize.cu.
inline constexpr int kMostDynamicThreads = 1024;
Result<void> launch_dynamic_rows(const Stream&, const QuantProblem&, const MemberCall&);
bool can_launch_dynamic_rows(const QuantProblem&, const MemberCall&);

template <class T>
RangeArguments<T> range_arguments(const QuantProblem& p, const MemberCall& call, void* ranges) {
  RangeArguments<T> args = {};
  args.x = call.base(kDynamicX);
  args.q = call.aligned(kDynamicQ, 1) ? call.base(kDynamicQ) : nullptr;
  args.scale = static_cast<T*>(call.base(kDynamicScale));
  args.zero_point = static_cast<std::int32_t*>(call.base(kDynamicZero));
  args.ranges = static_cast<Compute<T>*>(ranges);
  args.groups = call.group_walk();
  args.symmetric = p.symmetric;
  args.grid = grid_of(p);
  args.grid.reciprocal = false;
  return args;
}

}  // namespace planck::quantize_device
