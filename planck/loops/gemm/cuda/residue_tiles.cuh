// f32 products as exact sums of integers, by residues (planck/math/products/residues.h): a plain
// product of s8 for each modulus, seven or eight instead of the nine of digits (exact_tiles.cuh).
// Cut rows of A and columns of B lie k-major, one plane per modulus; batches are planes too.
//
// A block owns 128 × 256 of C, as the fastest product of bytes does (warpgroups.cuh), and walks
// over k once for each modulus. Two warpgroups, 64 × 256 each, multiply; what a thread's sums leave
// modulo m it puts aside in the workspace as bytes, 32 KiB of a block for each modulus, which stay
// in L2. It joins them while the tensor cores are at the next tile, four numbers in a step of k;
// where something follows the product, at edges and with the eighth modulus, at once.
//
// Whether a tile takes the eighth modulus is seen from sums of squares of its rows and columns.
//
// H200, 4096^3, us without cutting: three warps that join what the others multiply 899; joined by
// the threads that multiply, while the next tile is on its way, 655. None of these was faster: half
// a word in a step, joining after a stage is let go, joining by products of 32 bits alone.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/exact_round.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/math/products/residues.h"

namespace planck::gemm_device {

namespace residues = math::residues;

struct ResidueTiles {
  using Element = std::int8_t;
  static constexpr bool kFollows = true;  // what cuts its operands, in a chain
  static constexpr int kColumns = 256, kCluster = 2, kStages = 4, kThreads = 3 * 128;
  static constexpr int kBytesA = kTileRows * kStepBytes, kBytesB = kColumns * kStepBytes;
  static constexpr int kAtOnce = 16;       // columns that a warp joins and stores
  static constexpr int kPiece = 16 * 160;  // bytes of a warp, for sums on their way to C
  static constexpr int kShared =
      1024 + kStages * (kBytesA + kBytesB) + 8 * (kPiece + 4 * kColumns) + 16 * kStages;
  // Words of four residues of a tile: [modulus][16 rows][8 columns][lane]. A block has two tiles.
  static constexpr int kWords = kTileRows * kColumns / 4, kWordsOfTile = kWords * residues::kMost;
};

struct ResidueArgs {
  ExactArgs exact;
  const float *squares_a, *squares_b;  // [batch, 32 rows], [batch, 32 columns]
  std::uint32_t* residues;             // of two tiles for each block
  std::int32_t modulus[residues::kMost] = {}, reciprocal[residues::kMost] = {};
};

// The moduli of a tile. It is the same for both blocks of a cluster.
template <class W>
__device__ __forceinline__ int moduli_of(const ResidueArgs& r, const TileWalk::Tile& tile) {
  const FollowedArgs<float>& p = r.exact.product;
  const auto largest = [&](const float* squares, bool own, int extent, int at, int count) {
    const int groups = (extent + 31) / 32;
    if (own) squares += std::int64_t{tile.batch} * groups;
    float most = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) most = fmaxf(most, __ldg(squares + min(at + i, groups - 1)));
    return most;
  };
  constexpr int kRows = kTileRows * W::kCluster / 32, kColumns = W::kColumns / 32;
  const float row = largest(r.squares_a, p.a_batches, p.m, tile.row * kRows, kRows);
  const float column = largest(r.squares_b, p.b_batches, p.n, tile.column * kColumns, kColumns);
  return residues::few_do(row, column) ? residues::kFew : residues::kMost;
}

// One thread: tiles of A and B, modulus by modulus.
template <class W>
__device__ void bring_residues(const CUtensorMap& map_a, const CUtensorMap& map_b,
                               const ResidueArgs& r, char* stages, std::uint64_t* full,
                               std::uint64_t* empty) {
  const FollowedArgs<float>& p = r.exact.product;
  constexpr int kShare = W::kColumns / W::kCluster;
  const int rank = static_cast<int>(cluster_rank());
  Turn<W::kStages> turn;
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int moduli = moduli_of<W>(r, tile);
    const int row = (tile.row * W::kCluster + rank) * kTileRows;
    const int column = tile.column * W::kColumns + rank * kShare;
    const int plane_a = p.a_batches ? residues::kMost * tile.batch : 0,
              plane_b = p.b_batches ? residues::kMost * tile.batch : 0;
    for (int m = 0; m < moduli; ++m)
      for (int k = 0; k < p.k; k += kStepBytes, turn.next()) {
        await_phase(empty + turn.stage, turn.parity ^ 1);
        std::uint64_t* const barrier = full + turn.stage;
        expect_bytes(barrier, W::kBytesA + W::kBytesB);
        char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
        copy_box(map_a, barrier, a, k, row, plane_a + m);
        copy_box(map_b, barrier, a + W::kBytesA + rank * kShare * kStepBytes, k, column,
                 plane_b + m, (1u << W::kCluster) - 1);
      }
  }
}

