// "cuda:direct": a thread has one place (window or pixel) and goes over planes, kPlanes at once,
// with the functions of pool.math.h: what only the place decides is computed once, and loads of
// several planes are under way together.
//
// [64, 64, 224, 224] f32, windows of 2 × 2, one H200, ms:   max, its gradient   average, gradient
//   one thread per element                                   1.41    9.99        1.12    7.90
//   several planes per thread                                0.75    1.85        0.47    1.31
//   and what a place decides computed once per thread        0.39    1.14        0.31    1.04
#include <algorithm>

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/axes_walk.h"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/ops/pool/cuda/kernels.h"

namespace planck {

namespace pool_device {

namespace {

constexpr int kThreads = 256, kPlanes = 4;

template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, std::int8_t>, T, Compute<T>>;

template <class T>
__device__ __forceinline__ auto number(T v) {
  if constexpr (sizeof(T) == 2)
    return widen(v);
  else
    return v;
}
template <class T>
__device__ __forceinline__ T stored(ComputeOf<T> v) {  // NaN is canonical already
  if constexpr (sizeof(T) == 2)
    return T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(v, 0.0f)));
  else
    return v;
}

// An operand [.., rows, columns]: where the planes lie.
struct Operand {
  void* data;
  std::int64_t row, column;
  AxisMap planes;
};

struct Call {
  PoolAxes axes;
  Operand image, windows, indices;  // x or dx, y or dy
  std::int64_t planes;
  std::int64_t rows, columns, places;  // of the result's planes
  int log2_lanes;                      // threads of a block that have consecutive places
  std::int64_t place_blocks, turns;    // turns: of a thread, kPlanes planes each
};

// kPlanes planes of an operand; one that is not there is the last one again.
template <class T>
struct Planes {
  T* data[kPlanes];
  std::int64_t row, column;
  __device__ __forceinline__ Planes(const Call& a, const Operand& o, std::int64_t first)
      : row(o.row), column(o.column) {
#pragma unroll
    for (int q = 0; q < kPlanes; ++q)
      data[q] = static_cast<T*>(o.data) +
                o.planes.offset(first + q < a.planes ? first + q : a.planes - 1);
  }
  __device__ __forceinline__ auto at(int q, std::int64_t r, std::int64_t c) const {
    return number(data[q][r * row + c * column]);
  }
};

// What a thread does: its place, and the planes it goes over.
struct Work {
  std::int64_t row, column, plane, end;
  __device__ __forceinline__ Work(const Call& a) {
    const int lanes = 1 << a.log2_lanes, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
    const int team = static_cast<int>(threadIdx.x) >> a.log2_lanes;
    const int teams = kThreads >> a.log2_lanes;
    const std::int64_t place = blockIdx.x % a.place_blocks * lanes + lane;
    row = place / a.columns;
    column = place % a.columns;
    plane = (blockIdx.x / a.place_blocks * teams + team) * a.turns * kPlanes;
    end = plane + a.turns * kPlanes < a.planes ? plane + a.turns * kPlanes : a.planes;
    if (place >= a.places) end = plane;
  }
};

template <class T>
__device__ __forceinline__ void put_all(const Call& a, const Operand& to, const Work& at,
                                        std::int64_t plane, const T (&v)[kPlanes]) {
  const Planes<T> planes(a, to, plane);
  const std::int64_t offset = at.row * planes.row + at.column * planes.column;
#pragma unroll
  for (int q = 0; q < kPlanes; ++q)
    if (plane + q < at.end) planes.data[q][offset] = v[q];
}
template <class T>
__device__ __forceinline__ void put_rounded(const Call& a, const Operand& to, const Work& at,
                                            std::int64_t plane, const ComputeOf<T> (&v)[kPlanes]) {
  T rounded[kPlanes];
#pragma unroll
  for (int q = 0; q < kPlanes; ++q) rounded[q] = stored<T>(v[q]);
  put_all(a, to, at, plane, rounded);
}

template <class T>
__global__ void __launch_bounds__(kThreads) largest(const __grid_constant__ Call a) {
  const Work at(a);
  const PoolRange pixels = pixels_of(a.axes, at.row, at.column);
  for (std::int64_t plane = at.plane; plane < at.end; plane += kPlanes) {
    pool_math::Largest<ComputeOf<T>> best[kPlanes];
    pool_math::largest(Planes<const T>(a, a.image, plane), a.axes, pixels, best);
    ComputeOf<T> values[kPlanes];
    std::int32_t positions[kPlanes];
#pragma unroll
    for (int q = 0; q < kPlanes; ++q) values[q] = best[q].value, positions[q] = best[q].position;
    put_rounded<T>(a, a.windows, at, plane, values);
    put_all(a, a.indices, at, plane, positions);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) largest_backward(const __grid_constant__ Call a) {
  const Work at(a);
  const PoolRange windows = windows_of(a.axes, at.row, at.column);
  for (std::int64_t plane = at.plane; plane < at.end; plane += kPlanes) {
    ComputeOf<T> dx[kPlanes];
    pool_math::largest_gradient(Planes<const T>(a, a.windows, plane),
                                Planes<const std::int32_t>(a, a.indices, plane), a.axes, windows,
                                at.row, at.column, dx);
    put_rounded<T>(a, a.image, at, plane, dx);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) average(const __grid_constant__ Call a) {
  const Work at(a);
  const PoolRange pixels = pixels_of(a.axes, at.row, at.column);
  const auto count = pool_math::divisor<ComputeOf<T>>(a.axes, at.row, at.column);
  for (std::int64_t plane = at.plane; plane < at.end; plane += kPlanes) {
    ComputeOf<T> y[kPlanes];
    pool_math::average(Planes<const T>(a, a.image, plane), pixels, count, y);
    put_rounded<T>(a, a.windows, at, plane, y);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) average_backward(const __grid_constant__ Call a) {
  const Work at(a);
  const PoolRange windows = windows_of(a.axes, at.row, at.column);
  for (std::int64_t plane = at.plane; plane < at.end; plane += kPlanes) {
    ComputeOf<T> dx[kPlanes];
    pool_math::average_gradient(Planes<const T>(a, a.windows, plane), a.axes, windows, dx);
    put_rounded<T>(a, a.image, at, plane, dx);
  }
}

Operand operand(const View& v) {
  const int planes = v.shape.rank() - 2;
  return {v.data, v.strides[planes], v.strides[planes + 1],
          AxisMap::of(axes_walk(v, (1u << planes) - 1))};
}

template <class T>
Result<void> run(const Stream& stream, const PoolProblem& p, Call a) {
  a.log2_lanes = 0;
  while ((1 << a.log2_lanes) < kThreads && (1 << a.log2_lanes) < a.places) ++a.log2_lanes;
  a.place_blocks = ceil_div(a.places, std::int64_t{1} << a.log2_lanes);
  const std::int64_t teams = kThreads >> a.log2_lanes, groups = ceil_div(a.planes, kPlanes);
  a.turns = std::clamp<std::int64_t>(a.place_blocks * ceil_div(groups, teams) / 4096, 1, 16);
  const std::int64_t blocks = a.place_blocks * ceil_div(groups, teams * a.turns);
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
  const View& result = o[p.backward() ? (p.largest() ? 2 : 1) : 1];
  if (numel(result.shape) == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  Call a = {};
  a.axes = p.axes();
  a.image = operand(p.backward() ? result : o[0]);
  a.windows = operand(p.backward() ? o[0] : result);
  if (p.largest()) a.indices = operand(o[p.backward() ? 1 : 2]);
  const int leading = p.x.rank() - 2;
  a.rows = result.shape[leading];
  a.columns = result.shape[leading + 1];
  a.places = a.rows * a.columns;
  a.planes = numel(result.shape) / a.places;
  if (p.element_dtype == Dtype::s8) return run<std::int8_t>(stream, p, a);
  return visit_float(p.element_dtype,
                     [&](auto type) { return run<typename decltype(type)::type>(stream, p, a); });
}

}  // namespace planck
