#include "planck/ops/quantize/cuda/layout.cuh"

namespace planck::quantize_device {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Positions among the op's operands; b and zero_point repeat another where the op has none.
struct Roles {
  int out, a, b, scale, zero_point;
};

Roles roles(QuantKind kind) {
  namespace o = quant_operand;
  switch (kind) {
    case QuantKind::quantize_backward: {
      using P = o::QuantizeBackward;
      return {P::dx, P::x, P::dy, P::scale, P::zero_point};
    }
    case QuantKind::dequantize: {
      using P = o::Dequantize;
      return {P::x, P::q, P::q, P::scale, P::zero_point};
    }
    case QuantKind::dequantize_backward: {
      using P = o::DequantizeBackward;
      return {P::dq, P::dy, P::dy, P::scale, P::scale};
    }
    case QuantKind::fake_quantize: {
      using P = o::FakeQuantize;
      return {P::y, P::x, P::x, P::scale, P::zero_point};
    }
    case QuantKind::fake_quantize_backward: {
      using P = o::FakeQuantizeBackward;
      return {P::dx, P::x, P::dy, P::scale, P::zero_point};
    }
    case QuantKind::dynamic_quantize: {
      using P = o::DynamicQuantize;
      return {P::q, P::x, P::x, P::scale, P::zero_point};
    }
    case QuantKind::quantize:
      break;
  }
  using P = o::Quantize;
  return {P::q, P::x, P::x, P::scale, P::zero_point};
}

}  // namespace

DenseMap dense_map(const Nest& nest, int elements, int groups) {
  DenseMap map;
  std::array<bool, kMaxNestRank> is_group{};
  std::int64_t step = 1;
  for (int d = nest.rank - 1; d >= 0; --d) {
    for (int k = 0; k < elements; ++k)
      if (nest.extent[at(d)] != 1 && nest.stride[at(k)][at(d)] != step) return map;
    step *= nest.extent[at(d)];
    for (int k = elements; k < elements + groups; ++k)
      is_group[at(d)] |= nest.extent[at(d)] != 1 && nest.stride[at(k)][at(d)] != 0;
  }
  // [outer,] [group,] [inner]
  int d = nest.rank - 1;
  if (d >= 0 && !is_group[at(d)]) map.inner = nest.extent[at(d--)];
  if (d >= 0 && is_group[at(d)]) {
    for (int k = 0; k < groups; ++k) map.step[at(k)] = nest.stride[at(elements + k)][at(d)];
    map.channels = nest.extent[at(d--)];
  }
  if (d >= 0 && !is_group[at(d)]) map.outer = nest.extent[at(d--)];
  map.dense = d < 0;
  return map;
}

void* advance(const View& v, std::int64_t elements) {
  return static_cast<std::byte*>(v.data) + elements * bits(v.dtype) / 8;
}

void* ElementwiseCall::base(int operand) const {
  return advance(*view[at(operand)], nest.offset[at(operand)]);
}

bool ElementwiseCall::aligned(int operand, int bytes) const {
  const View& v = *view[at(operand)];
  if (is_packed(v.dtype) && nest.offset[at(operand)] % 2 != 0) return false;
  return reinterpret_cast<std::uintptr_t>(base(operand)) % static_cast<std::uintptr_t>(bytes) == 0;
}

GridAttributes grid_of(const QuantProblem& p) {
  return {p.lowest(), p.highest(), -int_range(p.dtype).lowest,
          p.math == QuantMath::reciprocal && p.kind != QuantKind::dynamic_quantize};
}

ElementwiseCall elementwise_call(const QuantProblem& p, const Operands& operands) {
  const Roles role = roles(p.kind);
  ElementwiseCall call;
  call.count = numel(p.shape);
  const int position[kNestOperands] = {role.out, role.a, role.b, role.scale, role.zero_point};
  std::array<NestStrides, kNestOperands> strides;
  for (int k = 0; k < kNestOperands; ++k) {
    const View& v = operands[at(position[k])];
    call.view[at(k)] = &v;
    strides[at(k)] = k < kScale ? p.element_strides(v) : p.group_strides(v);
  }
  const QuantProblem::Axes axes = p.axes();
  call.nest = make_nest(axes.rank, axes.extent, strides);
  sort_by(call.nest, kOut);
  collapse(call.nest);
  call.map = dense_map(call.nest, kScale, kNestOperands - kScale);
  call.grid = grid_of(p);
  return call;
}

}  // namespace planck::quantize_device
