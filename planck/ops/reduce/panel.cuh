// Dense columns that a cluster holds, for var and logsumexp: memory is read once.
//
// A panel is a line of 128 bytes of up to 8,192 rows. Each of up to 16 blocks of a cluster holds
// 512 rows of it in registers, 64 a thread, while the rows of its next panel are under way to
// shared memory. Results of threads are joined in the block, sent to all blocks and joined there:
// the parameter (the mean, the largest), then the sum, which only the first block needs and looks
// at while the next panel is summed.
//
// On an H200, f32 [8192, 8192], where reading takes 64 us; us:                    var   logsumexp
//   two passes over memory                                                        158         201
//   a panel a cluster                                                              93         103
//   clusters stay, the next panel under way                                        84         107
//   what is sent is counted, nobody waits at a barrier of the cluster              76          93
// Lines of 64 bytes and 8 blocks take 103 and 112; 16 warps of 32 rows a thread 80 and 114.
#pragma once

#include "planck/ops/reduce/axis_map.cuh"
#include "planck/ops/reduce/cluster.cuh"
#include "planck/ops/reduce/exponentials.cuh"
#include "planck/ops/reduce/finish.h"
#include "planck/ops/reduce/joins.cuh"

namespace planck::reduce_device {

inline constexpr int kPanelWarps = 8, kPanelThreads = 32 * kPanelWarps;
inline constexpr int kPanelRows = 64;  // of a thread: a word of each
inline constexpr int kPanelBlockRows = kPanelWarps * kPanelRows;
inline constexpr int kPanelMostRanks = 16;  // blocks of a cluster
inline constexpr int kPanelMostRows = kPanelMostRanks * kPanelBlockRows, kPanelLeastRows = 256;
inline constexpr int kPanelStep = 8;  // rows of a group of copies
inline constexpr int kPanelSteps = kPanelRows / kPanelStep;
inline constexpr int kPanelRing = kPanelBlockRows * 128;  // bytes

template <class T>
struct PanelArguments {
  const T* in;
  AxisMap outer_map;
  std::int64_t outer, length, inner, step;  // step: from row to row
  std::int64_t panels;
  int tiles;  // of an outer
  int ranks;
  T* out;
  AxisMap out_map;
  rm::Finish<float> finish;
};

template <bool kSum>
struct Joined {
  __device__ static float nothing() { return kSum ? -0.0f : -math::infinity_of(0.0f); }
  template <class A>
  __device__ static float of(float a, float b) {
    return kSum ? a + b : row_device::larger(a, b);
  }
};

// f(k) of rows kBegin ... kBegin + kCount - 1 joined
template <class J, int kBegin, int kCount, class F>
__device__ __forceinline__ float pairwise(const F& f) {
  if constexpr (kCount == 1)
    return f(kBegin);
  else
    return J::template of<float>(pairwise<J, kBegin, kCount / 2>(f),
                                 pairwise<J, kBegin + kCount / 2, kCount / 2>(f));
}

template <class T>
struct PanelShared {
  static constexpr int kColumns = 128 / static_cast<int>(sizeof(T));
  float parts[2][kPanelWarps][kColumns];          // of warps: for the parameter, for the sum
  float blocks[2][2][kPanelMostRanks][kColumns];  // of blocks; of even and of odd panels
  Arrivals arrivals[2][2];
};

// Smaller than every element, or adding nothing.
template <class T, bool kVar>
__device__ __forceinline__ std::uint32_t filler() {
  if constexpr (std::is_same_v<T, float>)
    return kVar ? 0x80000000u : 0xff800000u;
  else if constexpr (std::is_same_v<T, bf16>)
    return kVar ? 0x80008000u : 0xff80ff80u;
  else
    return kVar ? 0x80008000u : 0xfc00fc00u;
}

template <class T, bool kVar>
__global__ void __launch_bounds__(kPanelThreads, 2) held_columns(const PanelArguments<T> a) {
#ifdef PLANCK_CLUSTERS
  using Shared = PanelShared<T>;
  using First = Joined<kVar>;
  using Sum = Joined<true>;
  constexpr int kColumns = Shared::kColumns, kOwn = kColumns / 32;  // of a thread
  extern __shared__ __align__(16) unsigned char ring[];
  __shared__ Shared shared;
  const int rank = cluster_rank(), bytes = a.ranks * 128 / static_cast<int>(sizeof(T)) * 4;
  if (threadIdx.x == 0)
    for (int parity : {0, 1})
      for (int what : {0, 1}) {
        shared.arrivals[what][parity].init();
        if (what == 0 || rank == 0) shared.arrivals[what][parity].expect(bytes);
      }
  cluster_barrier();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t first = (static_cast<std::int64_t>(rank) * kPanelWarps + warp) * kPanelRows;
  const std::int64_t rest = a.length - first;
  const int left = rest < 0 ? 0 : rest < kPanelRows ? static_cast<int>(rest) : kPanelRows;
  const int clusters = static_cast<int>(gridDim.x) / a.ranks;
  unsigned char* mine = ring + warp * (kPanelRows * 128);

  // Four rows are a warp's 16-byte pieces at once.
  const int piece = lane % 8, row = lane / 8;
  const auto ask = [&](std::int64_t panel, int step) {
    const std::int64_t outer = panel / a.tiles;
    const std::int64_t column =
        (panel - outer * a.tiles) * kColumns + piece * (16 / static_cast<int>(sizeof(T)));
    if (panel < a.panels && column < a.inner) {
      const T* from =
          a.in + a.outer_map.offset(outer) + column + (first + step * kPanelStep) * a.step;
#pragma unroll
      for (int j = 0; j < kPanelStep / 4; ++j) {
        const int r = step * kPanelStep + j * 4 + row;
        if (r < left)
          asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                           shared_address(mine + r * 128 + piece * 16)),
                       "l"(from + (j * 4 + row) * a.step)
                       : "memory");
      }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  std::int64_t panel = static_cast<int>(blockIdx.x) / a.ranks;
#pragma unroll 1
  for (int step = 0; step < kPanelSteps; ++step) ask(panel, step);

  // Joins what the blocks sent.
  const auto received = [&](int what, int parity, int e, auto join) {
    float v[kPanelMostRanks];
#pragma unroll
    for (int r = 0; r < kPanelMostRanks; ++r)
      v[r] = r < a.ranks ? shared.blocks[what][parity][r][lane * kOwn + e] : join.nothing();
    return join_run<decltype(join)>(v);
  };
  const auto of_warps = [&](int what, int e, auto join) {
    float v[kPanelWarps];
#pragma unroll
    for (int w = 0; w < kPanelWarps; ++w) v[w] = shared.parts[what][w][lane * kOwn + e];
    return join_run<decltype(join)>(v);
  };
  float parameter[kOwn] = {};
  const auto finish = [&](std::int64_t of, int parity, int phase) {
    Arrivals& arrivals = shared.arrivals[1][parity];
    arrivals.await(phase);
    if (lane == 0) arrivals.expect(bytes);
    const std::int64_t outer = of / a.tiles, tile = of - outer * a.tiles;
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      const std::int64_t column = tile * kColumns + lane * kOwn + e;
      const float sum = received(1, parity, e, Sum());
      if (column < a.inner)
        a.out[a.out_map.offset(outer * a.inner + column)] =
            stored<T>(a.finish.of_sum(sum, parameter[e]));
    }
  };
  int parity = 0, phase = 0;
  bool any = false;
#pragma unroll 1
  for (; panel < a.panels; panel += clusters) {
    std::uint32_t held[kPanelRows];
#pragma unroll
    for (int step = 0; step < kPanelSteps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kPanelSteps - 1) : "memory");
      __syncwarp();
#pragma unroll
      for (int k = step * kPanelStep; k < (step + 1) * kPanelStep; ++k)
        held[k] = reinterpret_cast<const std::uint32_t*>(mine)[k * 32 + lane];
      __syncwarp();
      ask(panel + clusters, step);
    }
    if (left < kPanelRows)
