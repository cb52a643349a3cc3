// cuda:running. The canonical order cuts a row into chunks of 32, and 32 chunks into a chunk of the
// next level (planck/math/running_sum.h): chunks are independent but for one addition, and so is
// the work.
//
// Rows: a lane has a chunk, a warp 1,024 elements, the warps of a row 8 Ki per tile
// (scan_tile.cuh). Columns: a warp has a chunk of 32 columns side by side, the warps of a strip
// follow one another, and the next tile is under way meanwhile. Memory is read and written once.
//
// On an H200, f32 [8192, 8192], where a copy takes 139 us; us:
//   along the rows     element by element through shared memory   317
//                      this                                       139
//   down the columns   one thread per column                    3,274
//                      16 warps per strip                         210
//                      8 warps                                    172
//                      the next tile under way                    160
//                      4 warps                                    147
#include <new>

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/math/running_sum.h"
#include "planck/ops/reduce/cuda/kernels.h"
#include "planck/ops/reduce/cuda/scan_tile.cuh"
#include "planck/ops/reduce/cuda/visit_number.h"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

namespace reduce_device {
namespace {

// Integers wrap.
template <class T>
using Running = std::conditional_t<
    std::is_same_v<T, std::int32_t>, std::uint32_t,
    std::conditional_t<std::is_same_v<T, std::int64_t>, std::uint64_t, Value<T>>>;

// Changes no sum, not even its sign.
template <class R>
__device__ __forceinline__ R no_sum() {
  return std::is_floating_point_v<R> ? R(-0.0) : R(0);
}

template <class T>
struct ScanArguments {
  ScanOperand<const T> in;
  ScanOperand<T> out;
  ScanRows shape;
  bool in_packs, out_packs;  // rows
};

template <class T>
__device__ __forceinline__ Running<T> scan_load(T v) {
  return static_cast<Running<T>>(loaded(v));
}
template <class T>
__device__ __forceinline__ T scan_stored(Running<T> v) {
  if constexpr (std::is_floating_point_v<Value<T>>)
    return stored<T>(rm::canonical(v));
  else
    return static_cast<T>(v);
}

template <class R>
__device__ __forceinline__ void add_up(R (&x)[kRunningChunk]) {
#pragma unroll
  for (int k = 1; k < kRunningChunk; ++k) x[k] = x[k - 1] + x[k];
}

// The running sum of totals that come one after the other. What lies above 32 of them is seldom
// needed: one thread of a group keeps it in shared memory.
template <class R>
class Totals {
 public:
  struct Above {
    RunningSum<R, 6> sums;
    R before;
  };

  __device__ R last() const { return last_; }  // up to the latest
  __device__ void add(R total) {
    local_ = count_ == 0 ? total : local_ + total;
    last_ = before_ + local_;
    ++count_;
  }
  // After the totals of a tile, of which a whole number are 32. All threads of a block must call.
  __device__ __forceinline__ void end_tile(Above* above, bool keeps) {
    if (count_ < kRunningChunk) return;
    if (keeps) above->before = above->sums.add(local_);
    __syncthreads();
    before_ = above->before;
    count_ = 0;
  }

