// cuda:tiles, backward: one kernel for dq, whose blocks own queries and walk over keys, and one for
// dk and dv, whose blocks own keys and walk over the queries of all heads of the group. Each sum
// has one owner, and there are no atomics. Where there is room for slopes, those of dk and dv are
// kept, and dq is one product of them (chain_kept.cuh); else scores are computed twice.
//
// A block owns two tiles, of q and dy or of k and v, and walks over steps of the other two. These
// have one place each: the product with the one is computed while the other is copied.
#pragma once

#include "planck/ops/attention/cuda/chain.cuh"
#include "planck/ops/attention/cuda/chain_tiles.cuh"

namespace planck::attention_device {

template <int kWidth_>
struct ChainBackward {
  static constexpr int kWidth = kWidth_;
  static constexpr int kStep = kWidth == 128 ? 32 : 64, kColumns = kStep / 8;  // of a lane
  static constexpr int kStride = kWidth + 4, kWeightStride = 16 + 4;
  static constexpr int kOwnWords = kOwnRows * kStride, kStepWords = kStep * kStride,
                       kWarpWords = kStep * kWeightStride;  // of weights
  static constexpr int kShared =
      4 * (2 * kOwnWords + 2 * kStepWords + kOwnRows / 16 * kWarpWords + 2 * kStep);
};

// Shared memory: two tiles that the block owns, two of a step, weights, lse and delta of a step.
template <class W>
struct ChainRoom {
  float *own[2], *step[2], *weights, *stats;
  __device__ explicit ChainRoom(float* room) {
    own[0] = room, own[1] = own[0] + W::kOwnWords;
    step[0] = own[1] + W::kOwnWords, step[1] = step[0] + W::kStepWords;
    weights = step[1] + W::kStepWords;
    stats = weights + kOwnRows / 16 * W::kWarpWords;
  }
};

// Steps of kStep rows: of all rows that somebody of the block sees.
template <class W>
struct ChainSteps {
  int first, end;
  __device__ ChainSteps(const Range& low, const Range& high)
      : first(static_cast<int>(low.first) / W::kStep),
        end((static_cast<int>(high.end) + W::kStep - 1) / W::kStep) {
    if (end < first) end = first;
  }
  // The same of whole tiles.
  __device__ void fill_up() {
    constexpr int kSteps = kOwnRows / W::kStep;
    first = first / kSteps * kSteps, end = (end + kSteps - 1) / kSteps * kSteps;
  }
};

// A lane's products, s and dp, become p and ds. whole: all rows see all columns, and no lse is +Inf
// or NaN. sees(r, c), lse(r, c), delta(r, c): of row r and column c of the lane.
template <class W, class Sees, class Lse, class Delta>
__device__ __forceinline__ void take_slopes(float (&s)[kDown][W::kColumns],
                                            float (&dp)[kDown][W::kColumns], float scale,
                                            bool whole, Sees sees, Lse lse, Delta delta) {
#pragma unroll
  for (int r = 0; r < kDown; ++r)
#pragma unroll
    for (int c = 0; c < W::kColumns; ++c) {
      const float t = element::score(s[r][c], scale);
      if (whole) {
        s[r][c] = element::power(math::at_most(t - lse(r, c), 0.0f));
        dp[r][c] = s[r][c] * (dp[r][c] - delta(r, c));
      } else {
        const float p = sees(r, c) ? element::probability(t, lse(r, c)) : 0.0f;
        dp[r][c] = element::slope(p, dp[r][c], delta(r, c));
        s[r][c] = p;
      }
    }
}

// The same with what else scores become: slope(s, dp, row, column) of each, rows and columns
// counting from the lane's first. A loop, not code for each: numbers go around in registers.
template <class W, class F>
__device__ __forceinline__ void take_slopes_by_one(float (&s)[kDown][W::kColumns],
                                                   float (&dp)[kDown][W::kColumns], F slope) {
  constexpr int kCount = kDown * W::kColumns;
  const auto turn = [](float(&x)[kDown][W::kColumns], float last) {
#pragma unroll
    for (int i = 0; i + 1 < kCount; ++i)
      x[i % kDown][i / kDown] = x[(i + 1) % kDown][(i + 1) / kDown];
    x[kDown - 1][W::kColumns - 1] = last;
  };
#pragma unroll 1
  for (int i = 0; i < kCount; ++i) {
    const Slope<float> made = slope(s[0][0], dp[0][0], i % kDown, i / kDown * 8);
    turn(s, made.p);
    turn(dp, made.ds);
  }
}

// ---- dq ----

template <class W>
__global__ void __launch_bounds__(kChainThreads, kChainBlocks)
    sum_dq_chain_tiles(const __grid_constant__ Call c, const __grid_constant__ ChainWays ways,
                       const __grid_constant__ ChainStats stats,
                       const __grid_constant__ ChosenRows again) {
  extern __shared__ __align__(16) float chain_room[];
  const ChainRoom<W> room(chain_room);
  let_next_begin();
  const ChainLane lane;
  const OwnRows at(blockIdx.x, c.batch, c.heads, c.queries, true);
  const Index group = at.head / (c.heads / c.groups);
  const ChainSteps<W> steps(keys_of(c, at.row),
                            keys_of(c, min(Index{at.row} + kOwnRows, c.queries) - 1));
  const HeadRows k(c.k, at.n, group, c.keys, c.width, ways.chunks),
      v(c.v, at.n, group, c.keys, c.out_width, ways.chunks);
  const auto bring_step = [&](int which, const HeadRows& from, int step) {
    if (step < steps.end)
      bring<W::kStep, W::kWidth, W::kStride>(room.step[which], from, step * W::kStep, 0);
    end_copies();
  };
  if (steps.first < steps.end) {
    bring<kOwnRows, W::kWidth, W::kStride>(
        room.own[0], HeadRows(c.q, at.n, at.head, c.queries, c.width, ways.chunks), at.row, 0);
    bring<kOwnRows, W::kWidth, W::kStride>(
        room.own[1], HeadRows(c.dy, at.n, at.head, c.queries, c.out_width, ways.chunks), at.row, 0);
  }
  bring_step(1, v, steps.first);
  bring_step(0, k, steps.first);

  const int row = at.row + lane.row(), own = lane.row() * W::kStride;
  const Seen seen(row, c.queries, [&](int i) { return keys_of(c, i); });
  const int warp_end = seen.warp_end();
  const Index place = (Index{at.n} * c.heads + at.head) * stats.rows_of_head + row;
  float lse[kDown], delta[kDown];
  bool total = true;
#pragma unroll
  for (int r = 0; r < kDown; ++r) {  // stats have whole tiles of rows
    lse[r] = stats.lse[place + r], delta[r] = stats.delta[place + r];
    total = total && lse[r] < math::infinity_of(0.0f);
  }
  total = __all_sync(0xffffffffu, total);
  const float scale = static_cast<float>(c.scale);
  float* const weights = room.weights + lane.warp * W::kWarpWords + lane.down * kDown;
  float* const own_weights = weights + lane.across * W::kWeightStride;
  const int across = lane.across * W::kStride;
  float sums[kDown][W::kWidth / 8] = {};
  await_copies<1>();
  __syncthreads();
#pragma unroll 1
  for (int b = steps.first; b < steps.end; ++b) {
    const int start = b * W::kStep, column = start + lane.across;
    float s[kDown][W::kColumns] = {}, dp[kDown][W::kColumns] = {};
    add_scores<W::kColumns, W::kStride, W::kStride>(dp, room.own[1] + own, room.step[1] + across,
                                                    c.out_width);
    await_copies<0>();
    __syncthreads();
    bring_step(1, v, b + 1);
    add_scores<W::kColumns, W::kStride, W::kStride>(s, room.own[0] + own, room.step[0] + across,
                                                    c.width);
    if (ways.options)
      take_slopes_by_one<W>(s, dp, [&](float of_s, float of_dp, int down, int across) {
        const int i = row + down, j = column + across;
        if (i >= c.queries || !keys_of(c, i).has(j)) return Slope<float>{0, 0};
        return slope_of<float>(c, of_s, of_dp, stats.lse[place + down], stats.delta[place + down],
                               at.n, at.head, i, j);
      });
    else
      take_slopes<W>(
          s, dp, scale, total && seen.all(start, start + W::kStep),
          [&](int r, int x) { return seen.has(r, column + 8 * x); },
          [&](int r, int) { return lse[r]; }, [&](int r, int) { return delta[r]; });
    put_weights<W::kWeightStride>(own_weights, dp);
    __syncwarp();
    add_rows<W::kWidth, W::kWeightStride, W::kStride>(sums, weights, room.step[0] + lane.across * 4,
                                                      0, min(W::kStep, warp_end - start));
    await_copies<0>();
    __syncthreads();
    bring_step(0, k, b + 1);
  }
  const bool may[kDown] = {true, true, true, true};
  const unsigned nan = store_rows_of_warp<W::kWidth>(
      c.dq, at, lane, c.queries, c.width, c.packs, may,
      [&](int r, int x) { return element::result(sums[r][x], scale); });
  if (lane.lane == 0) again.set(at.n * c.heads + at.head, at.row + lane.warp_row(), nan);
}

// ---- dk and dv ----

// A lane's slopes to rows of a tile, of which it points to the lane's first column and row.
template <class W>
__device__ __forceinline__ void keep_slopes(float* tile, const float (&ds)[kDown][W::kColumns]) {
#pragma unroll
  for (int r = 0; r < kDown; ++r)
#pragma unroll
    for (int c = 0; c < W::kColumns; ++c) tile[r * kOwnRows + c * 8] = ds[r][c];
}

// A step of the queries that a block of keys walks over, those of all heads of its group.
struct ChainQueries {
  int head, row;
};

template <class W>
__global__ void __launch_bounds__(kChainThreads, kChainBlocks)
    sum_dk_dv_chain_tiles(const __grid_constant__ Call c, const __grid_constant__ ChainWays ways,
                          const __grid_constant__ ChainStats stats,
                          const __grid_constant__ KeptSlopes kept,
                          const __grid_constant__ ChosenRows again) {
  extern __shared__ __align__(16) float chain_room[];
  const ChainRoom<W> room(chain_room);
  let_next_begin();
  const ChainLane lane;
  const OwnRows at(blockIdx.x, c.batch, c.groups, c.keys, false);
  ChainSteps<W> steps(queries_of(c, at.row),
                      queries_of(c, min(Index{at.row} + kOwnRows, c.keys) - 1));
  if (kept.data != nullptr) steps.fill_up();
  const int in_group = static_cast<int>(c.heads / c.groups), in_head = steps.end - steps.first;
  const int count = in_group * in_head;
  const auto after = [&](const ChainQueries& x) {
    const bool next_head = x.row + W::kStep == steps.end * W::kStep;
    return next_head ? ChainQueries{x.head + 1, steps.first * W::kStep}
                     : ChainQueries{x.head, x.row + W::kStep};
  };
  const auto bring_dy = [&](const ChainQueries& x, bool there) {
    if (there)
      bring<W::kStep, W::kWidth, W::kStride>(
          room.step[1], HeadRows(c.dy, at.n, x.head, c.queries, c.out_width, ways.chunks), x.row,
          0);
    end_copies();
  };
  const auto bring_q = [&](const ChainQueries& x, bool there) {
    if (there) {
      bring<W::kStep, W::kWidth, W::kStride>(
          room.step[0], HeadRows(c.q, at.n, x.head, c.queries, c.width, ways.chunks), x.row, 0);
      const Index place = (Index{at.n} * c.heads + x.head) * stats.rows_of_head + x.row;
      const int four = static_cast<int>(threadIdx.x) * 4;
      if (four < 2 * W::kStep)
        copy_async<16>(room.stats + four, four < W::kStep ? stats.lse + place + four
                                                          : stats.delta + place + four - W::kStep);
    }
    end_copies();
  };
  if (count > 0) {
    bring<kOwnRows, W::kWidth, W::kStride>(
        room.own[0], HeadRows(c.k, at.n, at.head, c.keys, c.width, ways.chunks), at.row, 0);
    bring<kOwnRows, W::kWidth, W::kStride>(
        room.own[1], HeadRows(c.v, at.n, at.head, c.keys, c.out_width, ways.chunks), at.row, 0);
  }
  ChainQueries now{at.head * in_group, steps.first * W::kStep};
  bring_dy(now, count > 0);
  bring_q(now, count > 0);

  const int row = at.row + lane.row(), own = lane.row() * W::kStride;
  const Seen seen(row, c.keys, [&](int j) { return queries_of(c, j); });
  const int warp_first = seen.warp_first();
  const float scale = static_cast<float>(c.scale);
  float* const weights = room.weights + lane.warp * W::kWarpWords + lane.down * kDown;
  float* const own_weights = weights + lane.across * W::kWeightStride;
  const int across = lane.across * W::kStride;
  float dk[kDown][W::kWidth / 8] = {}, dv[kDown][W::kWidth / 8] = {};
  await_copies<1>();
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < count; ++step) {
    const ChainQueries next = after(now);
    const bool more = step + 1 < count;
    const int column = now.row + lane.across,
              from = min(max(warp_first - now.row, 0) / 8 * 8, W::kStep);
    float s[kDown][W::kColumns] = {}, dp[kDown][W::kColumns] = {};
    add_scores<W::kColumns, W::kStride, W::kStride>(dp, room.own[1] + own, room.step[1] + across,
                                                    c.out_width);
    await_copies<0>();
    __syncthreads();
    add_scores<W::kColumns, W::kStride, W::kStride>(s, room.own[0] + own, room.step[0] + across,
                                                    c.width);
    const float *const lse = room.stats + lane.across, *const delta = lse + W::kStep;
    if (ways.options) {
      take_slopes_by_one<W>(s, dp, [&](float of_s, float of_dp, int down, int across) {
        const int j = row + down, i = column + across;
        if (j >= c.keys || !queries_of(c, j).has(i)) return Slope<float>{0, 0};
        return slope_of<float>(c, of_s, of_dp, lse[across], delta[across], at.n, now.head, i, j);
      });
    } else {
      float of_lse[W::kColumns], of_delta[W::kColumns];
      bool total = true;
#pragma unroll
      for (int x = 0; x < W::kColumns; ++x) {
        of_lse[x] = lse[8 * x], of_delta[x] = delta[8 * x];
        total = total && of_lse[x] < math::infinity_of(0.0f);
      }
      total = __all_sync(0xffffffffu, total);
      take_slopes<W>(
          s, dp, scale, seen.all(now.row, now.row + W::kStep) && total,
          [&](int r, int x) { return seen.has(r, column + 8 * x); },
          [&](int, int x) { return of_lse[x]; }, [&](int, int x) { return of_delta[x]; });
    }
    put_weights<W::kWeightStride>(own_weights, s);
    __syncwarp();
    add_rows<W::kWidth, W::kWeightStride, W::kStride>(dv, weights, room.step[1] + lane.across * 4,
                                                      from, W::kStep);
    __syncthreads();
    bring_dy(next, more);
    put_weights<W::kWeightStride>(own_weights, dp);
    __syncwarp();
    if (kept.data != nullptr)
      keep_slopes<W>(
          kept.tile(Index{at.n} * c.heads + now.head, now.row / kOwnRows, at.row / kOwnRows) +
              lane.row() * kOwnRows + now.row % kOwnRows + lane.across,
          dp);
    add_rows<W::kWidth, W::kWeightStride, W::kStride>(dk, weights, room.step[0] + lane.across * 4,
                                                      from, W::kStep);
    await_copies<0>();
    __syncthreads();
    bring_q(next, more);
    now = next;
  }
  const bool may[kDown] = {true, true, true, true};
  const float of_dv = c.drops ? enlarged<float>(c) : 1.0f;
  unsigned nan =
      store_rows_of_warp<W::kWidth>(c.dv, at, lane, c.keys, c.out_width, c.packs, may,
                                    [&](int r, int x) { return element::result(dv[r][x], of_dv); });
  nan |=
      store_rows_of_warp<W::kWidth>(c.dk, at, lane, c.keys, c.width, c.packs, may,
                                    [&](int r, int x) { return element::result(dk[r][x], scale); });
  if (lane.lane == 0) again.set(at.n * c.groups + at.head, at.row + lane.warp_row(), nan);
}

}  // namespace planck::attention_device
