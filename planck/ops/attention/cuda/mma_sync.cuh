// cuda:mma_sync: attention on the tensor cores of any GPU from 8.0 on, by instructions of one warp.
// A warp has 16 queries (of dk and dv: keys), a block four warps, which share the tiles that they
// walk over; copies past the registers bring the next tile while the last one is used.
//
// mma.sync leaves sums in the registers where wgmma leaves them, so that what becomes of them is
// the same code (powers.cuh, slopes.cuh), and blocks of 16 are added in the same order: same bits.
#pragma once

#include "planck/loops/gemm/cuda/mma_sync.cuh"
#include "planck/ops/attention/cuda/powers.cuh"
#include "planck/ops/attention/cuda/slopes.cuh"

namespace planck::attention_device {

inline constexpr int kWarpRows = 16, kBlockWarps = 4, kBlockRows = kWarpRows * kBlockWarps;
inline constexpr int kMmaThreads = 32 * kBlockWarps;

// A tile: rows of kWidth elements, whose chunks of 16 bytes change places with the row, so that
// neither copies nor reads of eight rows meet in a bank.
template <int kWidth>
struct RowTile {
  static constexpr int kRowBytes = 2 * kWidth, kChunks = kWidth / 8;
  __device__ static constexpr int at(int row, int chunk) {
    return row * kRowBytes + (chunk ^ row % 8) * 16;
  }
};

// All threads begin copies of kRows rows of a head, from `first` on; zeros where there are none.
template <class T, int kWidth, int kRows>
__device__ __forceinline__ void bring_rows(char* to, const Operand& x, int n, int head, int first,
                                           Index count, int width) {
  using Tile = RowTile<kWidth>;
  const T* const from = at_row<T>(x, n, head, first);
#pragma unroll 4
  for (int u = static_cast<int>(threadIdx.x); u < kRows * Tile::kChunks; u += kMmaThreads) {
    const int row = u / Tile::kChunks, chunk = u % Tile::kChunks;
    const bool there = first + row < count && 8 * chunk < width;
    copy_async_if(there, to + Tile::at(row, chunk),
                  there ? from + row * x.stride[2] + 8 * chunk : static_cast<const T*>(x.data));
  }
}

// Two instructions: 16 rows, 16 columns of sums.
template <class T, int kCount>
__device__ __forceinline__ void add_squares(float (&sums)[kCount], int column,
                                            const std::uint32_t (&a)[4],
                                            const std::uint32_t (&b)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int x = column / 2 + 4 * half;
    float c[4] = {sums[x], sums[x + 1], sums[x + 2], sums[x + 3]};
    mma_sync<T>(c, a, {b[2 * half], b[2 * half + 1]});
    sums[x] = c[0], sums[x + 1] = c[1], sums[x + 2] = c[2], sums[x + 3] = c[3];
  }
}

// s = A Bᵀ: a warp's 16 rows of a tile, from `row` on, and kColumns rows of another one.
template <class T, int kWidth, int kColumns>
__device__ __forceinline__ void multiply_warp_rows(float (&s)[kColumns / 2], const char* a, int row,
                                                   const char* b) {
  using Tile = RowTile<kWidth>;
  const int square = static_cast<int>(threadIdx.x) % 32 / 8, r = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int x = 0; x < kColumns / 2; ++x) s[x] = 0;
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k) {
    std::uint32_t of_a[4], of_b[4];
    load_squares<false>(of_a,
                        shared_address(a + Tile::at(row + square % 2 * 8 + r, 2 * k + square / 2)));
#pragma unroll
    for (int column = 0; column < kColumns; column += 16) {
      load_squares<false>(
          of_b, shared_address(b + Tile::at(column + square / 2 * 8 + r, 2 * k + square % 2)));
      add_squares<T>(s, column, of_a, of_b);
    }
  }
}

// sums += weights X: a tile of kRows.
template <class T, int kWidth, int kRows>
__device__ __forceinline__ void add_warp_rows(float (&sums)[kWidth / 2],
                                              const std::uint32_t (&weights)[kRows / 4],
                                              const char* x) {
  using Tile = RowTile<kWidth>;
  const int square = static_cast<int>(threadIdx.x) % 32 / 8, r = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    const std::uint32_t a[4] = {weights[4 * k], weights[4 * k + 1], weights[4 * k + 2],
                                weights[4 * k + 3]};
#pragma unroll
    for (int column = 0; column < kWidth; column += 16) {
      std::uint32_t b[4];
      load_squares<true>(
          b, shared_address(x + Tile::at(16 * k + square % 2 * 8 + r, column / 8 + square / 2)));
      add_squares<T>(sums, column, a, b);
    }
  }
}

// ---- forward ----

template <class T_, int kWidth_, bool kOptions_>
struct MmaForward {
  using T = T_;
  static constexpr int kWidth = kWidth_, kKeys = element::kBlock;
  static constexpr bool kOptions = kOptions_;
  static constexpr int kQueryBytes = kTileBytes<kWidth, kBlockRows>;
  static constexpr int kKeyBytes = kTileBytes<kWidth, kKeys>;
  static constexpr int kShared = kQueryBytes + 2 * kKeyBytes;
};