 private:
  R local_ = no_sum<R>(), before_ = no_sum<R>(), last_ = no_sum<R>();
  int count_ = 0;
};

constexpr int kSlots = 4;         // warps of a strip of 32 columns
constexpr int kFewColumns = 256;  // strips would leave the device idle

template <class T>
__global__ void __launch_bounds__(32 * kSlots, sizeof(T) == 8 ? 2 : 4)
    scan_columns(const ScanArguments<T> a) {
  using R = Running<T>;
  using Above = typename Totals<R>::Above;
  __shared__ R totals[2][kSlots][32];
  __shared__ __align__(16) unsigned char above_memory[32 * sizeof(Above)];
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(threadIdx.x) / 32;
  const int slots = static_cast<int>(blockDim.x) / 32;
  Above* above = reinterpret_cast<Above*>(above_memory) + lane;
  if (slot == 0) new (above) Above;
  const std::int64_t group = static_cast<std::int64_t>(blockIdx.x) * 32 + lane;
  const std::int64_t length = group < a.shape.rows ? a.shape.length : 0;
  const T* in = a.in.data + a.in.start + (length > 0 ? a.in.map.offset(group) : 0);
  T* out = a.out.data + a.out.start + (length > 0 ? a.out.map.offset(group) : 0);
  T next[kRunningChunk];  // rows of the tile after this
  const auto fetch = [&](std::int64_t first) {
    const int left = left_of(length, first, kRunningChunk);
    const T* from = in + first * a.in.step;
    if (left == kRunningChunk) {
#pragma unroll
      for (int k = 0; k < kRunningChunk; ++k, from += a.in.step) next[k] = *from;
    } else {
#pragma unroll
      for (int k = 0; k < kRunningChunk; ++k) next[k] = k < left ? from[k * a.in.step] : T{};
    }
  };
  Totals<R> chunks;
  std::int64_t first = slot * kRunningChunk;
  fetch(first);
  int parity = 0;
  for (std::int64_t begin = 0; begin < a.shape.length; begin += slots * kRunningChunk) {
    R x[kRunningChunk];
#pragma unroll
    for (int k = 0; k < kRunningChunk; ++k) x[k] = scan_load<T>(next[k]);
    fetch(first + slots * kRunningChunk);
    add_up(x);
    totals[parity][slot][lane] = x[kRunningChunk - 1];
    __syncthreads();
    R before = no_sum<R>();
    for (int s = 0; s < slots; ++s) {
      if (s == slot) before = chunks.last();
      chunks.add(totals[parity][s][lane]);
    }
    chunks.end_tile(above, slot == 0);
    const int left = left_of(length, first, kRunningChunk);
    T* to = out + first * a.out.step;
    if (left == kRunningChunk) {
#pragma unroll
      for (int k = 0; k < kRunningChunk; ++k, to += a.out.step) *to = scan_stored<T>(before + x[k]);
    } else {
#pragma unroll
      for (int k = 0; k < kRunningChunk; ++k)
        if (k < left) to[k * a.out.step] = scan_stored<T>(before + x[k]);
    }
    first += slots * kRunningChunk;
    parity = 1 - parity;
  }
}

template <class T, bool kReverse>
__global__ void __launch_bounds__(kScanThreads, sizeof(T) == 8   ? 2
                                                : sizeof(T) == 4 ? 3
                                                                 : 4)
    scan_rows(const ScanArguments<T> a) {
  using R = Running<T>;
  using Tile = ScanTile<T, kReverse>;
  using Above = typename Totals<R>::Above;
  constexpr int kRun = Tile::kRun, kRuns = Tile::kRuns;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ R totals[2][kScanWarps];
  __shared__ __align__(16) unsigned char above_memory[kScanWarps * sizeof(Above)];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = a.shape.warps(), own = warp & (warps - 1);  // of the row's
  Tile& tile = reinterpret_cast<Tile*>(memory)[warp];
  Above* above = reinterpret_cast<Above*>(above_memory) + (warp - own);
  if (own == 0 && lane == 0) new (above) Above;
  const std::int64_t row = a.shape.row_of(warp);
  Totals<R> sums;        // of warps
  R lead = no_sum<R>();  // what the first chunk of the next warp follows
  int parity = 0;
  for (std::int64_t begin = 0; begin < a.shape.length; begin += warps * kWarpStretch) {
    const std::int64_t first = begin + own * kWarpStretch;
    tile.load(ScanPart<const T>(a.in, a.shape, row, first), a.in_packs);
    R x[kRunningChunk];
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      const uint4 v = tile.at(lane, r);
      const Pack<16> p{{v.x, v.y, v.z, v.w}};
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        x[r * kRun + e] = static_cast<R>(element<T>(p, kReverse ? kRun - 1 - e : e));
    }
    add_up(x);
    // The sum of the row's chunks up to and before this lane's.
    const int lanes = 1 << a.shape.log2_lanes, lane_of_row = lane & (lanes - 1);
    R up_to = __shfl_sync(~0u, x[kRunningChunk - 1], 0, lanes);
#pragma unroll
    for (int j = 1; j < 32; ++j) {
      if (j >= lanes) break;
      const R other = __shfl_sync(~0u, x[kRunningChunk - 1], j, lanes);
      if (j <= lane_of_row) up_to = up_to + other;
    }
    R before = __shfl_up_sync(~0u, up_to, 1);
    if (lane_of_row == 0) before = no_sum<R>();
    if (warps > 1) {
      if (lane == 31) totals[parity][warp] = up_to;
      __syncthreads();
      for (int w = 0; w < warps; ++w) {
        if (w == own) before = lane == 0 ? lead : sums.last() + before;
        const R total = totals[parity][warp - own + w];
        lead = sums.last() + total;
        sums.add(total);
      }
      sums.end_tile(above, own == 0 && lane == 0);
      parity = 1 - parity;
    }
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      T y[kRun];
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        y[kReverse ? kRun - 1 - e : e] = scan_stored<T>(before + x[r * kRun + e]);
      uint4 v;
      memcpy(&v, y, 16);
      tile.at(lane, r) = v;
    }
    tile.store(ScanPart<T>(a.out, a.shape, row, first), a.out_packs);
  }
}

