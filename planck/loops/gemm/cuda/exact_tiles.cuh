// f32 products as exact sums of integers (planck/math/products/exact_product.h), by warpgroups on
// s8 digits (compute capability 9.0a). Cut rows of A and columns of B lie k-major, one plane per
// digit; batches are planes too.
//
// The nine products of digits i and j belong to five sums, by d = i + j. A block owns 128 × 128 of
// C, a warpgroup 64 × 128, and takes the sums in two passes over k, as many as registers hold:
//
//   d = 4, 3, 2   six products of three pairs (A_i, B_i) in shared memory, three sums of s32
//   d = 1, 0      three products of two pairs, two sums
//
// so 10 tiles are brought for 9 products. Low sums come first: of what they add up to, three bytes
// are settled and stay in registers, and what is above them is where the sum of d = 1 begins.
// Beyond kExactPart products a sum could leave s32: then k comes in parts, which wait in the
// workspace.
//
// The second warpgroup is a step behind the first, so that one multiplies while the other carries
// or stores.
//
// Tiles of the last round, where there are too few for all clusters, are cut along k: each cluster
// takes an equal share of their steps, and leaves integers that a kernel of its own joins.
//
// H200, 4096^3 (cuBLAS f32 50 TFLOP/s in the same run): see docs/tensor_cores.md.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/exact_sums.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"

namespace planck::gemm_device {

// Digits are -128 to 127, the high one at most 65: d = 2 and what d = 3 and 4 carry to it stay
// below (2 · 65 · 128 + 2^14 + 128 + 1) k < 2^31.
inline constexpr int kExactPart = 64'500 / kStepBytes * kStepBytes;

struct ExactTiles {
  using Element = std::int8_t;
  static constexpr bool kFollows = true;  // what cuts its operands, in a chain
  static constexpr int kColumns = 128, kCluster = 2, kStages = 6, kThreads = 3 * 128;
  static constexpr int kBytesA = kTileRows * kStepBytes, kBytesB = kColumns * kStepBytes;
  static constexpr int kPiece = 8 * 320;  // bytes of a warp, for its sums on their way to C
  static constexpr int kShared =
      1024 + kStages * (kBytesA + kBytesB) + 8 * (kPiece + 4 * kColumns) + 16 * kStages;
  static constexpr int kWaiting = kTileRows * kColumns;  // int64 of the workspace per block
};

template <class W>
__device__ __forceinline__ ExactTask task_of(const ExactArgs& e) {
  const FollowedArgs<float>& p = e.product;
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
    for (int at = k0; at < end; at += kStepBytes) visit(2, at), visit(1, at), visit(0, at);
    for (int at = k0; at < end; at += kStepBytes) visit(1, at), visit(0, at);
  }
}

template <class W>
__device__ void bring_digits(const CUtensorMap& map_a, const CUtensorMap& map_b, const ExactArgs& e,
                             char* stages, std::uint64_t* full, std::uint64_t* empty) {
  const FollowedArgs<float>& p = e.product;
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
  // d = 4, 3, 2 over `count` triples of stages: digits 2, 1, 0. The warpgroup that is ahead says so
  // after the first, once.
  __device__ __forceinline__ void add_up_low(Sums& s4, Sums& s3, Sums& s2, int count, bool ahead) {
    clear(s4), clear(s3), clear(s2);
    int first = -1, third = -1;
    for (int s = 0; s < count; ++s) {
      const int x = take(), y = take();
      wgmma_begin();
      multiply(s4, x, x);
      multiply(s3, x, y);
      multiply(s3, y, x);
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
      say_ahead(ahead && s == 0);
      first = x, third = z;
    }
    wgmma_await<0>();
    release(first);
    release(third);
  }
  // d = 1, 0 over `count` pairs of stages: digits 1, 0. Goes on from what s1 and s0 hold.
  template <class Meanwhile>
  __device__ __forceinline__ void add_up_high(Sums& s1, Sums& s0, int count, Meanwhile meanwhile) {
    int first = -1, second = -1;
    for (int s = 0; s < count; ++s) {
      const int x = take(), y = take();
      wgmma_begin();
      multiply(s1, x, y);
      multiply(s1, y, x);
      multiply(s0, y, y);
      wgmma_end();
      if (s == 0) meanwhile();
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
  // Without branches, around which the compiler would wait for all products.
  static __device__ __forceinline__ void say_ahead(bool when) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p bar.arrive 1, 256;\n}" ::"r"(
                     static_cast<unsigned>(when))
                 : "memory");
  }
  static __device__ __forceinline__ void await_ahead(bool when) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.u32 p, %0, 0;\n@p bar.sync 1, 256;\n}" ::"r"(
                     static_cast<unsigned>(when))
                 : "memory");
  }
};

