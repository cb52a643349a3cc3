// cuda:running. Along a dense axis, a block goes over a row in tiles of 8 Ki elements: a thread has
// a block of 32 (running_sum.h), a warp the 32 blocks that are a block of the next level. Along any
// other axis a thread has a group.
#include "planck/loops/launch.cuh"
#include "planck/math/running_sum.h"
#include "planck/ops/reduce/axis_map.cuh"
#include "planck/ops/reduce/joins.cuh"
#include "planck/ops/reduce/layout.h"
#include "planck/ops/reduce/reduce.cuda.h"

namespace planck {

namespace reduce_device {
namespace {

// Integers wrap.
template <class C>
struct RunningOf {
  using Type = C;
};
template <>
struct RunningOf<std::int32_t> {
  using Type = std::uint32_t;
};
template <>
struct RunningOf<std::int64_t> {
  using Type = std::uint64_t;
};
template <class C>
using Running = typename RunningOf<C>::Type;

template <class T>
struct ScanArguments {
  const T* in;
  T* out;
  AxisMap in_map, out_map;  // of groups
  std::int64_t groups, length;
  std::int64_t in_step, out_step;    // along the axis, in the order of the sum
  std::int64_t in_start, out_start;  // of the first element of the sum
};

template <class T>
__device__ __forceinline__ Running<Loaded<T>> scan_load(T v) {
  return static_cast<Running<Loaded<T>>>(loaded(v));
}
template <class T>
__device__ __forceinline__ T scan_stored(Running<Loaded<T>> v) {
  if constexpr (std::is_floating_point_v<Loaded<T>>)
    return stored<T>(rm::canonical(v));
  else
    return static_cast<T>(v);
}

template <class T>
__global__ void __launch_bounds__(128) scan_columns(const ScanArguments<T> a) {
  const std::int64_t g = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (g >= a.groups) return;
  const T* in = a.in + a.in_map.offset(g) + a.in_start;
  T* out = a.out + a.out_map.offset(g) + a.out_start;
  using R = Running<Loaded<T>>;
  RunningSum<R> blocks;
  R before = 0;
  for (std::int64_t i = 0; i < a.length; i += kRunningBlock) {
    R local = 0;
#pragma unroll 8
    for (int k = 0; k < kRunningBlock; ++k) {
      if (i + k >= a.length) break;
      const R v = scan_load<T>(in[(i + k) * a.in_step]);
      local = k == 0 ? v : local + v;
      out[(i + k) * a.out_step] = scan_stored<T>(i == 0 ? local : before + local);
    }
    if (i + kRunningBlock < a.length) before = blocks.add(local);
  }
}

constexpr int kScanThreads = 256, kScanTile = kScanThreads * kRunningBlock;

template <class R>
constexpr std::size_t scan_shared() {
  return sizeof(R) * (kScanTile + kScanThreads) + sizeof(R) * 3 * (kScanThreads / 32);
}

template <class T>
__global__ void __launch_bounds__(kScanThreads) scan_rows(const ScanArguments<T> a) {
  using R = Running<Loaded<T>>;
  extern __shared__ __align__(16) unsigned char memory[];
  R* tile = reinterpret_cast<R*>(memory);  // a column more every 32: no two threads on one bank
  R* totals = tile + kScanTile + kScanThreads;
  R* before = totals + kScanThreads / 32;  // what the blocks of a warp follow
  R* lead = before + kScanThreads / 32;    // its first block
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto place = [](int i) { return i + i / 32; };
  const T* in = a.in + a.in_map.offset(blockIdx.x) + a.in_start;
  T* out = a.out + a.out_map.offset(blockIdx.x) + a.out_start;
  RunningSum<R> warps;  // thread 0's: sums of 1,024 elements, the third level
  R last = 0, previous = 0;
  for (std::int64_t begin = 0; begin < a.length; begin += kScanTile) {
    for (int i = static_cast<int>(threadIdx.x); i < kScanTile; i += kScanThreads)
      tile[place(i)] = begin + i < a.length ? scan_load<T>(in[(begin + i) * a.in_step]) : R(0);
    __syncthreads();
    const int first = static_cast<int>(threadIdx.x) * kRunningBlock;
    R local = tile[place(first)];
    for (int k = 1; k < kRunningBlock; ++k) {
      local = local + tile[place(first + k)];
      tile[place(first + k)] = local;
    }
    // The sum of the blocks up to this one, from the warp's first on.
    R up_to = 0;
#pragma unroll 1
    for (int j = 0; j < 32; ++j) {
      const R other = __shfl_sync(~0u, local, j);
      if (j == 0)
        up_to = other;
      else if (j <= lane)
        up_to = up_to + other;
    }
    if (lane == 31) totals[warp] = up_to;
    const R own_before = __shfl_up_sync(~0u, up_to, 1);
    __syncthreads();
    if (threadIdx.x == 0)
      for (int w = 0; w < kScanThreads / 32; ++w) {
        before[w] = last;
        lead[w] = previous;
        previous = begin == 0 && w == 0 ? totals[w] : last + totals[w];
        last = warps.add(totals[w]);
      }
    __syncthreads();
    const bool later = begin > 0 || warp > 0;  // a warp that is not the first of the row
    R offset = own_before;
    if (later) offset = lane == 0 ? lead[warp] : before[warp] + own_before;
    if (later || lane > 0)
      for (int k = 0; k < kRunningBlock; ++k)
        tile[place(first + k)] = offset + tile[place(first + k)];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kScanTile && begin + i < a.length;
         i += kScanThreads)
      out[(begin + i) * a.out_step] = scan_stored<T>(tile[place(i)]);
    __syncthreads();
  }
}

template <class T>
Result<void> scan(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  const ReduceLayout l = ReduceLayout::make(p, operands[0], operands[1]);
  if (l.groups == 0 || l.length == 0) return {};
  int axis = 0;
  while (!p.reduces(axis)) ++axis;
  ScanArguments<T> a{};
  a.in = static_cast<const T*>(operands[0].data);
  a.out = static_cast<T*>(operands[1].data);
  a.in_map = AxisMap::of(walk_of(l.kept, 0));
  a.out_map = AxisMap::of(walk_of(l.kept, 1));
  a.groups = l.groups;
  a.length = l.length;
  a.in_step = operands[0].strides[axis];
  a.out_step = operands[1].strides[axis];
  if (p.reverse) {
    a.in_start = (l.length - 1) * a.in_step;
    a.out_start = (l.length - 1) * a.out_step;
    a.in_step = -a.in_step;
    a.out_step = -a.out_step;
  }
  const bool rows = !l.columns || l.groups < 256;
  if (!rows)
    return launch(stream, "cumsum columns", scan_columns<T>, ceil_div(l.groups, 128), 128, a);
  constexpr std::size_t kBytes = scan_shared<Running<Loaded<T>>>();
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(scan_rows<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(kBytes)),
          "cumsum shared memory");
      !ok)
    return ok;
  if (l.groups > INT32_MAX)
    return fail(ErrorCode::device, "cumsum: more rows than a grid has blocks");
  scan_rows<T><<<static_cast<unsigned>(l.groups), kScanThreads, kBytes, native(stream)>>>(a);
  return cuda_result(cudaGetLastError(), "cumsum rows");
}

}  // namespace
}  // namespace reduce_device

Result<void> cumsum_cuda(const Stream& stream, Workspace, const ReduceProblem& p,
                         const Operands& operands) {
  using namespace reduce_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  switch (p.element_dtype) {
    case Dtype::f64:
      return scan<double>(stream, p, operands);
    case Dtype::f16:
      return scan<f16>(stream, p, operands);
    case Dtype::bf16:
      return scan<bf16>(stream, p, operands);
    case Dtype::i32:
      return scan<std::int32_t>(stream, p, operands);
    case Dtype::i64:
      return scan<std::int64_t>(stream, p, operands);
    default:
      return scan<float>(stream, p, operands);
  }
}

}  // namespace planck