#pragma unroll
      for (int k = 0; k < kPanelRows; ++k)
        if (k >= left) held[k] = filler<T, kVar>();
    const auto x = [&](int k, int e) { return element_of<T>(Pack<4>{{held[k]}}, e); };
    float least[kOwn];
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      shared.parts[0][warp][lane * kOwn + e] =
          pairwise<First, 0, kPanelRows>([&](int k) { return x(k, e); });
      if constexpr (!kVar) {
        least[e] = x(0, e);
#pragma unroll
        for (int k = 1; k < kPanelRows; ++k) least[e] = fminf(least[e], x(k, e));
      }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      const float block = of_warps(0, e, First());
      for (int r = warp; r < a.ranks; r += kPanelWarps)
        send(block, &shared.blocks[0][parity][rank][lane * kOwn + e], &shared.arrivals[0][parity],
             r);
    }
    if (any && rank == 0 && warp == 0)
      finish(panel - clusters, 1 - parity, parity == 1 ? phase : 1 - phase);
    any = true;
    shared.arrivals[0][parity].await(phase);
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
      const float all = received(0, parity, e, First());
      const float p = kVar ? all / static_cast<float>(a.finish.n) : all;
      float sum;
      if constexpr (kVar) {
        if (left == kPanelRows)
          sum = pairwise<Sum, 0, kPanelRows>([&](int k) { return rm::square(x(k, e), p); });
        else
          sum = pairwise<Sum, 0, kPanelRows>(
              [&](int k) { return k < left ? rm::square(x(k, e), p) : Sum::nothing(); });
      } else {
        if (__all_sync(~0u, least[e] - p >= -row_device::kNear))
          sum = pairwise<Sum, 0, kPanelRows>(
              [&](int k) { return row_device::exp_near(x(k, e) - p); });
        else
          sum = pairwise<Sum, 0, kPanelRows>(
              [&](int k) { return row_device::exp_below(x(k, e) - p); });
      }
      parameter[e] = p;
      shared.parts[1][warp][lane * kOwn + e] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) shared.arrivals[0][parity].expect(bytes);  // of the panel after the next
    if (warp == 0)
#pragma unroll
      for (int e = 0; e < kOwn; ++e)
        send(of_warps(1, e, Sum()), &shared.blocks[1][parity][rank][lane * kOwn + e],
             &shared.arrivals[1][parity], 0);
    if (parity == 1) phase = 1 - phase;
    parity = 1 - parity;
  }
  if (any && rank == 0 && warp == 0)
    finish(panel - clusters, 1 - parity, parity == 1 ? phase : 1 - phase);
  cluster_barrier();  // nobody leaves while others write to it
#endif
}

}  // namespace planck::reduce_device
