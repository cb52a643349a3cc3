// 2-D bilinear sampling of dense planes where neighbours read near each other: the copy engine
// brings the box of the input that 32 × 32 points look at to shared memory, a few channels at a
// time, and zeros for what is outside of the image. The first-level cache has less to do: it looks
// up as many lines for a load as a turned grid crosses rows. Where a box is too small for the
// points (they are turned by more than 30 degrees, say), their unit goes to a list, which a kernel
// without shared memory works off.
//
// Versions tried on an H200, ms, f32 N16 C64 256^2 affine, this kernel alone; planes: 0.189
//   32 x 64 points, boxes of 44 x 72       0.48
//   32 x 32 points, two channels, two or three stages, 64 channels a block     0.197
//   the same, 32 channels a block          0.189, this one 0.169
// The same grid turned by 37 degrees, all kernels: points of too small a box read at once, in this
// kernel, whose boxes leave little of the first-level cache: 0.75; from the list 0.31; planes alone
// 0.22
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <climits>

#include "planck/ops/grid_sample/forward.cuh"

namespace planck::sample_device {

template <class T>
struct Box {
  static constexpr int kRows = 8;  // of threads; each has points as many rows apart
  static constexpr int kEach = 4;  // points of a thread
  static constexpr int kPoints = kRows * kEach;
  static constexpr int kAligned = 16 / static_cast<int>(sizeof(T));  // where a box may start
  static constexpr int kWidth = 40 + kAligned, kHeight = 40, kChannels = 2, kStages = 3;
  static constexpr int kBlockChannels = 32;
  static constexpr int kPlane = kWidth * kHeight;
  static constexpr int kBytes = kPlane * kChannels * static_cast<int>(sizeof(T));
  static constexpr int kStageBytes = (kBytes + 127) / 128 * 128;
  static constexpr std::size_t kShared = kStages * kStageBytes;
};

// ---- the copy engine ----

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
__device__ __forceinline__ void wait_for_box(std::uint64_t* full, unsigned phase) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(full)),
      "r"(phase)
      : "memory");
#endif
}
__device__ __forceinline__ void fetch_box(const CUtensorMap& map, void* to, std::uint64_t* full,
                                          int bytes, int x, int y, int c, int n) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(full)),
               "r"(bytes)
               : "memory");
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(shared_address(to)),
      "l"(&map), "r"(x), "r"(y), "r"(c), "r"(n), "r"(shared_address(full))
      : "memory");
#endif
}

// ---- kernels ----

// Units whose points need a larger box than there is. They are counted in the high word of
// `neighbours`, above the points that were looked at: only a grid that is not scattered comes here,
// and a larger high word leaves it so.
struct Leftovers {
  Neighbours* neighbours;
  std::uint32_t* units;
};
inline constexpr unsigned kPointsLookedAt = 512;  // by look_at_neighbours

// Image, first channel, and first column and row of a unit's points.
struct BoxUnit {
  std::uint32_t n;
  int c0, x0, y0;
};
template <class T>
__device__ __forceinline__ BoxUnit box_unit(const PlanesCall<T>& a, std::uint32_t unit) {
  using B = Box<T>;
  const std::uint32_t rest = a.tiles.quotient(unit);
  const std::uint32_t tile = unit - rest * a.tiles.value, n = a.groups.quotient(rest);
  const std::uint32_t down = a.across.quotient(tile), along = tile - down * a.across.value;
  return {n, static_cast<int>(rest - n * a.groups.value) * B::kBlockChannels,
          static_cast<int>(along) * 32, static_cast<int>(down) * B::kPoints};
}

template <class T, bool kZeros, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    forward_boxes(const __grid_constant__ PlanesCall<T> a, const __grid_constant__ CUtensorMap map,
                  const Leftovers leftovers) {
  using C = Compute<T>;
  using B = Box<T>;
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ __align__(8) std::uint64_t full[B::kStages];
  __shared__ int low_x, low_y, high_x, high_y;
  wait_for_previous();
  if (is_not_meant(a)) return;
  const int tid = static_cast<int>(threadIdx.x), lane = tid % 32;
  const auto [n, c0, x0, y0] = box_unit(a, blockIdx.x);
  const int ox = x0 + lane, oy = y0 + tid / 32;
  const int count = min(a.channels - c0, B::kBlockChannels);
  if (tid == 0) {
    low_x = low_y = INT_MAX;
    high_x = high_y = INT_MIN;
#pragma unroll
    for (int s = 0; s < B::kStages; ++s)
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(full + s)));
#if __CUDA_ARCH__ >= 900
    asm volatile("fence.proxy.async.shared::cta;");
#endif
  }
  gm::LinearTaps<C, std::int32_t> tx[B::kEach], ty[B::kEach];
  int lx = INT_MAX, ly = INT_MAX, hx = INT_MIN, hy = INT_MIN;
