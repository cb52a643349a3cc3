// The range of a group's values on the device, and the scale and zero point it gives.
#pragma once

#include "planck/loops/cuda/teams.cuh"
#include "planck/ops/quantize/cuda/cells.cuh"
#include "planck/ops/quantize/cuda/members.cuh"

namespace planck::quantize_device {

// Operands of a MemberCall.
enum DynamicOperand { kDynamicX, kDynamicQ, kDynamicScale = kElementOperands, kDynamicZero };

// A range as Two: lo <= 0 <= hi.
template <class C>
struct Widen {
  __device__ __forceinline__ Two<C> operator()(const Two<C>& a, const Two<C>& b) const {
    return {a.first < b.first ? a.first : b.first, a.second > b.second ? a.second : b.second};
  }
};
template <>
struct Widen<float> {
  __device__ __forceinline__ Two<float> operator()(const Two<float>& a, const Two<float>& b) const {
    return {fminf(a.first, b.first), fmaxf(a.second, b.second)};
  }
};

template <class T>
using PairOf = std::conditional_t<std::is_same_v<T, f16>, __half2, __nv_bfloat162>;

// The range of a run's finite values and 0: 16-bit floats two at a time.
template <class T, int R>
__device__ __forceinline__ Two<Compute<T>> range_of(const RunPack<T, R>& p) {
  using C = Compute<T>;
  Two<C> range = {C(0), C(0)};
  if constexpr (sizeof(T) == 2 && R > 1) {
    const auto pair = [](std::uint32_t w) { return *reinterpret_cast<const PairOf<T>*>(&w); };
    const PairOf<T> infinity = pair(std::is_same_v<T, f16> ? 0x7c007c00u : 0x7f807f80u);
    PairOf<T> lo = pair(0), hi = pair(0);
#pragma unroll
    for (int w = 0; w < R / 2; ++w) {
      const PairOf<T> finite =
          pair(p.word[w] & __hlt2_mask(pair(p.word[w] & 0x7fff7fffu), infinity));
      lo = __hmin2(lo, finite);
      hi = __hmax2(hi, finite);
    }
    Pack<4> ends;
    ends.word[0] = *reinterpret_cast<const std::uint32_t*>(&lo);
    range.first = fminf(element_of<T>(ends, 0), element_of<T>(ends, 1));
    ends.word[0] = *reinterpret_cast<const std::uint32_t*>(&hi);
    range.second = fmaxf(element_of<T>(ends, 0), element_of<T>(ends, 1));
  } else {
#pragma unroll
    for (int e = 0; e < R; ++e) {
      const C x = element_of<T>(p, e);
      const C v = qm::is_finite(x) ? x : C(0);
      range = Widen<C>()(range, {v, v});
    }
  }
  return range;
}

template <class T, bool kDense>
struct RangeArguments {
  const void* x;
  void* q;
  T* scale;
  std::int32_t* zero_point;
  Compute<T>* ranges;  // [groups, 2]: −lo and hi, zeroed, where a group has several chunks
  Groups<kDense> groups;
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
  const qm::DataRange<C> r{range.first, range.second};
  const T scale = qm::stored_scale<T>(r, symmetric, grid.q_min, grid.q_max);
  return {scale, qm::dynamic_zero_point(r, widen(scale), symmetric, grid.q_min, grid.q_max)};
}

template <class T, bool kDense>
__device__ __forceinline__ void store_group(const RangeArguments<T, kDense>& args,
                                            std::int64_t group, const DynamicGroup<T>& g) {
  args.scale[args.groups.offset(0, group)] = g.scale;
  args.zero_point[args.groups.offset(1, group)] = g.zero_point;
}

// The bits of numbers that are not negative are ordered like integers.
__device__ __forceinline__ void raise(float* target, float v) {
  atomicMax(reinterpret_cast<unsigned*>(target), __float_as_uint(v) & 0x7fffffffu);
}
__device__ __forceinline__ void raise(double* target, double v) {
  atomicMax(reinterpret_cast<unsigned long long*>(target),
            static_cast<unsigned long long>(__double_as_longlong(v)) & 0x7fffffffffffffffull);
}

// One chunk of a group is done.
template <class T, bool kDense>
__device__ __forceinline__ void store_chunk(const RangeArguments<T, kDense>& args,
                                            std::int64_t chunks, std::int64_t group,
                                            const Two<Compute<T>>& range) {
  if (chunks == 1)
    return store_group(args, group, dynamic_group<T>(range, args.symmetric, args.grid));
  Compute<T>* target = args.ranges + 2 * group;
  if (-range.first > target[0]) raise(target, -range.first);
  if (range.second > target[1]) raise(target + 1, range.second);
}

// R elements per run, 16 bytes; one where strides are arbitrary.
template <class T, bool kDense>
inline constexpr int kRangeRun = kDense ? 16 / static_cast<int>(sizeof(T)) : 1;

// One launch: range, scale, zero point and q of groups that fit a block. In dynamic_quantize.cu.
Result<void> launch_dynamic_rows(const Stream&, const QuantProblem&, const MemberCall&);
bool can_launch_dynamic_rows(const QuantProblem&, const MemberCall&);

template <class T, bool kDense>
RangeArguments<T, kDense> range_arguments(const QuantProblem& p, const MemberCall& call,
                                          void* ranges) {
  RangeArguments<T, kDense> args = {};
  args.x = call.base(kDynamicX);
  args.q = call.aligned(kDynamicQ, 1) ? call.base(kDynamicQ) : nullptr;
  args.scale = static_cast<T*>(call.base(kDynamicScale));
  args.zero_point = static_cast<std::int32_t*>(call.base(kDynamicZero));
  args.ranges = static_cast<Compute<T>*>(ranges);
  args.groups = call.groups_as<kDense>();
  args.symmetric = p.symmetric;
  args.grid = grid_of(p);
  return args;
}

}  // namespace planck::quantize_device
