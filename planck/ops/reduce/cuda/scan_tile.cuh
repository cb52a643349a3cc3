// What running sums and running extremes share on the device: how the elements of rows turn from
// the order of memory to one stretch per lane, and back.
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/cuda/pack.cuh"
#include "planck/loops/rows/cuda/axis_map.cuh"

namespace planck::reduce_device {

inline constexpr int kScanWarps = 8, kScanThreads = 32 * kScanWarps;
inline constexpr int kStretch = 32;  // elements of a lane
inline constexpr int kWarpStretch = 32 * kStretch;

// How many of `most` elements from `first` on a row of `length` has.
__device__ __forceinline__ int left_of(std::int64_t length, std::int64_t first, int most) {
  const std::int64_t left = length - first;
  return left < 0 ? 0 : left < most ? static_cast<int>(left) : most;
}

// An operand: element i of row r, counted in the order of the scan, is at map.offset(r) + start +
// i * step.
template <class T>
struct ScanOperand {
  T* data;
  AxisMap map;
  std::int64_t start, step;

  // Whether runs are 16-byte accesses. Backwards, a run ends where it begins in the scan.
  bool packs(std::int64_t length, bool reverse) const {
    return step == (reverse ? -1 : 1) && length % (16 / static_cast<int>(sizeof(T))) == 0 &&
           reinterpret_cast<std::uintptr_t>(data + start + (reverse ? 1 : 0)) % 16 == 0 &&
           map.aligned(sizeof(T));
  }
  // Whether pairs of neighbouring rows are one access.
  bool pairs(std::int64_t rows) const {
    return rows % 2 == 0 && map.packs(2, sizeof(T), rows) && step % 2 == 0 &&
           reinterpret_cast<std::uintptr_t>(data + start) % (2 * sizeof(T)) == 0;
  }
};

// How rows lie on warps: several warps per row, or several rows per warp.
struct ScanRows {
  std::int64_t rows, length;
  int log2_warps = 0, log2_lanes = 5;  // of a row

  // one_step: rows follow one another at one distance in every operand.
  static ScanRows make(std::int64_t rows, std::int64_t length, bool one_step) {
    ScanRows r{rows, length};
    while (one_step && r.log2_lanes > 0 && length <= kStretch << (r.log2_lanes - 1)) --r.log2_lanes;
    while ((1 << r.log2_warps) < kScanWarps && length > kWarpStretch << r.log2_warps)
      ++r.log2_warps;
    return r;
  }
  __host__ __device__ int warps() const { return 1 << log2_warps; }
  __host__ __device__ int warp_rows() const { return 32 >> log2_lanes; }
  std::int64_t blocks() const {
    const std::int64_t block_rows = (kScanWarps >> log2_warps) * warp_rows();
    return (rows + block_rows - 1) / block_rows;
  }
  // The first row of a warp.
  __device__ std::int64_t row_of(int warp) const {
    return ((static_cast<std::int64_t>(blockIdx.x) * kScanWarps + warp) >> log2_warps) *
           warp_rows();
  }
};

// What a warp has of its rows: 1,024 places.
template <class T>
struct ScanPart {
  T* base;
  std::int64_t row_step, step;
  int rows, length, shift;  // those that are there; places of a row

  __device__ ScanPart(const ScanOperand<T>& x, const ScanRows& shape, std::int64_t row,
                      std::int64_t first)
      : base(x.data + (row < shape.rows ? x.map.offset(row) : 0) + x.start + first * x.step),
        row_step(x.map.stride[0]),
        step(x.step),
        rows(left_of(shape.rows, row, shape.warp_rows())),
        length(left_of(shape.length, first, kStretch << shape.log2_lanes)),
        shift(shape.log2_lanes + 5) {}

  __device__ bool has(int i) const {
    return (i >> shift) < rows && (i & ((1 << shift) - 1)) < length;
  }
  __device__ T* at(int i) const {
    return base + (i >> shift) * row_step + (i & ((1 << shift) - 1)) * step;
  }
  // All places are there and belong to one row.
  __device__ bool whole() const { return length == kWarpStretch && rows > 0; }
};

// A warp's elements in shared memory, one stretch per row. Runs of 16 bytes are permuted, so that
// neither the lanes of a row nor those of a column of runs meet in a bank.
template <class T, bool kReverse = false>
struct ScanTile {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T)), kRuns = kStretch / kRun;
  static constexpr int kTurn = kRuns < 8 ? 8 / kRuns : 1, kMask = kRuns < 8 ? kRuns - 1 : 7;
  static constexpr int kEnd = kReverse ? 1 - kRun : 0, kSign = kReverse ? -1 : 1;
  uint4 run[32 * kRuns];

  __device__ uint4& at(int row, int r) { return run[row * kRuns + (r ^ (row / kTurn & kMask))]; }
  __device__ uint4& at(int r) { return at(r / kRuns, r % kRuns); }
  // Backwards, the elements of a run lie as they do in memory.
  __device__ T& element(int i) {
    return reinterpret_cast<T*>(&at(i / kRun))[kReverse ? kRun - 1 - i % kRun : i % kRun];
  }

  __device__ __forceinline__ void load(const ScanPart<const T>& x, bool packs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (packs && x.whole()) {
      const T* from = x.base + lane * kRun * kSign + kEnd;
#pragma unroll
      for (int k = 0; k < kRuns; ++k)
        copy_async<16>(&at(k * 32 + lane), from + k * 32 * kRun * kSign);
      end_copies();
      await_copies<0>();
    } else if (packs) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const int r = k * 32 + lane;
        const bool there = x.has(r * kRun);
        copy_async_if(there, &at(r), there ? x.at(r * kRun) + kEnd : x.base);
      }
      end_copies();
      await_copies<0>();
    } else {
#pragma unroll 8
      for (int i = lane; i < kWarpStretch; i += 32) element(i) = x.has(i) ? *x.at(i) : T{};
    }
    __syncwarp();
  }
  // kStreaming: leaves the caches first.
  template <bool kStreaming = false>
  __device__ __forceinline__ void store(const ScanPart<T>& y, bool packs) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
    if (packs && y.whole()) {
      T* to = y.base + lane * kRun * kSign + kEnd;
#pragma unroll
      for (int k = 0; k < kRuns; ++k)
        store_vector<kStreaming>(reinterpret_cast<uint4*>(to + k * 32 * kRun * kSign),
                                 at(k * 32 + lane));
    } else if (packs) {
#pragma unroll
      for (int k = 0; k < kRuns; ++k) {
        const int r = k * 32 + lane;
        if (y.has(r * kRun)) *reinterpret_cast<uint4*>(y.at(r * kRun) + kEnd) = at(r);
      }
    } else {
#pragma unroll 8
      for (int i = lane; i < kWarpStretch; i += 32)
        if (y.has(i)) *y.at(i) = element(i);
    }
    __syncwarp();
  }
};

}  // namespace planck::reduce_device
