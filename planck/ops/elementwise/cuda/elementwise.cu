// CUDA kernels of the elementwise family: what is launched for which problem.
#include <cstdlib>

#include "planck/ops/elementwise/cuda/functions.cuh"
#include "planck/ops/elementwise/cuda/kernels.h"

namespace planck {

namespace elementwise_device {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

Map map_of(const Call& call) {
  Map m = {};
  m.rank = call.nest.rank;
  m.inputs = call.inputs;
  for (int d = 0; d < m.rank; ++d) m.extent[d] = call.nest.extent[at(d)];
  for (int k = 0; k <= call.inputs; ++k) {
    m.base[k] = call.base[k];
    for (int d = 0; d < m.rank; ++d) m.stride[k][d] = call.nest.stride[at(k)][at(d)];
  }
  return m;
}

void finish(Map& m) {
  m.count = 1;
  for (int d = 0; d < m.rank; ++d) m.count *= m.extent[d];
  m.small = m.count < kDivisorLimit;
  for (int k = 0; k <= m.inputs; ++k) {
    std::int64_t reach = 0;
    for (int d = 0; d < m.rank; ++d) reach += std::abs(m.stride[k][d]) * (m.extent[d] - 1);
    m.small &= reach <= INT32_MAX;
  }
  for (int d = 1; m.small && d < m.rank; ++d)
    m.divisor[d] = Divisor(static_cast<std::uint32_t>(m.extent[d]));
}

}  // namespace

Call call_of(const ElementwiseProblem& p, const Operands& operands) {
  Call call{};
  call.inputs = p.inputs();
  NestStrides extent{};
  std::array<NestStrides, kOperands> strides{};
  for (int d = 0; d < p.shape.rank(); ++d) {
    extent[at(d)] = p.shape[d];
    for (int k = 0; k <= call.inputs; ++k) strides[at(k)][at(d)] = operands[at(k)].strides[d];
  }
  call.nest = make_nest(p.shape.rank(), extent, {strides.data(), at(call.inputs + 1)});
  sort_by(call.nest, call.inputs);
  collapse(call.nest);
  for (int k = 0; k <= call.inputs; ++k) {
    const View& v = operands[at(k)];
    call.bytes[k] = storage_bytes(v.dtype);
    call.base[k] = static_cast<std::byte*>(v.data) +
                   call.nest.offset[at(k)] * static_cast<std::int64_t>(call.bytes[k]);
  }
  return call;
}

bool packs_map(const Call& call, int V, Map& m) {
  m = map_of(call);
  const int last = m.rank - 1;
  if (last > 0 && m.extent[last] % V != 0) return false;
  for (int k = 0; k <= call.inputs; ++k) {
    m.constant[k] = k < call.inputs && m.stride[k][last] == 0;
    if (m.constant[k]) continue;
    const auto bytes = static_cast<std::int64_t>(call.bytes[k]) * V;
    const std::int64_t alignment = bytes < 16 ? bytes : 16;
    if (m.stride[k][last] != 1 || reinterpret_cast<std::uintptr_t>(m.base[k]) % alignment != 0)
      return false;
    for (int d = 0; d < last; ++d)
      if (m.stride[k][d] * static_cast<std::int64_t>(call.bytes[k]) % alignment != 0) return false;
    m.stride[k][last] = V;
  }
  m.tail = m.extent[last] % V;  // of one axis alone
  m.extent[last] /= V;
  finish(m);
  return true;
}

bool flat_map(const Map& map, Flat& flat) {
  if (map.rank != 1 || map.tail != 0 || !map.small) return false;
  flat.packs = static_cast<std::uint32_t>(map.count);
  for (int k = 0; k <= map.inputs; ++k) {
    if (map.constant[k]) return false;
    flat.base[k] = map.base[k];
  }
  return true;
}

bool rows_map(const Map& map, Rows& rows) {
  if (map.rank != 2 || !map.small) return false;
  rows.packs = static_cast<std::uint32_t>(map.count);
  rows.row = map.divisor[1];
  for (int k = 0; k <= map.inputs; ++k) {
    if (map.stride[k][0] < 0) return false;
    rows.base[k] = map.base[k];
    rows.constant[k] = map.constant[k];
    rows.stride[k] = static_cast<std::uint32_t>(map.stride[k][0]);
  }
  return true;
}

Map strided_map(const Call& call) {
  Map m = map_of(call);
  finish(m);
  return m;
}

}  // namespace elementwise_device

Result<void> elementwise_cuda_run(const Stream& stream, Workspace, const ElementwiseProblem& p,
                                  const Operands& operands) {
  using namespace elementwise_device;
  using Op = ElementwiseOp;
  if (numel(p.shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (p.op >= Op::arange) return launch_sequence(stream, p, operands[0]);
  const Call call = call_of(p, operands);
  if (p.op == Op::where || p.op == Op::mask_fill || p.op == Op::copy || p.op == Op::fill ||
      (p.op == Op::cast && p.dtype == p.to && !is_float(p.dtype) && p.dtype != Dtype::boolean))
    return launch_bits(stream, p, call);
  if (p.op == Op::cast) return launch_cast(stream, p, call);
  if (!is_float(p.dtype)) return launch_integers(stream, p, call);
  return visit_float(p.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    return call.inputs == 1 ? launch_float_unary<T>(stream, p, call)
                            : launch_float_binary<T>(stream, p, call);
  });
}

}  // namespace planck