template <class W>
__global__ void __launch_bounds__(kMmaThreads, 2)
    attend_mma_sync(const __grid_constant__ Call c, const __grid_constant__ ChosenRows again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kKeys = W::kKeys;
  extern __shared__ __align__(128) char shared[];
  char *const queries = shared, *const keys = queries + W::kQueryBytes,
              *const values = keys + W::kKeyBytes;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = (static_cast<int>(c.queries) + kBlockRows - 1) / kBlockRows;
  const Where at = place_of(blockIdx.x, c.heads, tiles, true);
  const int start = at.tile * kBlockRows, row = start + warp * kWarpRows;
  const int group = at.head / static_cast<int>(c.heads / c.groups);
  const Blocks blocks = Blocks::seen(c, start, kBlockRows);
  const Scale scale(c);
  Rows2 rows(c, row + lane / 4);
  float s[kKeys / 2], sums[kWidth / 2], factor[2] = {1, 1};
  std::uint32_t weights[kKeys / 4];
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) sums[x] = 0;
  const auto bring_keys = [&](int b) {
    if (b < blocks.end)
      bring_rows<T, kWidth, kKeys>(keys, c.k, at.n, group, b * kKeys, c.keys, c.width);
    end_copies();
  };
  const auto bring_values = [&](int b) {
    if (b < blocks.end)
      bring_rows<T, kWidth, kKeys>(values, c.v, at.n, group, b * kKeys, c.keys, c.out_width);
    end_copies();
  };
  bring_rows<T, kWidth, kBlockRows>(queries, c.q, at.n, at.head, start, c.queries, c.width);
  bring_keys(blocks.first);
  bring_values(blocks.first);
  for (int b = blocks.first; b < blocks.end; ++b) {
    await_copies<1>();
    __syncthreads();
    multiply_warp_rows<T, kWidth, kKeys>(s, queries, warp * kWarpRows, keys);
    __syncthreads();
    bring_keys(b + 1);
    take_powers<W>(c, at, rows, s, b * kKeys, scale, factor);
    rescale<kWidth>(sums, factor);
    take_weights<W>(c, at, rows, weights, s, b * kKeys);
    await_copies<1>();
    __syncthreads();
    add_warp_rows<T, kWidth, kKeys>(sums, weights, values);
    __syncthreads();
    bring_values(b + 1);
  }
  await_copies<0>();
  __syncthreads();  // pieces lie where queries were
  const unsigned nan = finish_rows<W>(c, at, rows, row, sums, queries + warp * kPieceBytes);
  if (threadIdx.x % 32 == 0) again.set(at.n * c.heads + at.head, row, nan);
}

// ---- backward ----

template <class T_, int kWidth_, bool kOptions_>
struct MmaBackward {
  using T = T_;
  static constexpr int kWidth = kWidth_, kStep = 64;
  static constexpr bool kOptions = kOptions_;
  static constexpr int kTile = kTileBytes<kWidth, kStep>, kStatBytes = 4 * kStep;
  static constexpr int kStageBytes = 2 * (kTile + kStatBytes);
  static constexpr int kShared = 2 * kTile + 2 * kStageBytes;
  static_assert(kStep == kBlockRows && kShared <= 99 * 1024);  // what every GPU from 8.0 on has
};

// Calls use(b, stage) for steps 0 … count - 1, of which bring(b, stage) begins the copies.
template <class W, class Bring, class Use>
__device__ __forceinline__ void walk_steps(int count, char* stages, Bring bring, Use use) {
  if (count > 0) bring(0, stages);
  end_copies();
#pragma unroll 1
  for (int b = 0; b < count; ++b) {
    if (b + 1 < count) bring(b + 1, stages + (b + 1) % 2 * W::kStageBytes);
    end_copies();
    await_copies<1>();
    __syncthreads();
    use(b, stages + b % 2 * W::kStageBytes);
    __syncthreads();
  }
}