#pragma unroll
  for (int k = 0; k < B::kEach; ++k) {
    const int p = min(oy + k * B::kRows, a.height - 1) * a.width + min(ox, a.width - 1);
    const auto g = *reinterpret_cast<const Vector<T, 2>*>(a.grid + n * a.grid_n + 2 * p);
    tx[k] = taps_of<kZeros>(widen(g.v[0]), a.x);
    ty[k] = taps_of<kZeros>(widen(g.v[1]), a.y);
    if (tx[k].base == -2 || ty[k].base == -2) continue;
    lx = min(lx, tx[k].base);
    ly = min(ly, ty[k].base);
    hx = max(hx, tx[k].base);
    hy = max(hy, ty[k].base);
  }
  __syncthreads();
  lx = __reduce_min_sync(~0u, lx);
  ly = __reduce_min_sync(~0u, ly);
  hx = __reduce_max_sync(~0u, hx);
  hy = __reduce_max_sync(~0u, hy);
  if (lane == 0) {
    atomicMin(&low_x, lx);
    atomicMin(&low_y, ly);
    atomicMax(&high_x, hx);
    atomicMax(&high_y, hy);
  }
  __syncthreads();
  lx = high_x < low_x ? 0 : low_x & ~(B::kAligned - 1);
  ly = high_x < low_x ? 0 : low_y;
  hx = high_x < low_x ? 0 : high_x;
  hy = high_x < low_x ? 0 : high_y;
  if (hx - lx + 2 > B::kWidth || hy - ly + 2 > B::kHeight) {
    if (tid == 0) {
      const Neighbours before = atomicAdd(leftovers.neighbours, Neighbours{1} << 32);
      leftovers.units[(before >> 32) - kPointsLookedAt] = blockIdx.x;
    }
    return;
  }
  int at[B::kEach];  // −1: outside
  C fx[B::kEach], fy[B::kEach];
#pragma unroll
  for (int k = 0; k < B::kEach; ++k) {
    const bool outside = tx[k].base == -2 || ty[k].base == -2;
    at[k] = outside ? -1 : (ty[k].base - ly) * B::kWidth + tx[k].base - lx;
    fx[k] = tx[k].upper;
    fy[k] = ty[k].upper;
  }
  const auto fetch = [&](int stage, int c) {
    fetch_box(map, memory + stage * B::kStageBytes, full + stage, B::kBytes, lx, ly, c0 + c,
              static_cast<int>(n));
  };
  if (tid == 0)
    for (int s = 0; s < B::kStages; ++s)
      if (s * B::kChannels < count) fetch(s, s * B::kChannels);
  T* out = a.output + n * a.output_n + c0 * a.output_c + oy * a.width + ox;
  int stage = 0;
  unsigned phase = 0;
#pragma unroll 1
  for (int c = 0; c < count; c += B::kChannels) {
    wait_for_box(full + stage, phase);
    const T* const box = reinterpret_cast<const T*>(memory + stage * B::kStageBytes);
#pragma unroll
    for (int k = 0; k < B::kEach; ++k) {
      const C lower_x = C(1) - fx[k], lower_y = C(1) - fy[k];
      const C w00 = lower_x * lower_y, w01 = fx[k] * lower_y;
      const C w10 = lower_x * fy[k], w11 = fx[k] * fy[k];
      const bool valid = ox < a.width && oy + k * B::kRows < a.height;
#pragma unroll
      for (int u = 0; u < B::kChannels; ++u) {
        const T* const q = box + u * B::kPlane + max(at[k], 0);
        const bool in = at[k] >= 0;
        const C v00 = in ? widen(q[0]) : C(0), v01 = in ? widen(q[1]) : C(0);
        const C v10 = in ? widen(q[B::kWidth]) : C(0), v11 = in ? widen(q[B::kWidth + 1]) : C(0);
        const T r = narrow<T>(gm::bilinear(w00, v00, w01, v01, w10, v10, w11, v11));
        if (valid && c + u < count) out[u * a.output_c + k * B::kRows * a.width] = r;
      }
    }
    out += B::kChannels * a.output_c;
    __syncthreads();
    if (tid == 0 && c + B::kStages * B::kChannels < count)
      fetch(stage, c + B::kStages * B::kChannels);
    if (++stage == B::kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
}

// What forward_boxes left, eight rows and eight channels at a time.
template <class T, bool kZeros>
__global__ void __launch_bounds__(kThreads, 8)
    forward_leftovers(const __grid_constant__ PlanesCall<T> a, const Leftovers leftovers) {
  using B = Box<T>;
  constexpr int kChannels = 8;
  constexpr std::uint32_t kAcross = B::kBlockChannels / kChannels, kParts = kAcross * B::kEach;
  wait_for_previous();
  if (is_not_meant(a)) return;
  const auto units = static_cast<std::uint32_t>(*leftovers.neighbours >> 32) - kPointsLookedAt;
  const int tid = static_cast<int>(threadIdx.x);
  for (std::uint32_t k = blockIdx.x; k < units * kParts; k += gridDim.x) {
    const BoxUnit u = box_unit(a, leftovers.units[k / kParts]);
    const int part = static_cast<int>(k % kParts);
    const int c0 = u.c0 + part % static_cast<int>(kAcross) * kChannels;
    const int ox = u.x0 + tid % 32;
    const int oy = u.y0 + part / static_cast<int>(kAcross) * B::kRows + tid / 32;
    if (c0 >= a.channels) continue;
    const int p = min(oy, a.height - 1) * a.width + min(ox, a.width - 1);
    sample_planes<kZeros>(a, u.n, c0, min(a.channels - c0, kChannels), p,
                          ox < a.width && oy < a.height);
  }
}

}  // namespace planck::sample_device