// Integers of 16 rows and 8 columns from a word of each modulus, as a lane has them after wgmma:
// two neighbours in row lane / 4, two in the 8th after it.
template <int kModuli>
__device__ __forceinline__ void join(const std::uint32_t (&words)[kModuli],
                                     std::int64_t (&sums)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    std::uint32_t left[kModuli];
#pragma unroll
    for (int m = 0; m < kModuli; ++m) left[m] = __byte_perm(words[m], 0, 0x4440 + i);
    sums[i] = residues::joined<kModuli>(left);
  }
}

// A warp's 16 rows of a tile, joined word by word while the next is multiplied.
template <class W>
class LateJoin {
 public:
  int left = 0;  // words

  __device__ __forceinline__ void begin(const std::uint32_t* from, float* to, std::int64_t c_row,
                                        const ExactScales& scales, const float* of_columns) {
    left = W::kColumns / 8;
    from_ = from, to_[0] = to, to_[1] = to + 8 * c_row;
    of_row_[0] = scales.of_row[0], of_row_[1] = scales.of_row[1];
    of_columns_ = of_columns + threadIdx.x % 4 * 2;
    read();
  }
  __device__ __forceinline__ void step() {
    std::uint32_t now[residues::kFew];
#pragma unroll
    for (int m = 0; m < residues::kFew; ++m) now[m] = words_[m];
    from_ += 32;
    read();  // one too many at the end, of what is there all the same
    std::int64_t sums[4];
    join<residues::kFew>(now, sums);
    const float2 by = *reinterpret_cast<const float2*>(of_columns_);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      *reinterpret_cast<float2*>(to_[h]) = {__ll2float_rn(sums[2 * h]) * of_row_[h] * by.x,
                                            __ll2float_rn(sums[2 * h + 1]) * of_row_[h] * by.y};
      to_[h] += 8;
    }
    of_columns_ += 8;
    --left;
  }

 private:
  __device__ __forceinline__ void read() {
#pragma unroll
    for (int m = 0; m < residues::kFew; ++m) words_[m] = __ldcg(from_ + m * W::kWords);
  }
  const std::uint32_t* from_;
  float* to_[2];
  float of_row_[2];
  const float* of_columns_;
  std::uint32_t words_[residues::kFew];
};

// Rounded to C, two neighbours at a time, where powers of two do it.
struct RoundedSums {
  static constexpr bool kNeverNan = true;
  const std::int64_t (&sums)[2][4];
  const ExactScales& scales;
  const float* of_columns;

  __device__ __forceinline__ float2 operator()(int j, int h) const {
    const auto by = *reinterpret_cast<const float2*>(of_columns + 8 * j + threadIdx.x % 4 * 2);
    return {__ll2float_rn(sums[j][2 * h]) * scales.of_row[h] * by.x,
            __ll2float_rn(sums[j][2 * h + 1]) * scales.of_row[h] * by.y};
  }
};

// A warp's 16 rows of a tile, whatever follows and wherever they end.
template <class W, int kModuli>
__device__ __forceinline__ void join_rows(const ExactArgs& e, int batch, int row, int first,
                                          const std::uint32_t* from, const ExactScales& scales,
                                          const float* of_columns, char* piece) {
  static_assert(W::kAtOnce == 16);
  const FollowedArgs<float>& p = e.product;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (int at = 0; at < W::kColumns; at += W::kAtOnce) {
    std::int64_t sums[2][4];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      std::uint32_t words[kModuli];
#pragma unroll
      for (int m = 0; m < kModuli; ++m) words[m] = __ldcg(from + m * W::kWords + (at / 8 + j) * 32);
      join<kModuli>(words, sums[j]);
    }
    if (scales.serve) {
      store_rows<W::kAtOnce>(RoundedSums{sums, scales, of_columns + at}, piece, p, row, first + at,
                             batch);
      continue;
    }
    auto* const waiting = reinterpret_cast<std::int64_t*>(piece);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i)
      waiting[(lane / 4 + i / 2 % 2 * 8) * W::kAtOnce + i / 4 * 8 + lane % 4 * 2 + i % 2] =
          sums[i / 4][i % 4];
    __syncwarp();
#pragma unroll 1
    for (int i = lane; i < 16 * W::kAtOnce; i += 32) {
      const int r = row + i / W::kAtOnce, c = first + at + i % W::kAtOnce;
      if (r < p.m && c < p.n) round_to_c(e, batch, r, c, waiting[i]);
    }
    __syncwarp();
  }
}

