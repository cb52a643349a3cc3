// Where the members of a group lie: what the kernels with a reduction walk over.
//
// Member runs are numbered in the logical order of the group's elements, R elements per run.
#pragma once

#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/teams.cuh"
#include "planck/ops/quantize/cuda/layout.cuh"

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
    for (int d = rank - 1; d > 0; --d) {
      const bool small = (index | extent[d]) >> 31 == 0;
      const std::int64_t rest =
          small ? static_cast<std::uint32_t>(index) / static_cast<std::uint32_t>(extent[d])
                : index / extent[d];
      const std::int64_t coordinate = index - rest * extent[d];
      index = rest;
#pragma unroll
      for (int k = 0; k < kOperands; ++k) offset[k] += coordinate * stride[k][d];
    }
#pragma unroll
    for (int k = 0; k < kOperands; ++k) offset[k] += index * stride[k][0];
  }
};

// Offsets of the group operands. kDense: a step from each group to the next.
template <bool kDense>
struct Groups;

template <>
struct Groups<true> {
  std::int64_t step[kGroupOperands];
  __device__ __forceinline__ std::int64_t offset(int operand, std::int64_t group) const {
    return group * step[operand];
  }
};

template <>
struct Groups<false> {
  AxisWalk<kGroupOperands> walk;
  __device__ __forceinline__ std::int64_t offset(int operand, std::int64_t group) const {
    std::int64_t offsets[kGroupOperands] = {};
    walk.add(group, offsets);
    return offsets[operand];
  }
};

// How members lie. Offsets are in runs.
//   rows      each group in one piece, all in one row-major order
//   planes    in that order, but [outer, channels, inner]
//   strided   anyhow, one element per run
enum class Lie : std::uint8_t { rows, planes, strided };

template <Lie kLie>
struct Members;

template <>
struct Members<Lie::rows> {
  std::int64_t runs;  // per group

  // Where the block's runs start; locate() gives offsets from there.
  __device__ __forceinline__ std::int64_t origin(const TeamThread& thread) const {
    return thread.origin_group * runs + thread.origin_run;
  }
  // thread.runs are those of a group where a block has several.
  __device__ __forceinline__ void locate(const TeamThread& thread, int k,
                                         std::int64_t (&offset)[kElementOperands]) const {
#pragma unroll
    for (auto& o : offset) o = thread.group(k) * thread.runs + thread.run(k);  // 32 bits
  }
};

template <>
struct Members<Lie::planes> {
  std::int64_t channels, inner;  // inner in runs
  bool small;                    // run numbers have 31 bits
  Divisor inner_divisor;

  __device__ __forceinline__ std::int64_t origin(const TeamThread&) const { return 0; }
  __device__ __forceinline__ void locate(const TeamThread& thread, int k,
                                         std::int64_t (&offset)[kElementOperands]) const {
    const std::int64_t group = thread.origin_group + thread.group(k);
    const std::int64_t run = thread.origin_run + thread.run(k);
    const std::int64_t outer =
        small ? inner_divisor.quotient(static_cast<std::uint32_t>(run)) : run / inner;
#pragma unroll
    for (auto& o : offset) o = (outer * channels + group) * inner + (run - outer * inner);
  }
};

template <>
struct Members<Lie::strided> {
  AxisWalk<kElementOperands> of_group, of_member;

  __device__ __forceinline__ std::int64_t origin(const TeamThread&) const { return 0; }
  __device__ __forceinline__ void locate(const TeamThread& thread, int k,
                                         std::int64_t (&offset)[kElementOperands]) const {
#pragma unroll
    for (auto& o : offset) o = 0;
    of_group.add(thread.origin_group + thread.group(k), offset);
    of_member.add(thread.origin_run + thread.run(k), offset);
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
  template <bool kDense>
  Groups<kDense> groups_as() const;
  Members<Lie::rows> rows(int run_length) const;
  Members<Lie::planes> planes(int run_length) const;
  Members<Lie::strided> strided() const;
};

// At least one group operand is an output. key: the element operand whose memory order to follow.
// ordered: results depend on the order of a group's members, which is then the logical one.
MemberCall member_call(const QuantProblem& p, const std::array<const View*, kMemberOperands>& view,
                       int key, bool ordered);

}  // namespace planck::quantize_device
