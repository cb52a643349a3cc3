// cuda:tiles, dq of slopes that the kernel of dk and dv has kept: a block owns 64 queries and walks
// over tiles of 64 keys, of which slopes and keys are copied while the ones before are multiplied.
// A lane owns four queries side by side, so that a key's slopes are one read of 16 bytes.
#pragma once

#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/chain_tiles.cuh"

namespace planck::attention_device {

template <int kWidth_>
struct ChainKept {
  static constexpr int kWidth = kWidth_;
  static constexpr int kKeyWords = kOwnRows * kWidth;
  static constexpr int kStageWords = kKeyWords + KeptSlopes::kTile, kStages = 2;
  static constexpr int kBlocks = kWidth == 128 ? 2 : 3;                   // of a multiprocessor
  static constexpr int kShared = 4 * (kStages * kStageWords + kOwnRows);  // and one row to read
};

// sums[r][·] += the sum of slopes[j][r] * keys[j][·], j rising from 0 to `end`, filled up to a
// multiple of 8: slopes to the lane's four queries, keys to its first columns, chunks of which lie
// 32 apart. What is read first is read before it is wanted, the last time past the end.
template <int kWidth>
__device__ __forceinline__ void add_keys(float (&sums)[kDown][kWidth / 8], const float* slopes,
                                         const float* keys, int end) {
  float4 w = read_four(slopes), b = read_four(keys);
#pragma unroll 1
  for (int j = 0; j < end; j += 8) {
#pragma unroll
    for (int x = 0; x < 8; ++x) {
      const float of_row[kDown] = {w.x, w.y, w.z, w.w};
#pragma unroll
      for (int chunk = 0; chunk < kWidth / 32; ++chunk) {
        if (chunk > 0) b = read_four(keys + (j + x) * kWidth + chunk * 32);
#pragma unroll
        for (int r = 0; r < kDown; ++r) {
          float* const sum = sums[r] + chunk * 4;
          sum[0] = __fmaf_rn(of_row[r], b.x, sum[0]), sum[1] = __fmaf_rn(of_row[r], b.y, sum[1]);
          sum[2] = __fmaf_rn(of_row[r], b.z, sum[2]), sum[3] = __fmaf_rn(of_row[r], b.w, sum[3]);
        }
      }
      w = read_four(slopes + (j + x + 1) * kOwnRows), b = read_four(keys + (j + x + 1) * kWidth);
    }
  }
}

template <class W>
__global__ void __launch_bounds__(kChainThreads, W::kBlocks)
    sum_kept_dq_chain_tiles(const __grid_constant__ Call c, const __grid_constant__ ChainWays ways,
                            const __grid_constant__ KeptSlopes kept,
                            const __grid_constant__ ChosenRows again) {
  extern __shared__ __align__(16) float chain_room[];
  follow();
  const ChainLane lane;
  const OwnRows at(blockIdx.x, c.batch, c.heads, c.queries, true);
  const Index group = at.head / (c.heads / c.groups), head = Index{at.n} * c.heads + at.head;
  const Range low = keys_of(c, at.row),
              high = keys_of(c, min(Index{at.row} + kOwnRows, c.queries) - 1);
  const int first = static_cast<int>(low.first) / kOwnRows,
            end = (static_cast<int>(high.end) + kOwnRows - 1) / kOwnRows;
  const HeadRows k(c.k, at.n, group, c.keys, c.width, ways.chunks);
  const auto bring_tile = [&](int tile) {
    if (tile < end) {
      float* const to = chain_room + tile % W::kStages * W::kStageWords;
      bring<kOwnRows, W::kWidth, W::kWidth>(to, k, tile * kOwnRows, 0);
      const float* const from = kept.tile(head, at.row / kOwnRows, tile);
#pragma unroll
      for (int i = 0; i < KeptSlopes::kTile; i += 4 * kChainThreads) {
        const int word = i + static_cast<int>(threadIdx.x) * 4;
        copy_async<16>(to + W::kKeyWords + word, from + word);
      }
    }
    end_copies();
  };
  const Seen seen(at.row + lane.row(), c.queries, [&](int i) { return keys_of(c, i); });
  const int warp_end = seen.warp_end();
  float sums[kDown][W::kWidth / 8] = {};
  bring_tile(first);
#pragma unroll 1
  for (int tile = first; tile < end; ++tile) {
    await_copies<0>();
    __syncthreads();
    bring_tile(tile + 1);
    const float* const keys = chain_room + tile % W::kStages * W::kStageWords;
    add_keys<W::kWidth>(sums, keys + W::kKeyWords + lane.row(), keys + lane.across * 4,
                        min(kOwnRows, warp_end - tile * kOwnRows));
  }
  const bool may[kDown] = {true, true, true, true};
  const float scale = static_cast<float>(c.scale);
  const unsigned nan = store_rows_of_warp<W::kWidth>(
      c.dq, at, lane, c.queries, c.width, c.packs, may,
      [&](int r, int x) { return element::result(sums[r][x], scale); });
  if (lane.lane == 0) again.set(at.n * c.heads + at.head, at.row + lane.warp_row(), nan);
}

}  // namespace planck::attention_device
