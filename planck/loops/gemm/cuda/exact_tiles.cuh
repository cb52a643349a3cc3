// f32 products as exact sums of integers (planck/math/products/exact_product.h), by warpgroups on
// s8 digits (compute capability 9.0a). Cut rows of A and columns of B lie k-major, one plane per
// digit; batches are planes too.
//
// The nine products of digits i and j belong to five sums, by d = i + j. A block owns 128 × 128 of
// C, a warpgroup 64 × 128, and takes the sums in two passes over k, as many as registers hold:
//
//   d = 0, 1, 2   six products of three pairs (A_i, B_i) in shared memory, three sums of s32
//   d = 3, 4      three products of two pairs, two sums
//
// so 10 tiles are brought for 9 products. Of the int64 that the first pass leaves an eighth stays
// in registers, the rest waits in the workspace, which a block fills and reads in the second-level
// cache. Beyond 43,690 products a sum of d = 2 would leave s32: then k comes in parts.
//
// Tiles of the last round, where there are too few for all clusters, are cut along k: each cluster
// takes an equal share of their steps, and leaves integers that a kernel of its own joins.
//
// H200, 4096^3 (cuBLAS f32 50 TFLOP/s in the same run): see docs/tensor_cores.md.
#pragma once

#include "planck/loops/gemm/cuda/exact_round.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"

