#include "planck/ops/quantize/cuda/members.cuh"

namespace planck::quantize_device {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A group axis moves an output that has one entry per group.
bool is_group_axis(const Nest& nest, int d) {
  for (int k = kElementOperands; k < kMemberOperands; ++k)
    if (nest.stride[at(k)][at(d)] != 0) return true;
  return false;
}

// Strides of the logical number of a member within its group.
NestStrides member_numbers(const QuantProblem& p, const QuantProblem::Axes& axes) {
  NestStrides s{};
  std::int64_t step = 1;
  for (int d = axes.rank - 1; d >= 0; --d) {
    bool group = d + 1 < axes.rank;  // per token and per group: all axes but the last
    if (p.granularity == Granularity::per_tensor) group = false;
    if (p.granularity == Granularity::per_channel) group = d == p.axis;
    if (group) continue;
    s[at(d)] = step;
    step *= axes.extent[at(d)];
  }
  return s;
}

}  // namespace

void* MemberCall::base(int operand) const {
  const View* v = view[at(operand)];
  return v == nullptr ? nullptr : advance(*v, nest.offset[at(operand)]);
}

bool MemberCall::aligned(int operand, int bytes) const {
  const View& v = *view[at(operand)];
  if (is_packed(v.dtype) && nest.offset[at(operand)] % 2 != 0) return false;
  return reinterpret_cast<std::uintptr_t>(base(operand)) % static_cast<std::uintptr_t>(bytes) == 0;
}

template <>
Groups<true> MemberCall::groups_as<true>() const {
  Groups<true> g;
  for (int k = 0; k < kGroupOperands; ++k) g.step[k] = map.step[at(k)];
  return g;
}

template <>
Groups<false> MemberCall::groups_as<false>() const {
  Groups<false> g;
  for (int d = 0; d < nest.rank; ++d) {
    if (nest.extent[at(d)] == 1 || !is_group_axis(nest, d)) continue;
    g.walk.extent[g.walk.rank] = nest.extent[at(d)];
    for (int k = 0; k < kGroupOperands; ++k)
      g.walk.stride[k][g.walk.rank] = nest.stride[at(kElementOperands + k)][at(d)];
    ++g.walk.rank;
  }
  return g;
}

Members<Lie::rows> MemberCall::rows(int run_length) const { return {members / run_length}; }

Members<Lie::planes> MemberCall::planes(int run_length) const {
  Members<Lie::planes> m;
  m.channels = map.channels;
  m.inner = std::max<std::int64_t>(1, map.inner / run_length);
  m.small = members / run_length < kDivisorLimit;
  if (m.small) m.inner_divisor = Divisor(static_cast<std::uint32_t>(m.inner));
  return m;
}

Members<Lie::strided> MemberCall::strided() const {
  Members<Lie::strided> m;
  for (int d = 0; d < nest.rank; ++d) {
    if (nest.extent[at(d)] == 1) continue;
    auto& walk = is_group_axis(nest, d) ? m.of_group : m.of_member;
    walk.extent[walk.rank] = nest.extent[at(d)];
    for (int k = 0; k < kElementOperands; ++k)
      walk.stride[k][walk.rank] = nest.stride[at(k)][at(d)];
    ++walk.rank;
  }
  return m;
}

MemberCall member_call(const QuantProblem& p, const std::array<const View*, kMemberOperands>& view,
                       int key, bool ordered) {
  MemberCall call;
  const QuantProblem::Map groups = p.map();
  call.groups = groups.channels;
  call.members = groups.members();
  call.view = view;
  std::array<NestStrides, kMaxNestOperands> strides{};
  for (int k = 0; k < kMemberOperands; ++k) {
    const View* v = view[at(k)];
    if (k < kElementOperands)
      strides[at(k)] = p.element_strides(*(v != nullptr ? v : view[0]));
    else if (v != nullptr)
      strides[at(k)] = p.group_strides(*v);
  }
  const QuantProblem::Axes axes = p.axes();
  constexpr int kNumbers = kMemberOperands;
  strides[kNumbers] = member_numbers(p, axes);
  const Nest logical =
      make_nest(axes.rank, axes.extent, {strides.data(), at(ordered ? kNumbers + 1 : kNumbers)});
  call.nest = logical;
  sort_by(call.nest, key);
  collapse(call.nest);
  call.map = dense_map(call.nest, kElementOperands, kGroupOperands);
  if (!ordered) return call;

  const NestStrides& numbers = call.nest.stride[kNumbers];
  const int last = call.nest.rank - 1;
  const bool in_order = call.nest.offset[kNumbers] == 0 &&
                        (call.map.inner == 1 || numbers[at(last)] == 1) &&
                        (call.map.outer == 1 || numbers[0] == call.map.inner);
  if (call.map.dense && in_order) return call;
  call.map.dense = false;
  call.nest = logical;
  collapse(call.nest);
  return call;
}

}  // namespace planck::quantize_device