template <class T, bool kReverse>
Result<void> launch_rows(const Stream& stream, ScanArguments<T> a) {
  a.shape = ScanRows::make(a.shape.rows, a.shape.length, a.in.map.rank == 1 && a.out.map.rank == 1);
  a.in_packs = a.in.packs(a.shape.length, kReverse);
  a.out_packs = a.out.packs(a.shape.length, kReverse);
  constexpr int kBytes = kScanWarps * sizeof(ScanTile<T>);
  if (auto ok =
          cuda_result(cudaFuncSetAttribute(scan_rows<T, kReverse>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                      "cumsum shared memory");
      !ok)
    return ok;
  if (a.shape.blocks() > INT32_MAX)
    return fail(ErrorCode::device, "cumsum: more rows than a grid has blocks");
  scan_rows<T, kReverse>
      <<<static_cast<unsigned>(a.shape.blocks()), kScanThreads, kBytes, native(stream)>>>(a);
  return cuda_result(cudaGetLastError(), "cumsum rows");
}

template <class T>
Result<void> scan(const Stream& stream, const ReduceProblem& p, const Operands& operands) {
  const ReduceLayout l = ReduceLayout::make(p, operands[0], operands[1]);
  if (l.groups == 0 || l.length == 0) return {};
  int axis = 0;
  while (!p.reduces(axis)) ++axis;
  const auto operand = [&]<class U>(int number, U* data) {
    ScanOperand<U> o{data, AxisMap::of(walk_of(l.kept, number)), 0,
                     operands[static_cast<std::size_t>(number)].strides[axis]};
    if (!p.reverse) return o;
    o.start = (l.length - 1) * o.step;
    o.step = -o.step;
    return o;
  };
  const ScanArguments<T> a{operand(0, static_cast<const T*>(operands[0].data)),
                           operand(1, static_cast<T*>(operands[1].data)),
                           ScanRows{l.groups, l.length}, false, false};
  if (!l.columns || l.groups < kFewColumns)
    return a.in.step < 0 ? launch_rows<T, true>(stream, a) : launch_rows<T, false>(stream, a);
  int slots = 1;
  while (slots < kSlots && slots * kRunningChunk < l.length) slots *= 2;
  return launch(stream, "cumsum columns", scan_columns<T>, ceil_div(l.groups, 32), 32 * slots, a);
}

}  // namespace
}  // namespace reduce_device

Result<void> cumsum_cuda(const Stream& stream, Workspace, const ReduceProblem& p,
                         const Operands& operands) {
  using namespace reduce_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_number(p.element_dtype, [&](auto type) {
    return scan<typename decltype(type)::type>(stream, p, operands);
  });
}

}  // namespace planck
