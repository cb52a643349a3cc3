// dweight of 64 filters or fewer: a block has all of them and five blocks of 64 columns, that is
// (tap, channel), a warpgroup each, so that dy comes once for five windows and no row of a tile is
// empty. The copy engine brings both, as in implicit.cuh; same order of k, same bits.
#pragma once

#include "planck/ops/conv/cuda/implicit.cuh"

namespace planck::conv_device {

struct FewFilters {
  static constexpr int kFilters = 64, kColumns = 64, kPlaces = 64;
  static constexpr int kGroups = 5, kStages = 4, kThreads = (kGroups + 1) * 128;
  static constexpr int kBytes = kPlaces * conv_detail::kBlockBytes;  // of dy, of a window
  static constexpr int kStage = (kGroups + 1) * kBytes;
  static constexpr int kShared = 1024 + kStages * (kStage + 16);
};

// A warpgroup's sums of chunk blockIdx.y and block of columns `number`: [chunk][filter][column].
__device__ __forceinline__ void store_few_filters(const float (&d)[FewFilters::kColumns / 2],
                                                  const WindowWalk& walk, float* sums, int number,
                                                  int filters) {
  using F = FewFilters;
  const int lane = static_cast<int>(threadIdx.x) % 32,
            warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const std::int64_t columns = std::int64_t{walk.taps} * walk.blocks * F::kColumns;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int f = 16 * warp + lane / 4 + 8 * h;
    if (f >= filters) continue;
    float* const to = sums + (std::int64_t{blockIdx.y} * filters + f) * columns +
                      number * F::kColumns + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < F::kColumns / 8; ++j)
      *reinterpret_cast<float2*>(to + 8 * j) = {canonical_nan(d[4 * j + 2 * h]),
                                                canonical_nan(d[4 * j + 2 * h + 1])};
  }
}

// Sums of chunk blockIdx.y, columns from blockIdx.x * kGroups * 64 on: [chunk][filter][column].
template <class T>
__global__ void __launch_bounds__(FewFilters::kThreads, 1)
    multiply_few_filters(const __grid_constant__ CUtensorMap map_dy,
                         const __grid_constant__ CUtensorMap map_x,
                         const __grid_constant__ WindowWalk walk, float* sums, int filters) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using F = FewFilters;
  extern __shared__ char shared[];
  char* const stages = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  auto* const full = reinterpret_cast<std::uint64_t*>(stages + F::kStages * F::kStage);
  auto* const empty = full + F::kStages;
  const int first = static_cast<int>(blockIdx.x) * F::kGroups, all = walk.taps * walk.blocks;
  const int count = min(F::kGroups, all - first), steps = walk.chunk_places / F::kPlaces;
  if (threadIdx.x == 0) {
    for (int s = 0; s < F::kStages; ++s)
      init_barrier(full + s, 1), init_barrier(empty + s, static_cast<unsigned>(count));
    fence_barriers();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  gemm_device::Turn<F::kStages> turn;
  if (group < 0) {
    if (!is_elected_of_block()) return;
    for (int s = 0; s < steps; ++s, turn.next()) {
      const int place = static_cast<int>(blockIdx.y) * walk.chunk_places + s * F::kPlaces;
      const auto start = walk.start(place);
      char* const stage = stages + turn.stage * F::kStage;
      std::uint64_t* const barrier = full + turn.stage;
      await_phase(empty + turn.stage, turn.parity ^ 1);
      expect_bytes(barrier, static_cast<unsigned>((1 + count) * F::kBytes));
      copy_box(map_dy, barrier, stage, 0, place, 0);
      for (int b = 0; b < count; ++b) {
        const auto block = walk.of(first + b);
        copy_pixels(map_x, barrier, stage + (1 + b) * F::kBytes, block.channel, start.w, start.h,
                    start.n, block.move_w, block.move_h);
      }
    }
    return;
  }
  if (group >= count) return;
  float d[F::kColumns / 2];
  for (int s = 0; s < steps; ++s, turn.next()) {
    const char* const stage = stages + turn.stage * F::kStage;
    await_phase(full + turn.stage, turn.parity);
    const auto a = gemm_device::tile_descriptor<false>(stage);
    const auto b = gemm_device::tile_descriptor<false>(stage + (1 + group) * F::kBytes);
    gemm_device::wgmma_begin();
#pragma unroll
    for (int i = 0; i < F::kPlaces / 16; ++i)
      gemm_device::wgmma<T, F::kColumns, false, false>(d, a + i * gemm_device::kNextStep<false>,
                                                       b + i * gemm_device::kNextStep<false>,
                                                       s + i > 0);
    gemm_device::wgmma_end();
    gemm_device::wgmma_await<0>();  // others multiply in the meantime
    if (threadIdx.x % 128 == 0) arrive(empty + turn.stage);
  }
  store_few_filters(d, walk, sums, first + group, filters);
#endif
}

template <class T>
Result<void> launch_few_filters(const Stream& stream, const CUtensorMap& map_dy,
                                const CUtensorMap& map_x, const WindowWalk& walk,
                                std::int64_t chunks, std::int64_t filters, float* sums) {
  using F = FewFilters;
  const auto kernel = multiply_few_filters<T>;
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, F::kShared),
          "conv2d_weight");
      !ok)
    return ok;
  const dim3 grid(static_cast<unsigned>(ceil_div(walk.taps * walk.blocks, F::kGroups)),
                  static_cast<unsigned>(chunks));
  kernel<<<grid, F::kThreads, F::kShared, native(stream)>>>(map_dy, map_x, walk, sums,
                                                            static_cast<int>(filters));
  return cuda_result(cudaGetLastError(), "conv2d_weight");
}

}  // namespace planck::conv_device
