// cuda:running of cummax and cummin. Along a dense axis, a block goes over a row in tiles of 2 Ki
// elements, eight to a thread: threads, then warps, are joined in order. Along any other axis a
// thread has a group. Nothing is computed, elements are moved: whichever way the row is cut, the
// first that no other exceeds is the same one (takes_over in reduce.math.h), so the bits are those
// of the CPU.
#include "planck/loops/launch.cuh"
#include "planck/ops/reduce/axis_map.cuh"
#include "planck/ops/reduce/joins.cuh"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/reduce.cuda.h"

namespace planck {

namespace reduce_device {
namespace {

template <class T>
struct ExtremeArguments {
  const T* in;
  T* values;
  std::int64_t* indices;
  AxisMap in_map, values_map, indices_map;  // of groups
  std::int64_t groups, length;
  std::int64_t in_step, values_step, indices_step;  // along the axis
};

template <class T>
__device__ __forceinline__ T extreme_stored(Loaded<T> v) {
  if constexpr (std::is_floating_point_v<Loaded<T>>)
    return stored<T>(rm::canonical(v));
  else
    return v;
}

template <class T, bool kLargest>
__global__ void __launch_bounds__(128) extreme_columns(const ExtremeArguments<T> a) {
  const std::int64_t g = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (g >= a.groups) return;
  const T* in = a.in + a.in_map.offset(g);
  T* values = a.values + a.values_map.offset(g);
  std::int64_t* indices = a.indices + a.indices_map.offset(g);
  Loaded<T> best = loaded(in[0]);
  std::int64_t index = 0;
#pragma unroll 4
  for (std::int64_t i = 0; i < a.length; ++i) {
    const Loaded<T> v = loaded(in[i * a.in_step]);
    if (rm::takes_over<kLargest>(v, best)) {
      best = v;
      index = i;
    }
    values[i * a.values_step] = extreme_stored<T>(best);
    indices[i * a.indices_step] = index;
  }
}

constexpr int kExtremeThreads = 256, kExtremeWarps = kExtremeThreads / 32, kExtremeEach = 8;
constexpr int kExtremeTile = kExtremeThreads * kExtremeEach;
constexpr int kCarried = -1, kNothing = -2;  // positions: from an earlier tile; no element yet

// An element of the tile, by its position there.
template <class V>
struct Leader {
  V value;
  int at;
};
template <bool kLargest, class V>
__device__ __forceinline__ Leader<V> lead(const Leader<V>& earlier, const Leader<V>& later) {
  if (later.at == kNothing) return earlier;
  if (earlier.at == kNothing) return later;
  return rm::takes_over<kLargest>(later.value, earlier.value) ? later : earlier;
}
template <class V>
__device__ __forceinline__ Leader<V> from_lane_before(const Leader<V>& own, int distance) {
  return {__shfl_up_sync(~0u, own.value, distance), __shfl_up_sync(~0u, own.at, distance)};
}

template <class T, bool kLargest>
__global__ void __launch_bounds__(kExtremeThreads) extreme_rows(const ExtremeArguments<T> a) {
  using V = Loaded<T>;
  // A place more every 32: no two threads of a warp on one bank.
  __shared__ V tile[kExtremeTile + kExtremeTile / 32];
  __shared__ int places[kExtremeTile + kExtremeTile / 32];
  __shared__ V warp_value[kExtremeWarps];
  __shared__ int warp_at[kExtremeWarps];
  const auto place = [](int i) { return i + i / 32; };
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const T* in = a.in + a.in_map.offset(blockIdx.x);
  T* values = a.values + a.values_map.offset(blockIdx.x);
  std::int64_t* indices = a.indices + a.indices_map.offset(blockIdx.x);
  Leader<V> carried{V(0), kNothing};  // the same in every thread
  std::int64_t carried_index = 0;
  for (std::int64_t begin = 0; begin < a.length; begin += kExtremeTile) {
    const std::int64_t left = a.length - begin;
    const int count = left < kExtremeTile ? static_cast<int>(left) : kExtremeTile;
    for (int i = thread; i < count; i += kExtremeThreads)
      tile[place(i)] = loaded(in[(begin + i) * a.in_step]);
    __syncthreads();

    // The leader of a thread's elements, then of the warp's up to and before this thread's.
    const int first = thread * kExtremeEach;
    Leader<V> own{V(0), kNothing};
    for (int k = first; k < first + kExtremeEach && k < count; ++k)
      own = lead<kLargest>(own, Leader<V>{tile[place(k)], k});
    for (int d = 1; d < 32; d *= 2) {
      const Leader<V> before = from_lane_before(own, d);
      if (lane >= d) own = lead<kLargest>(before, own);
    }
    if (lane == 31) {
      warp_value[warp] = own.value;
      warp_at[warp] = own.at;
    }
    Leader<V> lanes_before = from_lane_before(own, 1);
    if (lane == 0) lanes_before.at = kNothing;
    __syncthreads();

    // What this thread's elements follow, and what the next tile will.
    Leader<V> running = carried, next = carried;
    for (int w = 0; w < kExtremeWarps; ++w) {
      if (w == warp) running = next;
      next = lead<kLargest>(next, Leader<V>{warp_value[w], warp_at[w]});
    }
    running = lead<kLargest>(running, lanes_before);
    for (int k = first; k < first + kExtremeEach && k < count; ++k) {
      running = lead<kLargest>(running, Leader<V>{tile[place(k)], k});
      tile[place(k)] = running.value;
      places[place(k)] = running.at;
    }
    __syncthreads();

    for (int i = thread; i < count; i += kExtremeThreads) {
      const int at = places[place(i)];
      values[(begin + i) * a.values_step] = extreme_stored<T>(tile[place(i)]);
      indices[(begin + i) * a.indices_step] = at == kCarried ? carried_index : begin + at;
    }
    if (next.at != kCarried) carried_index = begin + next.at;
    carried = {next.value, kCarried};
    __syncthreads();
  }
}

template <class T, bool kLargest>
Result<void> running_extreme(const Stream& stream, const ReduceProblem& p,
                             const Operands& operands) {
  const ReduceLayout l = ReduceLayout::make(p, operands[0], operands[1], &operands[2]);
  if (l.groups == 0 || l.length == 0) return {};
  int axis = 0;
  while (!p.reduces(axis)) ++axis;
  ExtremeArguments<T> a{};
  a.in = static_cast<const T*>(operands[0].data);
  a.values = static_cast<T*>(operands[1].data);
  a.indices = static_cast<std::int64_t*>(operands[2].data);
  a.in_map = AxisMap::of(walk_of(l.kept, 0));
  a.values_map = AxisMap::of(walk_of(l.kept, 1));
  a.indices_map = AxisMap::of(walk_of(l.kept, 2));
  a.groups = l.groups;
  a.length = l.length;
  a.in_step = operands[0].strides[axis];
  a.values_step = operands[1].strides[axis];
  a.indices_step = operands[2].strides[axis];
  const char* name = kLargest ? "cummax" : "cummin";
  if (l.columns && l.groups >= 256)
    return launch(stream, name, extreme_columns<T, kLargest>, ceil_div(l.groups, 128), 128, a);
  return launch(stream, name, extreme_rows<T, kLargest>, l.groups, kExtremeThreads, a);
}

template <class T>
Result<void> running_extreme(const Stream& stream, const ReduceProblem& p,
                             const Operands& operands) {
  return p.kind == ReduceKind::cummax ? running_extreme<T, true>(stream, p, operands)
                                      : running_extreme<T, false>(stream, p, operands);
}

}  // namespace
}  // namespace reduce_device

Result<void> running_extreme_cuda(const Stream& stream, Workspace, const ReduceProblem& p,
                                  const Operands& operands) {
  using namespace reduce_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  switch (p.element_dtype) {
    case Dtype::f64:
      return running_extreme<double>(stream, p, operands);
    case Dtype::f16:
      return running_extreme<f16>(stream, p, operands);
    case Dtype::bf16:
      return running_extreme<bf16>(stream, p, operands);
    case Dtype::i32:
      return running_extreme<std::int32_t>(stream, p, operands);
    case Dtype::i64:
      return running_extreme<std::int64_t>(stream, p, operands);
    default:
      return running_extreme<float>(stream, p, operands);
  }
}

}  // namespace planck
