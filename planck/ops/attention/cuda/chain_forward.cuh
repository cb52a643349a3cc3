// cuda:tiles, forward: a block has 64 queries and walks over the definition's blocks of 128 keys.
// Keys come in pieces of 32 of their columns, values in pieces of as many rows: a ring of pieces,
// which are copied while others are multiplied.
//
// For each score of heads of 64: 128 fused multiply-adds, 11 reads of shared memory and about 20
// instructions that make a power of it.
#pragma once

#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/chain_tiles.cuh"

namespace planck::attention_device {

template <int kWidth_>
struct ChainForward {
  static constexpr int kWidth = kWidth_;
  static constexpr int kKeys = element::kBlock, kColumns = kKeys / 8;  // of a lane
  static constexpr int kPieceColumns = 32, kPieceRows = kKeys * kPieceColumns / kWidth;
  static constexpr int kStride = kWidth + 4, kKeyStride = kPieceColumns + 4;
  static constexpr int kWeightStride = 16 + 4, kWarpWords = kKeys * kWeightStride;
  static constexpr int kPieceWords = kKeys * kKeyStride;
  static constexpr int kStages = kWidth == 128 ? 2 : 3;
  static constexpr int kShared =
      4 * (kOwnRows * kStride + kOwnRows / 16 * kWarpWords + kStages * kPieceWords);
};

// The pieces of keys and values of all blocks that somebody sees, in the order in which they are
// wanted.
template <class W>
class KeyPieces {
 public:
  __device__ KeyPieces(const HeadRows& k, const HeadRows& v, int first, int end, float* stages)
      : k_(k), v_(v), block_(first), end_(end), stages_(stages) {}
  // Of a block of keys, how many there are of its keys.
  __device__ int of_keys() const { return (k_.width + W::kPieceColumns - 1) / W::kPieceColumns; }

  __device__ __forceinline__ void begin() {
#pragma unroll
    for (int s = 0; s < W::kStages - 1; ++s) bring_next();
  }
  // The next piece, which stays until the next one is asked for. All threads of the block meet.
  __device__ __forceinline__ const float* next() {
    await_copies<W::kStages - 2>();
    __syncthreads();
    bring_next();
    float* const piece = stages_ + given_ * W::kPieceWords;
    given_ = given_ + 1 == W::kStages ? 0 : given_ + 1;
    return piece;
  }

 private:
  __device__ __forceinline__ void bring_next() {
    if (block_ < end_) {
      float* const to = stages_ + brought_ * W::kPieceWords;
      const int start = block_ * W::kKeys, values = piece_ - of_keys();
      if (values < 0)
        bring<W::kKeys, W::kPieceColumns, W::kKeyStride>(to, k_, start, piece_ * W::kPieceColumns);
      else
        bring<W::kPieceRows, W::kWidth, W::kWidth>(to, v_, start + values * W::kPieceRows, 0);
      if ((values + 1) * W::kPieceRows == W::kKeys)
        piece_ = 0, ++block_;
      else
        ++piece_;
    }
    end_copies();
    brought_ = brought_ + 1 == W::kStages ? 0 : brought_ + 1;
  }

  const HeadRows k_, v_;
  int block_, end_, piece_ = 0;  // the next to be brought
  float* const stages_;
  int brought_ = 0, given_ = 0;
};

// What a lane knows of its rows: the largest score, and of the eight sums of powers its own.
struct RunningRows {
  float largest[kDown], sum[kDown];

