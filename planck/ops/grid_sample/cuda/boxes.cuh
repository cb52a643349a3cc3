// Boxes of the input that the copy engine brings to shared memory, a few channels at a time, with
// zeros for what is outside of the image: for blocks whose points read elements near each other. It
// relieves the first-level cache, which looks up as many lines for a load as a turned grid crosses
// rows.
#pragma once

#include <climits>

#include "planck/loops/cuda/tensor_map.cuh"
#include "planck/ops/grid_sample/cuda/views.cuh"

namespace planck::sample_device {

// A box of the input, and how many of them are on their way at once.
struct BoxShape {
  int width, height, stages;
  int bytes, stage_bytes;  // of a box, and from one to the next

  // Of so many channels of T.
  template <class T>
  static constexpr BoxShape of(int width, int height, int channels, int stages) {
    const int bytes = width * height * channels * static_cast<int>(sizeof(T));
    return {width, height, stages, bytes, (bytes + 127) / 128 * 128};
  }
  constexpr int plane() const { return width * height; }
  constexpr std::size_t shared() const { return static_cast<std::size_t>(stages * stage_bytes); }
  constexpr bool holds(int across, int down) const { return across <= width && down <= height; }
};

// Boxes of three sizes, the smallest first.
inline constexpr int kBoxSizes = 3;
struct BoxMaps {
  CUtensorMap of[kBoxSizes];
};

// Where a box of T may start along x.
template <class T>
inline constexpr int kBoxAligned = 16 / static_cast<int>(sizeof(T));

// The elements that points read.
struct BoxBounds {
  int low_x, low_y, high_x, high_y;

  __device__ __forceinline__ void clear() {
    low_x = low_y = INT_MAX;
    high_x = high_y = INT_MIN;
  }
  __device__ __forceinline__ void add(int x, int y) {
    low_x = min(low_x, x);
    low_y = min(low_y, y);
    high_x = max(high_x, x);
    high_y = max(high_y, y);
  }
  // Those of a whole block: `all` is in shared memory, and one thread has cleared it. Ends behind a
  // barrier.
  __device__ __forceinline__ void join(BoxBounds& all) {
    __syncthreads();
    low_x = __reduce_min_sync(~0u, low_x);
    low_y = __reduce_min_sync(~0u, low_y);
    high_x = __reduce_max_sync(~0u, high_x);
    high_y = __reduce_max_sync(~0u, high_y);
    if (threadIdx.x % 32 == 0) {
      atomicMin(&all.low_x, low_x);
      atomicMin(&all.low_y, low_y);
      atomicMax(&all.high_x, high_x);
      atomicMax(&all.high_y, high_y);
    }
    __syncthreads();
    *this = all;
    if (high_x < low_x) low_x = low_y = high_x = high_y = 0;
  }
};

// ---- the copy engine ----

// By one thread, before a barrier.
template <int kCount>
__device__ __forceinline__ void init_boxes(std::uint64_t (&full)[kCount]) {
#pragma unroll
  for (int s = 0; s < kCount; ++s) init_barrier(full + s, 1);
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;");
#endif
}
__device__ __forceinline__ void fetch_box(const CUtensorMap& map, void* to, std::uint64_t* full,
                                          int bytes, int x, int y, int c, int n) {
  expect_bytes(full, static_cast<unsigned>(bytes));
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(c), "r"(n), "r"(shared_address(full))
      : "memory");
#endif
}

}  // namespace planck::sample_device