namespace planck::gemm_device {

inline constexpr int kExactPart = 43'690 / kStepBytes * kStepBytes;  // 3 · 2^14 · k < 2^31

struct ExactTiles {
  using Element = std::int8_t;
  static constexpr int kColumns = 128, kCluster = 2, kStages = 6, kThreads = 3 * 128;
  static constexpr int kBytesA = kTileRows * kStepBytes, kBytesB = kColumns * kStepBytes;
  static constexpr int kShared = 1024 + kStages * (kBytesA + kBytesB) + 8 * 8 * 320 + 16 * kStages;
  static constexpr int kWaiting = kTileRows * kColumns;  // int64 of the workspace per block
  static constexpr int kKept = 1;  // pieces of 8 rows by 32 columns that stay in registers
};

template <class W>
__device__ __forceinline__ ExactTask task_of(const ExactArgs& e) {
  const TensorArgs<float>& p = e.product;
  return {
      {e.cut_tiles, (p.k + kStepBytes - 1) / kStepBytes, static_cast<int>(gridDim.x) / W::kCluster},
      static_cast<int>(blockIdx.x) / W::kCluster,
      p.walk.count(),
      p.k};
}

// Visits (digit, k) of one tile in the order in which pairs of A and B are brought.
template <class Visit>
__device__ __forceinline__ void each_pair(int k0, int k1, Visit visit) {
  for (; k0 < k1; k0 += kExactPart) {
    const int end = min(k1, k0 + kExactPart);
    for (int at = k0; at < end; at += kStepBytes) visit(0, at), visit(1, at), visit(2, at);
    for (int at = k0; at < end; at += kStepBytes) visit(1, at), visit(2, at);
  }
}

template <class W>
__device__ void bring_digits(const CUtensorMap& map_a, const CUtensorMap& map_b, const ExactArgs& e,
                             char* stages, std::uint64_t* full, std::uint64_t* empty) {
  const TensorArgs<float>& p = e.product;
  constexpr int kShare = W::kColumns / W::kCluster;
  const int rank = static_cast<int>(cluster_rank());
  Turn<W::kStages> turn;
  ExactWork work(task_of<W>(e));
  while (work.next(task_of<W>(e))) {
    const auto tile = p.walk.at(work.tile);
    const int row = (tile.row * W::kCluster + rank) * kTileRows;
    const int column = tile.column * W::kColumns + rank * kShare;
    const int plane_a = p.a_batches ? 3 * tile.batch : 0,
              plane_b = p.b_batches ? 3 * tile.batch : 0;
    each_pair(work.k0, work.k1, [&](int digit, int k) {
      await_phase(empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const barrier = full + turn.stage;
      expect_bytes(barrier, W::kBytesA + W::kBytesB);
      char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
      copy_box(map_a, barrier, a, k, row, plane_a + digit);
      copy_box(map_b, barrier, a + W::kBytesA + rank * kShare * kStepBytes, k, column,
               plane_b + digit, (1u << W::kCluster) - 1);
      turn.next();
    });
  }
}

// The sums of one warpgroup over the stages of the ring.
template <class W>
struct ExactSums {
  using Sums = std::int32_t[W::kColumns / 2];
  char* stages;
  std::uint64_t *full, *empty;
  int group;
  Turn<W::kStages> turn;

  __device__ const char* stage(int s) const { return stages + s * (W::kBytesA + W::kBytesB); }
  __device__ void release(int s) const {
    if (threadIdx.x % 128 < W::kCluster) arrive_at(empty + s, threadIdx.x % 128);
  }
  __device__ int take() {
    await_phase(full + turn.stage, turn.parity);
    const int s = turn.stage;
    turn.next();
    return s;
  }
  // Zeros, not a first instruction that ignores its sums: the compiler would keep these alive.
  static __device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (std::int32_t& v : sums) v = 0;
  }
  // sums += A of stage sa by B of stage sb.
  __device__ __forceinline__ void multiply(Sums& sums, int sa, int sb) const {
    const auto a = tile_descriptor<true>(stage(sa) + group * 64 * kStepBytes);
    const auto b = tile_descriptor<true>(stage(sb) + W::kBytesA);
#pragma unroll
    for (int i = 0; i < kStepBytes / 32; ++i)
      wgmma<std::int8_t, W::kColumns, true, true>(sums, a + i * kNextStep<true>,
                                                  b + i * kNextStep<true>, 1);
  }
  // d = 0, 1, 2 over `count` triples of stages.
  __device__ __forceinline__ void add_up_three(Sums& s0, Sums& s1, Sums& s2, int count) {
    clear(s0), clear(s1), clear(s2);
    int first = -1, third = -1;
    for (int s = 0; s < count; ++s) {
      const int x = take(), y = take();
      wgmma_begin();
      multiply(s0, x, x);
      multiply(s1, x, y);
      multiply(s1, y, x);
      multiply(s2, y, y);
      wgmma_end();
      if (s > 0) {
        wgmma_await<1>();
        release(first);
        release(third);
      }
      const int z = take();
      wgmma_begin();
      multiply(s2, x, z);
      multiply(s2, z, x);
      wgmma_end();
      wgmma_await<1>();
      release(y);
      first = x, third = z;
    }
    wgmma_await<0>();
    release(first);
    release(third);
  }
  // d = 3, 4 over `count` pairs of stages.
  __device__ __forceinline__ void add_up_two(Sums& s3, Sums& s4, int count) {
    clear(s3), clear(s4);
    int first = -1, second = -1;
    for (int s = 0; s < count; ++s) {
      const int x = take(), y = take();
      wgmma_begin();
      multiply(s3, x, y);
      multiply(s3, y, x);
      multiply(s4, y, y);
      wgmma_end();
      if (s > 0) {
        wgmma_await<1>();
        release(first);
        release(second);
      }
      first = x, second = y;
    }
    wgmma_await<0>();
    release(first);
    release(second);
  }
};

// Numbers a lane's sums by piece of 8 rows by 32 columns; i < 8.
__device__ constexpr int sum_at(int piece, int i) {
  return (piece / 2 * 4 + i / 2) * 4 + piece % 2 * 2 + i % 2;
}

template <class W>
__device__ void multiply_digits(const ExactArgs& e, char* stages, char* pieces, std::uint64_t* full,
                                std::uint64_t* empty) {
  constexpr int kCount = W::kColumns / 2, kPieces = kCount / 8, kKept = W::kKept;
  const TensorArgs<float>& p = e.product;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const int rank = static_cast<int>(cluster_rank());
  std::int64_t* const waiting =
      e.waiting + std::int64_t{W::kWaiting} * blockIdx.x + (threadIdx.x - 128);
  const auto steps_of = [](int k) { return (k + kStepBytes - 1) / kStepBytes; };
  ExactSums<W> ring{stages, full, empty, group, {}};
  ExactWork work(task_of<W>(e));
  while (work.next(task_of<W>(e))) {
    if (e.follows.residual.data != nullptr && work.part < 0) {
      const auto tile = p.walk.at(work.tile);
      fetch_residual<W::kColumns>(p, e.follows,
                                  (tile.row * W::kCluster + rank) * kTileRows + group * 64,
                                  tile.column * W::kColumns, tile.batch);
    }
    std::int32_t s3[kCount], s4[kCount];
    std::int64_t kept[kKept][8];
    for (int k = work.k0;; k += kExactPart) {
      const int steps = steps_of(min(work.k1 - k, kExactPart));
      const bool last = k + kExactPart >= work.k1;
      {
        std::int32_t s0[kCount], s1[kCount], s2[kCount];
        ring.add_up_three(s0, s1, s2, steps);
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const int at = sum_at(piece, i);
            std::int64_t v = ((std::int64_t{s0[at]} * 256 + s1[at]) * 256 + s2[at]) * 65536;
            if (k != work.k0) v += waiting[at * 256];
            if (piece < kKept && last)
              kept[piece < kKept ? piece : 0][i] = v;
            else
              waiting[at * 256] = v;
          }
      }
      ring.add_up_two(s3, s4, steps);
      if (last) break;
#pragma unroll
      for (int i = 0; i < kCount; ++i) waiting[i * 256] += std::int64_t{s3[i]} * 256 + s4[i];
    }
    const auto tile = p.walk.at(work.tile);
    const int of_warp = group * 64 + warp * 16;
    ExactPlace place{tile.batch,
                     (tile.row * W::kCluster + rank) * kTileRows + of_warp,
                     tile.column * W::kColumns,
                     pieces + (group * 4 + warp) * 8 * 320,
                     nullptr,
                     0};
    if (work.part >= 0) {
      place.sums_row = W::kColumns;
      place.sums = e.cut_sums + std::int64_t{work.part * W::kCluster + rank} * W::kWaiting +
                   of_warp * W::kColumns;
    } else if (e.sums != nullptr) {
      place.sums_row = e.sums_row;
      place.sums = e.sums + place.batch * e.sums_batch + place.row * e.sums_row + place.column;
    }
    // A piece at a time: sums to shared memory, then a column for each lane. What waits is on its
    // way while pieces that were kept are stored. What is done with a piece is written down once:
    // sums alone must know theirs.
    std::int64_t next[8];
    const auto fetch = [&](int piece) {
#pragma unroll
      for (int i = 0; i < 8; ++i) next[i] = waiting[sum_at(piece, i) * 256];
    };
    fetch(kKept);
#pragma unroll 1
    for (int piece = 0; piece < kPieces; ++piece) {
      float residual[8] = {};
      read_residual(e, place, piece / 2 * 32, piece % 2 * 8, residual);
      __syncwarp();
#pragma unroll
      for (int known = 0; known < kPieces; ++known) {
        if (piece != known) continue;
#pragma unroll
        for (int i = 0; i < 8; i += 2) {
          const auto sum = [&](int of) {
            const int at = sum_at(known, of);
            return (known < kKept ? kept[known < kKept ? known : 0][of] : next[of]) +
                   (std::int64_t{s3[at]} * 256 + s4[at]);
          };
          *reinterpret_cast<longlong2*>(place.piece + lane / 4 * 320 + (4 * i + lane % 4 * 2) * 8) =
              longlong2{sum(i), sum(i + 1)};
        }
      }
      if (piece >= kKept && piece + 1 < kPieces) fetch(piece + 1);
      __syncwarp();
      round_rows(e, place, piece / 2 * 32, piece % 2 * 8, residual);
    }
  }
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_exact(const __grid_constant__ CUtensorMap map_a,
                   const __grid_constant__ CUtensorMap map_b, const __grid_constant__ ExactArgs e) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  char* const stages = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
  char* const pieces = stages + W::kStages * (W::kBytesA + W::kBytesB);
  auto* const full = reinterpret_cast<std::uint64_t*>(pieces + 8 * 8 * 320);
  auto* const empty = full + W::kStages;
  begin_ring<W>(full, empty);
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) bring_digits<W>(map_a, map_b, e, stages, full, empty);
  } else {
    take_registers<240>();
    multiply_digits<W>(e, stages, pieces, full, empty);
  }
  cluster_sync();
#endif
}

// a and b are planes of digits; e.waiting has room for `most` blocks. exact_tiles.cu has it.
Result<void> launch_digits(cudaStream_t stream, int processors, int most, const TensorOperand& a,
                           const TensorOperand& b, ExactArgs e);

}  // namespace planck::gemm_device