template <class W>
__device__ void multiply_digits(const ExactArgs& e, char* stages, char* pieces, std::uint64_t* full,
                                std::uint64_t* empty) {
  constexpr int kCount = W::kColumns / 2;
  const FollowedArgs<float>& p = e.product;
  const int group = static_cast<int>(threadIdx.x / 128) - 1;
  const int warp = static_cast<int>(threadIdx.x / 32 % 4),
            lane = static_cast<int>(threadIdx.x % 32);
  const int rank = static_cast<int>(cluster_rank());
  const auto steps_of = [](int k) { return (k + kStepBytes - 1) / kStepBytes; };
  const int of_warp = (group * 64 + warp * 16) * W::kColumns;
  std::int64_t* const waiting = e.waiting + std::int64_t{W::kWaiting} * blockIdx.x + of_warp;
  char* const piece_of_warp = pieces + (group * 4 + warp) * W::kPiece;
  auto* const of_columns =
      reinterpret_cast<float*>(pieces + 8 * W::kPiece) + (group * 4 + warp) * W::kColumns;
  ExactSums<W> ring{stages, full, empty, group, {}};
  ExactWork work(task_of<W>(e));
  // Where a tile begins is found while the one before is multiplied: divisions take their time.
  bool more = work.next(task_of<W>(e)), first = true;
  TileWalk::Tile next = p.walk.at(work.tile);
  while (more) {
    const TileWalk::Tile tile = next;
    const int k0 = work.k0, k1 = work.k1, part = work.part, column = tile.column * W::kColumns;
    const int row_of_group = (tile.row * W::kCluster + rank) * kTileRows + group * 64;
    const int row = row_of_group + warp * 16;
    if (part < 0)
      fetch_residual<W::kColumns, float>(p, p.follows, row_of_group, column, tile.batch);
    ring.await_ahead(first && group == 1);
    std::int32_t s1[kCount], s0[kCount];
    SettledBytes<kCount> settled;
    ExactScales scales;
    for (int k = k0;; k += kExactPart) {
      const int steps = steps_of(min(k1 - k, kExactPart));
      const bool last = k + kExactPart >= k1;
      {
        std::int32_t s4[kCount], s3[kCount], s2[kCount];
        ring.add_up_low(s4, s3, s2, steps, first && group == 0);
        first = false;
        settled.carry(s4, s3, s2, s1);
      }
      ring.clear(s0);
      ring.add_up_high(s1, s0, steps, [&] {
        if (!last) return;
        more = work.next(task_of<W>(e));
        next = p.walk.at(work.tile);
        if (e.sums == nullptr) scales.find<W::kColumns>(e, tile.batch, row, column, of_columns);
      });
      if (last) break;
      store_sums<kCount>(settled, s1, s0, waiting, W::kColumns, kTileRows, W::kColumns, k > k0);
    }
    const bool whole = k1 - k0 <= kExactPart;
    if (part >= 0) {  // parts are joined by a kernel of its own
      store_part<kCount>(
          settled, s1, s0,
          e.cut_sums + std::int64_t{part * W::kCluster + rank} * W::kWaiting + of_warp);
    } else if (e.sums != nullptr && whole) {
      store_sums<kCount>(settled, s1, s0,
                         e.sums + tile.batch * e.sums_batch + row * e.sums_row + column, e.sums_row,
                         p.m - row, p.n - column, false);
    } else if (scales.serve && whole) {
      const RoundedPairs<kCount> pairs{settled, s1, s0, scales, of_columns};
      if (stores_pairs<W::kColumns>(p, row, column))
        store_pairs(pairs, p, row, column, tile.batch);
      else
        store_rows<W::kColumns>(pairs, piece_of_warp, p, row, column, tile.batch);
    } else {
      store_sums<kCount>(settled, s1, s0, waiting, W::kColumns, kTileRows, W::kColumns, !whole);
      __syncwarp();
#pragma unroll 1
      for (int i = lane; i < 16 * W::kColumns; i += 32) {
        const int r = row + i / W::kColumns, c = column + i % W::kColumns;
        if (r >= p.m || c >= p.n) continue;
        if (e.sums != nullptr)
          e.sums[tile.batch * e.sums_batch + r * e.sums_row + c] = waiting[i];
        else
          round_to_c(e, tile.batch, r, c, waiting[i]);
      }
      __syncwarp();
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
  auto* const full = reinterpret_cast<std::uint64_t*>(pieces + 8 * (W::kPiece + 4 * W::kColumns));
  auto* const empty = full + W::kStages;
  if (threadIdx.x == 0) prefetch_map(map_a), prefetch_map(map_b);
  begin_ring<W>(full, empty);
  await_last();
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (is_elected_of_block()) bring_digits<W>(map_a, map_b, e, stages, full, empty);
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