  __device__ __forceinline__ RunningRows() {
#pragma unroll
    for (int r = 0; r < kDown; ++r) largest[r] = -math::infinity_of(0.0f), sum[r] = 0;
  }
};

// Makes f(value, row, column) of each of the lane's scores, which lie where its weights do: a loop,
// not code for each. Rows and columns count from the lane's first.
template <class W, class F>
__device__ __forceinline__ void each_weight(float* weights, F f) {
#pragma unroll 1
  for (int x = 0; x < kDown * W::kColumns; ++x) {
    const int r = x % kDown, c = x / kDown;
    float& value = weights[c * 8 * W::kWeightStride + r];
    value = f(value, r, 8 * c);
  }
}

// Products of a block of keys become scores. row, column: the lane's first.
template <class W>
__device__ __forceinline__ void take_scores(const Call& c, const OwnRows& at, const Seen& seen,
                                            float (&s)[kDown][W::kColumns], float* weights, int row,
                                            int column, bool options) {
  const float hidden = -math::infinity_of(0.0f), scale = static_cast<float>(c.scale);
  if (options) {
    put_weights<W::kWeightStride>(weights, s);
    each_weight<W>(weights, [&](float v, int down, int across) {
      const int i = row + down, j = column + across;
      if (i >= c.queries || !keys_of(c, i).has(j)) return hidden;
      return score_of<float>(c, capped_of(c, v), at.n, at.head, i, j);
    });
#pragma unroll
    for (int x = 0; x < W::kColumns; ++x)
#pragma unroll
      for (int r = 0; r < kDown; ++r) s[r][x] = weights[x * 8 * W::kWeightStride + r];
    return;
  }
  const int start = column - column % 8;
  const bool whole = seen.all(start, start + W::kKeys);
#pragma unroll
  for (int x = 0; x < W::kColumns; ++x)
#pragma unroll
    for (int r = 0; r < kDown; ++r) s[r][x] = element::score(s[r][x], scale);
  if (!whole)
#pragma unroll
    for (int x = 0; x < W::kColumns; ++x)
#pragma unroll
      for (int r = 0; r < kDown; ++r)
        if (!seen.has(r, column + 8 * x)) s[r][x] = hidden;
}

// Scores become powers; factor: what earlier sums are multiplied with.
template <class W>
__device__ __forceinline__ void take_powers(RunningRows& rows, float (&s)[kDown][W::kColumns],
                                            float (&factor)[kDown]) {
#pragma unroll
  for (int r = 0; r < kDown; ++r) {
    float largest = rows.largest[r];
#pragma unroll
    for (int x = 0; x < W::kColumns; ++x) largest = math::at_least(s[r][x], largest);
#pragma unroll
    for (int by = 1; by < 8; by *= 2)
      largest = math::at_least(largest, __shfl_xor_sync(0xffffffffu, largest, by * kNextAcross));
    factor[r] = element::power(rows.largest[r] - largest);
    rows.largest[r] = largest;
    rows.sum[r] *= factor[r];
#pragma unroll
    for (int x = 0; x < W::kColumns; ++x) {
      s[r][x] = element::power(s[r][x] - largest);
      rows.sum[r] += s[r][x];
    }
  }
}

template <class W>
__device__ __forceinline__ void drop_weights(const Call& c, const OwnRows& at, float* weights,
                                             int row, int column) {
  each_weight<W>(weights, [&](float v, int down, int across) {
    return keeps<float>(c, at.n, at.head, row + down, column + across) ? v : 0.0f;
  });
}

template <class W>
__device__ __forceinline__ void finish_rows(const Call& c, const OwnRows& at, const ChainLane& lane,
                                            const RunningRows& rows,
                                            const float (&sums)[kDown][W::kWidth / 8],
                                            const ChosenRows& again) {
  float factor[kDown];
  bool may[kDown];
#pragma unroll
  for (int r = 0; r < kDown; ++r) {
    float l = rows.sum[r];
    for (int by = 1; by < 8; by *= 2) l += __shfl_xor_sync(0xffffffffu, l, by * kNextAcross);
    const float m = rows.largest[r];
    factor[r] = element::row_factor(m, l);
    if (c.drops) factor[r] *= enlarged<float>(c);
    may[r] = m < math::infinity_of(0.0f);
    const int i = at.row + lane.row() + r;
    if (lane.across == 0 && i < c.queries)
      *const_cast<float*>(at_row<float>(c.lse, at.n, at.head, i)) = element::log_sum_exp(m, l);
  }
  const unsigned nan = store_rows_of_warp<W::kWidth>(
      c.y, at, lane, c.queries, c.out_width, c.packs, may,
      [&](int r, int x) { return element::result(sums[r][x], factor[r]); });
  if (lane.lane == 0) again.set(at.n * c.heads + at.head, at.row + lane.warp_row(), nan);
}

template <class W>
__global__ void __launch_bounds__(kChainThreads, kChainBlocks)
    attend_chain_tiles(const __grid_constant__ Call c, const __grid_constant__ ChainWays ways,
                       const __grid_constant__ ChosenRows again) {
  extern __shared__ __align__(16) float chain_room[];
  float* const own = chain_room;
  float* const all_weights = own + kOwnRows * W::kStride;
  float* const stages = all_weights + kOwnRows / 16 * W::kWarpWords;
  let_next_begin();
  const ChainLane lane;
  const OwnRows at(blockIdx.x, c.batch, c.heads, c.queries, true);
  const Index group = at.head / (c.heads / c.groups);
  const Range low = keys_of(c, at.row),
              high = keys_of(c, min(Index{at.row} + kOwnRows, c.queries) - 1);
  const int first = static_cast<int>(low.first) / W::kKeys;
  const int end = (static_cast<int>(high.end) + W::kKeys - 1) / W::kKeys;
  const int row = at.row + lane.row();
  const Seen seen(row, c.queries, [&](int i) { return keys_of(c, i); });
  const int warp_end = seen.warp_end();
  KeyPieces<W> pieces(HeadRows(c.k, at.n, group, c.keys, c.width, ways.chunks),
                      HeadRows(c.v, at.n, group, c.keys, c.out_width, ways.chunks), first, end,
                      stages);
  if (first < end)
    bring<kOwnRows, W::kWidth, W::kStride>(
        own, HeadRows(c.q, at.n, at.head, c.queries, c.width, ways.chunks), at.row, 0);
  pieces.begin();

  const float* const queries = own + lane.row() * W::kStride;
  float* const weights = all_weights + lane.warp * W::kWarpWords + lane.down * kDown;
  float* const own_weights = weights + lane.across * W::kWeightStride;
  RunningRows rows;
  float sums[kDown][W::kWidth / 8] = {};
#pragma unroll 1
  for (int b = first; b < end; ++b) {
    const int start = b * W::kKeys, column = start + lane.across;
    float s[kDown][W::kColumns] = {}, factor[kDown];
#pragma unroll 1
    for (int piece = 0; piece < pieces.of_keys(); ++piece) {
      const float* const keys = pieces.next() + lane.across * W::kKeyStride;
      const float* const of_piece = queries + piece * W::kPieceColumns;
      if (warp_end - start > W::kKeys / 2)
        add_scores<W::kColumns, W::kStride, W::kKeyStride>(s, of_piece, keys, W::kPieceColumns);
      else  // the block that causal cuts in two
        add_scores<W::kColumns / 2, W::kStride, W::kKeyStride>(s, of_piece, keys, W::kPieceColumns);
    }
    take_scores<W>(c, at, seen, s, own_weights, row, column, ways.options);
    take_powers<W>(rows, s, factor);
#pragma unroll
    for (int r = 0; r < kDown; ++r)
#pragma unroll
      for (int x = 0; x < W::kWidth / 8; ++x) sums[r][x] *= factor[r];
    put_weights<W::kWeightStride>(own_weights, s);
    if (c.drops) drop_weights<W>(c, at, own_weights, row, column);
    __syncwarp();
#pragma unroll 1
    for (int j = 0; j < W::kKeys; j += W::kPieceRows) {
      const float* const values = pieces.next() + lane.across * 4;
      add_rows<W::kWidth, W::kWeightStride, W::kWidth>(sums, weights + j * W::kWeightStride, values,
                                                       0, min(W::kPieceRows, warp_end - start - j));
    }
  }
  finish_rows<W>(c, at, lane, rows, sums, again);
}

}  // namespace planck::attention_device