// dq of 64 queries, over keys.
template <class W>
__global__ void __launch_bounds__(kMmaThreads, 2)
    sum_dq_mma_sync(const __grid_constant__ Call c, const __grid_constant__ Stats stats,
                    const __grid_constant__ ChosenRows again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kStep = W::kStep;
  extern __shared__ __align__(128) char shared[];
  char *const q = shared, *const dy = q + W::kTile, *const stages = dy + W::kTile;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = (static_cast<int>(c.queries) + kBlockRows - 1) / kBlockRows;
  const Where at = place_of(blockIdx.x, c.heads, tiles, true);
  const int start = at.tile * kBlockRows, row = start + warp * kWarpRows;
  const int group = at.head / static_cast<int>(c.heads / c.groups);
  const Steps steps =
      Steps::over(keys_of(c, start), keys_of(c, min(Index{start + kBlockRows}, c.queries) - 1));
  const OwnQueries own(c, stats, at, row + lane / 4);
  float s[kStep / 2], dp[kStep / 2], sums[kWidth / 2];
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) sums[x] = 0;
  bring_rows<T, kWidth, kBlockRows>(q, c.q, at.n, at.head, start, c.queries, c.width);
  bring_rows<T, kWidth, kBlockRows>(dy, c.dy, at.n, at.head, start, c.queries, c.out_width);
  walk_steps<W>(
      steps.end - steps.first, stages,
      [&](int b, char* stage) {
        const int first = (steps.first + b) * kStep;
        bring_rows<T, kWidth, kStep>(stage, c.k, at.n, group, first, c.keys, c.width);
        bring_rows<T, kWidth, kStep>(stage + W::kTile, c.v, at.n, group, first, c.keys,
                                     c.out_width);
      },
      [&](int b, const char* stage) {
        multiply_warp_rows<T, kWidth, kStep>(s, q, warp * kWarpRows, stage);
        multiply_warp_rows<T, kWidth, kStep>(dp, dy, warp * kWarpRows, stage + W::kTile);
        own.take_slopes<W>(c, at, s, dp, (steps.first + b) * kStep, [] {});
        std::uint32_t weights[kStep / 4];
        round_weights<T>(weights, dp);
        add_warp_rows<T, kWidth, kStep>(sums, weights, stage);
      });
  await_copies<0>();
  __syncthreads();  // pieces lie where stages were
  finish_dq<W>(c, at, row, sums, stages + warp * kPieceBytes, again);
}

// dk and dv of 64 keys, over the queries of all heads of the group.
template <class W>
__global__ void __launch_bounds__(kMmaThreads, W::kWidth == 64 ? 2 : 1)
    sum_dk_dv_mma_sync(const __grid_constant__ Call c, const __grid_constant__ Stats stats,
                       const __grid_constant__ ChosenRows again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kStep = W::kStep;
  extern __shared__ __align__(128) char shared[];
  char *const k = shared, *const v = k + W::kTile, *const stages = v + W::kTile;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int tiles = (static_cast<int>(c.keys) + kBlockRows - 1) / kBlockRows;
  const Where at = place_of(blockIdx.x, c.groups, tiles, false);
  const int start = at.tile * kBlockRows, row = start + warp * kWarpRows;
  const int in_group = static_cast<int>(c.heads / c.groups);
  const Steps steps =
      Steps::over(queries_of(c, start), queries_of(c, min(Index{start + kBlockRows}, c.keys) - 1));
  const int each = max(steps.end - steps.first, 0);  // steps of a head
  const OwnKeys own(c, row + lane / 4);
  float s[kStep / 2], dp[kStep / 2], dk[kWidth / 2], dv[kWidth / 2];
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) dk[x] = dv[x] = 0;
  bring_rows<T, kWidth, kBlockRows>(k, c.k, at.n, at.head, start, c.keys, c.width);
  bring_rows<T, kWidth, kBlockRows>(v, c.v, at.n, at.head, start, c.keys, c.out_width);
  walk_steps<W>(
      in_group * each, stages,
      [&](int b, char* stage) {
        const int head = at.head * in_group + b / each, first = (steps.first + b % each) * kStep;
        bring_rows<T, kWidth, kStep>(stage, c.q, at.n, head, first, c.queries, c.width);
        bring_rows<T, kWidth, kStep>(stage + W::kTile, c.dy, at.n, head, first, c.queries,
                                     c.out_width);
        constexpr int kChunks = W::kStatBytes / 16;
        if (const int t = static_cast<int>(threadIdx.x); t < 2 * kChunks) {
          const Index place = (at.n * c.heads + head) * c.delta_rows + first + t % kChunks * 4;
          copy_async<16>(stage + 2 * W::kTile + t * 16,
                         (t < kChunks ? stats.lse : stats.delta) + place);
        }
      },
      [&](int b, const char* stage) {
        const char* const lse = stage + 2 * W::kTile;
        multiply_warp_rows<T, kWidth, kStep>(s, k, warp * kWarpRows, stage);
        multiply_warp_rows<T, kWidth, kStep>(dp, v, warp * kWarpRows, stage + W::kTile);
        own.take_slopes<W>(c, at, at.head * in_group + b / each, lse, lse + W::kStatBytes, s, dp,
                           (steps.first + b % each) * kStep, [] {});
        std::uint32_t weights[kStep / 4];
        round_weights<T>(weights, s);
        add_warp_rows<T, kWidth, kStep>(dv, weights, stage + W::kTile);
        round_weights<T>(weights, dp);
        add_warp_rows<T, kWidth, kStep>(dk, weights, stage);
      });
  await_copies<0>();
  __syncthreads();  // pieces lie where stages were
  finish_dk_dv<W>(c, at, row, dk, dv, stages + warp * kPieceBytes, again);
}

}  // namespace planck::attention_device
