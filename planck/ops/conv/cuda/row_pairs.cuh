// dweight of 64 filters or fewer, of 64 channels or fewer, where chunks are whole pairs of rows of
// places: a stage is a pair of rows of dy and the patch of x that all taps cover there, so that x
// comes twice for nine taps instead of nine times (few_filters.cuh). A tap is where its windows
// begin in the patch: of eight places each, which lie side by side. Same order of k, same bits.
#pragma once

#include "planck/ops/conv/cuda/few_filters.cuh"
#include "planck/ops/conv/cuda/patches.cuh"

namespace planck::conv_device {

struct RowPairs {
  int wide, high, steps;  // places; pairs of a chunk
  int pitch, rows;        // pixels of a row of the patch; its rows
  int dy_bytes, x_bytes;  // of a stage, as they come; slots are whole KB
  int stages;

  static constexpr int kMostStages = 4, kMostShared = 227 * 1024;
  PLANCK_HD static int slot(int bytes) { return (bytes + 1023) / 1024 * 1024; }
  PLANCK_HD int stage() const { return slot(dy_bytes) + slot(x_bytes); }
  int shared() const { return 1024 + stages * (stage() + 16); }
};

inline std::optional<RowPairs> row_pairs_of(const WindowWalk& walk, std::int64_t filters) {
  RowPairs r{};
  const int taps_down = walk.taps / walk.taps_across;
  r.wide = walk.wide, r.high = walk.high, r.steps = walk.chunk_places / (2 * walk.wide);
  r.pitch = walk.wide + (walk.taps_across - 1) * std::abs(walk.move_step[1]);
  r.rows = 2 + (taps_down - 1) * std::abs(walk.move_step[0]);
  const bool whole = walk.wide % 8 == 0 && walk.high % 2 == 0 &&
                     walk.chunk_places % (2 * walk.wide) == 0 && walk.step[0] == 1 &&
                     walk.step[1] == 1;
  if (!whole || filters > FewFilters::kFilters || walk.blocks != 1 || r.pitch > 256 || r.rows > 8 ||
      walk.taps == 1)
    return std::nullopt;
  r.dy_bytes = 2 * r.wide * conv_detail::kBlockBytes;
  r.x_bytes = r.rows * r.pitch * conv_detail::kBlockBytes;
  r.stages = std::min((RowPairs::kMostShared - 1024) / (r.stage() + 16), RowPairs::kMostStages);
  return r.stages >= 2 ? std::optional(r) : std::nullopt;
}

// Sums of chunk blockIdx.y, taps from blockIdx.x * kGroups on: [chunk][filter][column].
template <class T>
__global__ void __launch_bounds__(FewFilters::kThreads, 1)
    multiply_row_pairs(const __grid_constant__ CUtensorMap map_dy,
                       const __grid_constant__ CUtensorMap map_x,
                       const __grid_constant__ WindowWalk walk, const __grid_constant__ RowPairs r,
                       float* sums, int filters) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using F = FewFilters;
  extern __shared__ char shared[];
  char* const stages = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  auto* const full = reinterpret_cast<std::uint64_t*>(stages + r.stages * r.stage());
  auto* const empty = full + r.stages;
  const int first = static_cast<int>(blockIdx.x) * F::kGroups;
  const int count = min(F::kGroups, walk.taps - first);
  if (threadIdx.x == 0) {
    for (int s = 0; s < r.stages; ++s)
      init_barrier(full + s, 1), init_barrier(empty + s, static_cast<unsigned>(count));
    fence_barriers();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  int stage = 0;
  unsigned parity = 0;
  const auto next = [&] {
    if (++stage == r.stages) stage = 0, parity ^= 1;
  };
  if (group < 0) {
    if (!is_elected_of_block()) return;
    const int line0 = static_cast<int>(blockIdx.y) * r.steps * 2;
    for (int s = 0; s < r.steps; ++s, next()) {
      const int line = line0 + 2 * s, n = line / r.high, i = line - n * r.high;
      char* const to = stages + stage * r.stage();
      await_phase(empty + stage, parity ^ 1);
      expect_bytes(full + stage, static_cast<unsigned>(r.dy_bytes + r.x_bytes));
      copy_box4(map_dy, full + stage, to, 0, 0, i, n);
      copy_box4(map_x, full + stage, to + RowPairs::slot(r.dy_bytes), 0, walk.at[1], i + walk.at[0],
                n);
    }
    return;
  }
  if (group >= count) return;
  const auto tap = walk.of(first + group);
  const int moved = (tap.move_h * r.pitch + tap.move_w) * conv_detail::kBlockBytes;
  float d[F::kColumns / 2];
  int continues = 0;
  for (int s = 0; s < r.steps; ++s, next()) {
    const char* const dy = stages + stage * r.stage();
    const char* const windows = dy + RowPairs::slot(r.dy_bytes) + moved;
    await_phase(full + stage, parity);
    auto a = gemm_device::tile_descriptor<false>(dy);
    gemm_device::wgmma_begin();
    // Of 16 places, the second eight may lie in the next row.
    int column = 0;
    const char* from = windows;
    const auto eight = [&] {
      const char* const at = from;
      from += 8 * conv_detail::kBlockBytes, column += 8;
      if (column == r.wide) column = 0, from += (r.pitch - r.wide) * conv_detail::kBlockBytes;
      return at;
    };
    for (int i = 0; i < r.wide / 8; ++i, continues = 1) {
      const char* const at = eight();
      const auto apart = static_cast<int>(eight() - at);
      gemm_device::wgmma<T, F::kColumns, false, false>(
          d, a, gemm_device::tile_descriptor<false>(at, apart), continues);
      a += gemm_device::kNextStep<false>;
    }
    gemm_device::wgmma_end();
    gemm_device::wgmma_await<0>();  // others multiply in the meantime
    if (threadIdx.x % 128 == 0) arrive(empty + stage);
  }
  store_few_filters(d, walk, sums, first + group, filters);
#endif
}

template <class T>
Result<void> launch_row_pairs(const Stream& stream, const WindowWalk& walk, const RowPairs& r,
                              const PixelImage& dy, const PixelImage& x, std::int64_t chunks,
                              std::int64_t filters, float* sums) {
  using F = FewFilters;
  const auto map_dy = patch_map<T>(walk, dy, r.wide, 2);
  if (!map_dy) return tl::unexpected(map_dy.error());
  const auto map_x = patch_map<T>(walk, x, r.pitch, r.rows);
  if (!map_x) return tl::unexpected(map_x.error());
  const auto kernel = multiply_row_pairs<T>;
  if (auto ok = cuda_result(
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, r.shared()),
          "conv2d_weight");
      !ok)
    return ok;
  const dim3 grid(static_cast<unsigned>(ceil_div(walk.taps, F::kGroups)),
                  static_cast<unsigned>(chunks));
  kernel<<<grid, F::kThreads, static_cast<std::size_t>(r.shared()), native(stream)>>>(
      *map_dy, *map_x, walk, r, sums, static_cast<int>(filters));
  return cuda_result(cudaGetLastError(), "conv2d_weight");
}

}  // namespace planck::conv_device
