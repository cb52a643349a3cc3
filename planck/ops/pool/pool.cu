// "cuda:direct": a thread an element of the result, with the functions of pool.math.h.
#include <algorithm>

#include "planck/loops/launch.cuh"
#include "planck/ops/pool/kernels.h"

namespace planck {

namespace pool_device {

namespace {

constexpr int kThreads = 256;

template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double,
                                     std::conditional_t<std::is_same_v<T, std::int8_t>, T, float>>;

// An operand [.., rows, columns]: where the axes in front of the plane lie.
struct Operand {
  void* data;
  std::int64_t row, column, stride[kMaxRank];
};

struct Call {
  PoolAxes axes;
  Operand image, windows, indices;  // x or dx, y or dy
  int leading;
  std::int64_t extent[kMaxRank];
  std::int64_t rows, columns, total;  // of the result
};

struct Place {
  std::int64_t plane, row, column;
};

__device__ __forceinline__ bool place_of(const Call& a, Place& at) {
  const std::int64_t p = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (p >= a.total) return false;
  if (a.total <= INT32_MAX) {
    const auto q = static_cast<std::uint32_t>(p), columns = static_cast<std::uint32_t>(a.columns),
               rows = static_cast<std::uint32_t>(a.rows);
    const std::uint32_t line = q / columns;
    at = {line / rows, line % rows, q % columns};
  } else {
    const std::int64_t line = p / a.columns;
    at = {line / a.rows, line % a.rows, p % a.columns};
  }
  return true;
}

__device__ __forceinline__ std::int64_t offset(const Call& a, const Operand& o,
                                               std::int64_t plane) {
  std::int64_t at = 0;
  for (int d = a.leading - 1; d >= 0; --d) {
    at += plane % a.extent[d] * o.stride[d];
    plane /= a.extent[d];
  }
  return at;
}

template <class T, class C>
__device__ __forceinline__ PoolPlane<T, C> plane_of(const Call& a, const Operand& o,
                                                    std::int64_t plane) {
  return {static_cast<const T*>(o.data) + offset(a, o, plane), o.row, o.column};
}
template <class T>
__device__ __forceinline__ void put(const Call& a, const Operand& o, const Place& at, T value) {
  static_cast<T*>(o.data)[offset(a, o, at.plane) + at.row * o.row + at.column * o.column] = value;
}

template <class T>
__global__ void __launch_bounds__(kThreads) largest(const __grid_constant__ Call a) {
  using C = ComputeOf<T>;
  Place at;
  if (!place_of(a, at)) return;
  const auto best =
      pool_math::largest(plane_of<T, C>(a, a.image, at.plane), a.axes, at.row, at.column);
  put(a, a.windows, at, static_cast<T>(best.value));
  put(a, a.indices, at, best.position);
}

template <class T>
__global__ void __launch_bounds__(kThreads) largest_backward(const __grid_constant__ Call a) {
  using C = ComputeOf<T>;
  Place at;
  if (!place_of(a, at)) return;
  const C dx = pool_math::largest_gradient(
      plane_of<T, C>(a, a.windows, at.plane),
      plane_of<std::int32_t, std::int32_t>(a, a.indices, at.plane), a.axes, at.row, at.column);
  put(a, a.image, at, static_cast<T>(dx));
}

template <class T>
__global__ void __launch_bounds__(kThreads) average(const __grid_constant__ Call a) {
  using C = ComputeOf<T>;
  Place at;
  if (!place_of(a, at)) return;
  const C y = pool_math::average(plane_of<T, C>(a, a.image, at.plane), a.axes, at.row, at.column);
  put(a, a.windows, at, static_cast<T>(y));
}

template <class T>
__global__ void __launch_bounds__(kThreads) average_backward(const __grid_constant__ Call a) {
  using C = ComputeOf<T>;
  Place at;
  if (!place_of(a, at)) return;
  const C dx = pool_math::average_gradient(plane_of<T, C>(a, a.windows, at.plane), a.axes, at.row,
                                           at.column);
  put(a, a.image, at, static_cast<T>(dx));
}

Operand operand(const View& v) {
  const int planes = v.shape.rank() - 2;
  Operand o = {v.data, v.strides[planes], v.strides[planes + 1], {}};
  for (int d = 0; d < planes; ++d) o.stride[d] = v.strides[d];
  return o;
}

template <class T>
Result<void> run(const Stream& stream, const PoolProblem& p, const Call& a) {
  const std::int64_t blocks = ceil_div(a.total, kThreads);
  if (p.kind == PoolKind::max_pool2d)
    return launch(stream, "max_pool2d", largest<T>, blocks, kThreads, a);
  if constexpr (std::is_same_v<T, std::int8_t>) {
    return {};
  } else {
    if (p.largest())
      return launch(stream, "max_pool2d_backward", largest_backward<T>, blocks, kThreads, a);
    if (p.backward())
      return launch(stream, "avg_pool2d_backward", average_backward<T>, blocks, kThreads, a);
    return launch(stream, "avg_pool2d", average<T>, blocks, kThreads, a);
  }
}

}  // namespace

}  // namespace pool_device

Result<void> pool_cuda(const Stream& stream, Workspace, const PoolProblem& p, const Operands& o) {
  using namespace pool_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View& result = o[p.backward() ? (p.largest() ? 2 : 1) : 1];
  Call a = {};
  a.axes = p.axes();
  a.image = operand(p.backward() ? result : o[0]);
  a.windows = operand(p.backward() ? o[0] : result);
  if (p.largest()) a.indices = operand(o[p.backward() ? 1 : 2]);
  a.leading = p.x.rank() - 2;
  for (int d = 0; d < a.leading; ++d) a.extent[d] = p.x[d];
  a.rows = result.shape[a.leading];
  a.columns = result.shape[a.leading + 1];
  a.total = numel(result.shape);
  if (p.element_dtype == Dtype::s8) return run<std::int8_t>(stream, p, a);
  return visit_float(p.element_dtype,
                     [&](auto type) { return run<typename decltype(type)::type>(stream, p, a); });
}

}  // namespace planck
