// Matrix products by mma.sync: the tensor cores of Ampere, Ada and what came after, in the
// instructions that they all have.
//
// A block owns a tile of C. Steps of A and B, 64 bytes of k, arrive in a ring of three stages while
// the warps, each with a rectangle of the tile in registers, multiply the one before. k ascends in
// one accumulator per element, an instruction for each block of the contract; nothing else of the
// tiling can be seen in the result.
#pragma once

#include "planck/loops/gemm/cuda/mma_parts.cuh"
#include "planck/loops/gemm/cuda/mma_sync.cuh"
#include "planck/loops/gemm/cuda/warpgroups.cuh"

namespace planck::gemm_device {

// Warps of a block, 32 rows and so many columns each.
template <int kDown_, int kAcross_, int kWarpColumns_, int kBlocks_>
struct MmaTiling {
  static constexpr int kAcross = kAcross_, kWarpRows = 32, kWarpColumns = kWarpColumns_;
  static constexpr int kRows = kDown_ * kWarpRows, kColumns = kAcross_ * kWarpColumns;
  static constexpr int kThreads = 32 * kDown_ * kAcross_, kBlocks = kBlocks_;
  static constexpr int kStages = 3;
};

template <class E>
using MmaOutput = std::conditional_t<std::is_same_v<E, std::int8_t>, std::int32_t, E>;

template <class E, class Output = MmaOutput<E>>
struct MmaArgs {
  MmaOperand<E> a, b;
  std::conditional_t<std::is_same_v<E, Output>, FollowedArgs<E>, TensorArgs<Output>> to;
  gemm::Batches batches;
};

template <class E, class Output, class Tiling, Lies kA, Lies kB>
__global__ void __launch_bounds__(Tiling::kThreads,
                                  kA == Lies::any ? Tiling::kBlocks / 2 : Tiling::kBlocks)
    multiply_mma(const __grid_constant__ MmaArgs<E, Output> p) {
  using Sum = TensorSum<E>;
  using A = MmaPart<E, Tiling::kRows, Tiling::kThreads, kA>;
  using B = MmaPart<E, Tiling::kColumns, Tiling::kThreads, kB>;
  using LayoutA = typename A::Layout;
  using LayoutB = typename B::Layout;
  constexpr int kStages = Tiling::kStages, kStage = LayoutA::kBytes + LayoutB::kBytes;
  constexpr int kDown = Tiling::kWarpRows / 16, kAcross = Tiling::kWarpColumns / 16;
  constexpr int kPieceRow = 160;  // see store_rows
  static_assert(Tiling::kThreads / 32 * 16 * kPieceRow <= kStages * kStage);
  __shared__ __align__(128) char stages[kStages * kStage];

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / Tiling::kAcross * Tiling::kWarpRows;
  const int column = warp % Tiling::kAcross * Tiling::kWarpColumns;
  const auto tile = p.to.walk.at(static_cast<int>(blockIdx.x));
  const int i0 = tile.row * Tiling::kRows, j0 = tile.column * Tiling::kColumns;
  A a(p.a, p.batches.offset(0, tile.batch), i0, p.to.m, p.to.k);
  B b(p.b, p.batches.offset(1, tile.batch), j0, p.to.n, p.to.k);

  Sum sums[kDown][2 * kAcross][4] = {};
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int lane_a = LayoutA::template lane_at<true>(lane, row);
  const int lane_b = LayoutB::template lane_at<false>(lane, column);
  const auto multiply = [&](const char* stage) {
    const unsigned part_a = shared_address(stage), part_b = part_a + LayoutA::kBytes;
#pragma unroll
    for (int slice = 0; slice < kMmaSlices; ++slice) {
      std::uint32_t of_a[kDown][4], of_b[kAcross][4];
#pragma unroll
      for (int i = 0; i < kDown; ++i)
        load_operand<E, true, LayoutA, kA != Lies::wide>(of_a[i], part_a, lane_a, 16 * i, slice);
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
        load_operand<E, false, LayoutB, kB != Lies::wide>(of_b[j], part_b, lane_b, 16 * j, slice);
#pragma unroll
      for (int j = 0; j < 2 * kAcross; ++j)
#pragma unroll
        for (int i = 0; i < kDown; ++i)
          mma_sync<E>(sums[i][j], of_a[i], {of_b[j / 2][j % 2 * 2], of_b[j / 2][j % 2 * 2 + 1]});
    }
  };

  const int steps = (p.to.k + LayoutA::kDepth - 1) / LayoutA::kDepth;
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    char* const to = stages + s * kStage;
    if (s < steps) {
      a.load(to), b.load(to + LayoutA::kBytes);
      a.store(to), b.store(to + LayoutA::kBytes);
    }
    end_copies();
  }
  int now = 0, next = kStages - 1;  // stages
  for (int s = 0; s < steps; ++s) {
    await_copies<kStages - 2>();
    __syncthreads();  // this step is in, and nobody reads the stage of the last one any more
    char* const to = stages + next * kStage;
    const bool more = s + kStages - 1 < steps;
    if (more) a.load(to), b.load(to + LayoutA::kBytes);
    end_copies();
    multiply(stages + now * kStage);
    if (more) a.store(to), b.store(to + LayoutA::kBytes);
    now = now + 1 == kStages ? 0 : now + 1;
    next = next + 1 == kStages ? 0 : next + 1;
  }
  await_copies<0>();
  __syncthreads();

  auto to = p.to;
  to.c += p.batches.offset(2, tile.batch);
  if constexpr (requires { to.follows; })
    if (to.follows.residual.data != nullptr)
      to.follows.residual.data += p.batches.offset(3, tile.batch);
  char* const piece = stages + warp * 16 * kPieceRow;
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
    const auto pair = [&](int j, int h) {
      if constexpr (std::is_same_v<E, std::int8_t>)
        return int2{sums[i][j][2 * h], sums[i][j][2 * h + 1]};
      else
        return float2{sums[i][j][2 * h], sums[i][j][2 * h + 1]};
    };
    store_rows<Tiling::kWarpColumns>(pair, piece, to, i0 + row + 16 * i, j0 + column, 0);
  }
}

}  // namespace planck::gemm_device
