// Where the members of a group lie: what the kernels with a reduction walk over.
//
// Member runs are numbered in the logical order of the group's elements, R elements a run.
#pragma once

#include "planck/loops/division.cuh"
#include "planck/loops/launch.cuh"
#include "planck/ops/quantize/layout.cuh"

namespace planck::quantize_device {

// Operands of a reduction: elements first, then groups. Absent ones have stride 0.
inline constexpr int kElementOperands = 3, kGroupOperands = 4;
inline constexpr int kMemberOperands = kElementOperands + kGroupOperands;

// A number decomposed over a few axes, as offsets of some operands.
template <int kOperands>
struct AxisWalk {
  int rank = 0;
  std::int64_t extent[kMaxNestRank] = {};
  std::int64_t stride[kOperands][kMaxNestRank] = {};

  __device__ __forceinline__ void add(std::int64_t index, std::int64_t (&offset)[kOperands]) const {
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t rest =
          d == 0 ? 0
          : (index | extent[d]) >> 31 == 0
              ? static_cast<std::uint32_t>(index) / static_cast<std::uint32_t>(extent[d])
              : index / extent[d];
      const std::int64_t coordinate = index - rest * extent[d];
      index = rest;
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offset[k] += coordinate * stride[k][d];
    }
  }
};

// Offsets of the group operands: kElementOperands onwards in a problem's list.
using GroupWalk = AxisWalk<kGroupOperands>;

// kDense: all element operands in one row-major order [outer, channels, inner], offsets in runs.
// Else one element a run, any strides, offsets in elements.
template <bool kDense>
struct Members;

template <>
struct Members<true> {
  std::int64_t channels, inner;  // inner in runs
  bool single, small;            // outer == 1; run numbers have 31 bits
  Divisor inner_divisor;

  __device__ __forceinline__ void locate(std::int64_t group, std::int64_t run,
                                         std::int64_t (&offset)[kElementOperands]) const {
    std::int64_t at = group * inner + run;
    if (!single) {
      const std::int64_t o =
          small ? inner_divisor.quotient(static_cast<std::uint32_t>(run)) : run / inner;
      at = (o * channels + group) * inner + (run - o * inner);
    }
#pragma unroll
    for (int k = 0; k < kElementOperands; ++k) offset[k] = at;
  }
};

template <>
struct Members<false> {
  AxisWalk<kElementOperands> of_group, of_member;
  std::int64_t start[kElementOperands];

  __device__ __forceinline__ void locate(std::int64_t group, std::int64_t run,
                                         std::int64_t (&offset)[kElementOperands]) const {
#pragma unroll
    for (int k = 0; k < kElementOperands; ++k) offset[k] = start[k];
    of_group.add(group, offset);
    of_member.add(run, offset);
  }
};

// A problem with sums or ranges over its groups.
struct MemberCall {
  std::int64_t groups = 0, members = 0;
  std::array<const View*, kMemberOperands> view{};  // null: absent
  Nest nest;
  DenseMap map;  // dense only where the order of members allows

  void* base(int operand) const;
  bool aligned(int operand, int bytes) const;
  GroupWalk group_walk() const;
  Members<true> dense_members(int run_length) const;
  Members<false> strided_members() const;
};

// At least one group operand is an output. key: the element operand whose memory order to follow.
// ordered: results depend on the order of a group's members, which is then the logical one.
MemberCall member_call(const QuantProblem& p, const std::array<const View*, kMemberOperands>& view,
                       int key, bool ordered);

}  // namespace planck::quantize_device
