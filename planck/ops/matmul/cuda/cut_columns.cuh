// f32 operands of exact products whose rows lie across k, cut in one pass: what a cluster of blocks
// has read stays in their shared memory until the largest magnitude of each row is known.
//
// A cluster owns 16 rows, which are 64 bytes of each of k, and a block up to 1,024 of k. Reading
// them a second time instead, tile by tile, takes 11 bytes of memory for an element instead of 7.
#pragma once

#include <algorithm>

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/loops/gemm/cuda/wgmma.cuh"
#include "planck/ops/matmul/cuda/rows_to_cut.cuh"

namespace planck::matmul_device {

struct ColumnCut {
  static constexpr int kRows = 16, kThreads = 256, kWarps = kThreads / 32;
  static constexpr int kUnit = 128, kMostShare = 1024;  // of k: of a warp at once, of a block
  static constexpr int kMostBlocks = 8;                 // of a cluster
  static constexpr std::int64_t kMost = std::int64_t{kMostShare} * kMostBlocks;
  // 16 of k and four words that nobody reads: a warp reads four rows by 16 of k, 8 times.
  static constexpr int kPitch = 16 * kRows + 4;

  int share, blocks;  // k of a block, a multiple of kUnit; blocks of a cluster

  // So many blocks, at least, keep a Hopper busy.
  ColumnCut(std::int64_t depth, std::int64_t clusters) {
    constexpr std::int64_t kEnough = 264;
    const std::int64_t useful = std::min<std::int64_t>(kMostBlocks, ceil_div(depth, kUnit));
    blocks = static_cast<int>(
        std::max(ceil_div(depth, kMostShare), std::min(useful, kEnough / clusters)));
    share = static_cast<int>(ceil_div(ceil_div(depth, blocks), kUnit)) * kUnit;
  }
  std::size_t shared() const { return static_cast<std::size_t>(share / 16 * kPitch) * 4; }

  static bool serves(const RowsToCut& c, std::int64_t depth) {
    const auto& x = c.x;
    return x.row == 1 && depth <= kMost && x.rows % 4 == 0 && x.depth % 4 == 0 &&
           x.batch % 4 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
  }
  static std::int64_t clusters(const RowsToCut& c) {
    return ceil_div(c.x.rows, kRows) * c.x.batches;
  }
};

// cluster_sync in two halves: others may be on their way between.
__device__ __forceinline__ void say_begun() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}
__device__ __forceinline__ void await_begun() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
}
// To the same place in the shared memory of another block of the cluster.
__device__ __forceinline__ void put_at(std::uint32_t* shared, unsigned rank, std::uint32_t v) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "st.shared::cluster.u32 [there], %2;\n"
      "}" ::"r"(shared_address(shared)),
      "r"(rank), "r"(v)
      : "memory");
#endif
}

// Clusters of the first operand, then those of the second.
template <class Cutter>
__global__ void __launch_bounds__(ColumnCut::kThreads, 3)
    cut_columns(RowsToCut first, RowsToCut second, std::int64_t of_first, std::int64_t depth,
                int share, int blocks) {
#if __CUDA_ARCH__ >= 900
  namespace exact = math::exact;
  using C = ColumnCut;
  let_next_begin();
  say_begun();
  extern __shared__ __align__(16) float tile[];
  __shared__ std::uint32_t of_warp[C::kWarps][C::kRows], of_block[C::kMostBlocks][C::kRows];
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int rank = static_cast<int>(gemm_device::cluster_rank());
  std::int64_t number = blockIdx.x / blocks;
  gemm_device::Lying<float> x = first.x;
  std::int8_t* to = first.to;
  int* exponents = first.exponents;
  if (number >= of_first)
    number -= of_first, x = second.x, to = second.to, exponents = second.exponents;
  const std::int64_t across = (x.rows + C::kRows - 1) / C::kRows, batch = number / across;
  const std::int64_t row0 = number % across * C::kRows, k0 = std::int64_t{rank} * share;

  // Chunks of four rows: of each of k there are four, and a thread has the same of all its k.
  constexpr int kChunks = C::kRows / 4, kStep = C::kThreads / kChunks;
  const int chunk = thread % kChunks;
  const bool inside = row0 + chunk * 4 < x.rows;
  const float* const from = x.data + batch * x.batch + (inside ? row0 + chunk * 4 : 0);
  const auto place = [&](int k) { return tile + k / 16 * C::kPitch + k % 16 * C::kRows; };
  for (int k = thread / kChunks; k < share; k += kStep) {
    const bool there = inside && k0 + k < x.k;
    copy_async_if(there, place(k) + chunk * 4, there ? from + (k0 + k) * x.depth : x.data);
  }
  end_copies();
  await_copies<0>();
  std::uint32_t most[4] = {};
  for (int k = thread / kChunks; k < share; k += kStep) {
    const float4 v = *reinterpret_cast<const float4*>(place(k) + chunk * 4);
    most[0] = max(most[0], exact::magnitude_of(v.x)),
    most[1] = max(most[1], exact::magnitude_of(v.y));
    most[2] = max(most[2], exact::magnitude_of(v.z)),
    most[3] = max(most[3], exact::magnitude_of(v.w));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int bit = kChunks; bit < 32; bit *= 2)
      most[i] = max(most[i], __shfl_xor_sync(0xffffffffu, most[i], bit));
    if (lane < kChunks) of_warp[warp][lane * 4 + i] = most[i];
  }
  __syncthreads();
  await_begun();
  for (int i = thread; i < blocks * C::kRows; i += C::kThreads) {
    std::uint32_t v = 0;
#pragma unroll
    for (int w = 0; w < C::kWarps; ++w) v = max(v, of_warp[w][i % C::kRows]);
    put_at(&of_block[rank][i % C::kRows], static_cast<unsigned>(i / C::kRows), v);
  }
  gemm_device::cluster_sync();

  // A warp has four rows; a lane has one of them, and 16 of k at once.
  const int r = warp % 4 * 4 + lane / 8;
  std::uint32_t largest = 0;
  for (int b = 0; b < blocks; ++b) largest = max(largest, of_block[b][r]);
  const int e = exact::exponent_of(largest);
  if (row0 + r < x.rows) {
    if (rank == 0 && warp < 4 && lane % 8 == 0) exponents[batch * x.rows + row0 + r] = e;
    Cutter cut(e);
    constexpr int kPlanes = Cutter::kPlanes;
    std::int8_t* const line = to + (batch * kPlanes * x.rows + row0 + r) * depth + k0;
    for (int k = warp / 4 * C::kUnit + lane % 8 * 16; k < share && k0 + k < depth;
         k += C::kWarps / 4 * C::kUnit) {
      const float* const own = tile + k / 16 * C::kPitch + r;
      std::uint32_t words[4][kPlanes];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float v[4] = {own[(4 * i) * C::kRows], own[(4 * i + 1) * C::kRows],
                            own[(4 * i + 2) * C::kRows], own[(4 * i + 3) * C::kRows]};
        cut(v, words[i]);
      }
#pragma unroll
      for (int d = 0; d < kPlanes; ++d)
        *reinterpret_cast<uint4*>(line + d * x.rows * depth + k) = {words[0][d], words[1][d],
                                                                    words[2][d], words[3][d]};
    }
  }
  await_last();
#endif
}

}  // namespace planck::matmul_device