// A warpgroup: 64 rows of every tile.
template <class W>
__device__ void multiply_residues(const ResidueArgs& r, char* stages, char* pieces,
                                  std::uint64_t* full, std::uint64_t* empty) {
  const ExactArgs& e = r.exact;
  const FollowedArgs<float>& p = e.product;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 - 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned in_group = threadIdx.x % 128;
  const int rank = static_cast<int>(cluster_rank());
  const int steps = (p.k + kStepBytes - 1) / kStepBytes;
  char* const piece = pieces + warp * W::kPiece;
  auto* const of_columns = reinterpret_cast<float*>(pieces + 8 * W::kPiece) + warp * W::kColumns;
  std::uint32_t* const of_lane = r.residues + std::int64_t{2 * W::kWordsOfTile} * blockIdx.x +
                                 warp * (W::kColumns / 8) * 32 + lane;
  const auto release = [&](int stage) {
    if (in_group < W::kCluster) arrive_at(empty + stage, in_group);
  };
  Turn<W::kStages> turn;
  LateJoin<W> late;
  int second = 0;  // which of the block's two places the tile's residues take
  for (int t = blockIdx.x / W::kCluster; t < p.walk.count(); t += gridDim.x / W::kCluster) {
    const auto tile = p.walk.at(t);
    const int moduli = moduli_of<W>(r, tile);
    std::uint32_t* const mine = of_lane + second * W::kWordsOfTile;
    second ^= 1;
    for (int m = 0; m < moduli; ++m) {
      std::int32_t sums[W::kColumns / 2];
      const auto multiply = [&](int continues) {
        await_phase(full + turn.stage, turn.parity);
        const char* const a = stages + turn.stage * (W::kBytesA + W::kBytesB);
        const std::uint64_t at_a = tile_descriptor<true>(a + group * 64 * kStepBytes);
        const std::uint64_t at_b = tile_descriptor<true>(a + W::kBytesA);
        wgmma_begin();
#pragma unroll
        for (int i = 0; i < kStepBytes / 32; ++i)
          wgmma<std::int8_t, W::kColumns, true, true>(
              sums, at_a + i * kNextStep<true>, at_b + i * kNextStep<true>, i == 0 ? continues : 1);
        wgmma_end();
      };
      multiply(0);
      int last = turn.stage;
      turn.next();
#pragma unroll 1
      for (int s = 1; s < steps; ++s, turn.next()) {
        multiply(1);
        if (late.left > 0) late.step();
        wgmma_await<1>();
        release(last);
        last = turn.stage;
      }
      wgmma_await<0>();
      release(last);
      const std::int32_t modulus = r.modulus[m], reciprocal = r.reciprocal[m];
#pragma unroll
      for (int j = 0; j < W::kColumns / 8; ++j) {
        std::uint32_t left[4];
#pragma unroll
        for (int i = 0; i < 4; ++i)
          left[i] = residues::reduced(sums[4 * j + i], modulus, reciprocal);
        __stcg(mine + m * W::kWords + j * 32,
               __byte_perm(__byte_perm(left[0], left[1], 0x0040),
                           __byte_perm(left[2], left[3], 0x0040), 0x5410));
      }
    }
    while (late.left > 0) late.step();
    const int row = (tile.row * W::kCluster + rank) * kTileRows + warp * 16,
              column = tile.column * W::kColumns;
    ExactScales scales;
    __syncwarp();
    scales.find<W::kColumns>(e, tile.batch, row, column, of_columns);
    if (moduli == residues::kFew && scales.serve && p.c_packs && !p.follows.any() &&
        row + 16 <= p.m && column + W::kColumns <= p.n)
      late.begin(mine,
                 p.c + tile.batch * p.c_batch + (row + lane / 4) * p.c_row + column + lane % 4 * 2,
                 p.c_row, scales, of_columns);
    else if (moduli == residues::kFew)
      join_rows<W, residues::kFew>(e, tile.batch, row, column, mine, scales, of_columns, piece);
    else
      join_rows<W, residues::kMost>(e, tile.batch, row, column, mine, scales, of_columns, piece);
  }
  while (late.left > 0) late.step();
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    multiply_by_residues(const __grid_constant__ CUtensorMap map_a,
                         const __grid_constant__ CUtensorMap map_b,
                         const __grid_constant__ ResidueArgs r) {
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
    leave_registers<40>();
    if (is_elected_of_block()) bring_residues<W>(map_a, map_b, r, stages, full, empty);
  } else {
    take_registers<232>();
    multiply_residues<W>(r, stages, pieces, full, empty);
  }
  cluster_sync();
#endif
}

// a and b are planes of residues; r.residues has room for `most` blocks. residue_tiles.cu has it.
Result<void> launch_residues(cudaStream_t stream, int processors, int most, const TensorOperand& a,
                             const TensorOperand& b, ResidueArgs r);

}  // namespace planck::gemm_device
