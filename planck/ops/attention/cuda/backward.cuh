// cuda:warpgroups, backward: one kernel for dq, whose blocks own queries and walk over keys, and
// one for dk and dv, whose blocks own keys and walk over the queries of all heads of the group.
// Each sum has one order and one owner, so scores are computed twice: seven products where five
// would do, and no atomics.
//
// dk and dv have scores the other way round, keys down and queries across, so that weights are
// factors of the next product without leaving registers.
#pragma once

#include "planck/ops/attention/cuda/options.cuh"
#include "planck/ops/attention/cuda/tiles.cuh"

namespace planck::attention_device {

// lse and delta of the queries of all heads, rows_of_head each, of which the last may be filled up.
struct Stats {
  const float *lse, *delta;
};

template <class T_, int kWidth_, bool kOptions_>
struct Backward {
  using T = T_;
  static constexpr int kWidth = kWidth_;
  static constexpr bool kOptions = kOptions_;
  static constexpr int kGroups = 2, kOwn = 64 * kGroups, kStep = 64;  // rows owned, and of a step
  static constexpr int kStages = kWidth == 64 ? 4 : 3;
  static constexpr int kOwnBytes = kTileBytes<kWidth, kOwn>;
  static constexpr int kStepBytes = kTileBytes<kWidth, kStep>;
  static constexpr int kStatBytes = kStep * 4, kPieceBytes = 16 * 160;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kCluster = 1;
  static constexpr int kShared = 1024 + 2 * kOwnBytes + kStages * 2 * (kStepBytes + kStatBytes) +
                                 4 * kGroups * kPieceBytes + 8 * (1 + 2 * kStages);
};

// Shared memory: two tiles that the block owns; stages of two tiles that it walks over; lse and
// delta of a stage's queries; pieces of results; barriers.
template <class W>
struct BackwardRoom {
  char *own, *steps, *stats, *pieces;
  std::uint64_t *own_full, *full, *empty;

  __device__ explicit BackwardRoom(char* shared) {
    own = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
    steps = own + 2 * W::kOwnBytes;
    stats = steps + 2 * W::kStages * W::kStepBytes;
    pieces = stats + 2 * W::kStages * W::kStatBytes;
    own_full = reinterpret_cast<std::uint64_t*>(pieces + 4 * W::kGroups * W::kPieceBytes);
    full = own_full + 1, empty = full + W::kStages;
  }
  __device__ char* step(int stage, int which) const {
    return steps + (2 * stage + which) * W::kStepBytes;
  }
  __device__ char* stat(int stage, int which) const {
    return stats + (2 * stage + which) * W::kStatBytes;
  }
  __device__ void begin() const {
    if (threadIdx.x == 0) {
      init_barrier(own_full, 1);
      for (int s = 0; s < W::kStages; ++s)
        init_barrier(full + s, 1), init_barrier(empty + s, W::kGroups);
      fence_barriers();
    }
    __syncthreads();
  }
};

// Steps of 64 rows: of all rows that somebody of the block sees.
struct Steps {
  int first, end;
  __device__ static Steps over(const Range& first, const Range& last) {
    return {static_cast<int>(first.first) / 64, (static_cast<int>(last.end) + 63) / 64};
  }
};

// A lane's sums of a step, s and dp, become p and ds. sees(x): sum x is of a query that sees its
// key; whole: all are. lse(x), delta(x): of its query; total: no lse is +Inf or NaN. s is there; dp
// is when `await` returns. options(x): slopes with what else scores become.
template <class W, class Sees, class Lse, class Delta, class Await, class Options>
__device__ __forceinline__ void take_slopes(float (&s)[W::kStep / 2], float (&dp)[W::kStep / 2],
                                            float scale, bool whole, bool total, Sees sees, Lse lse,
                                            Delta delta, Await await, Options options) {
  if constexpr (W::kOptions) {
    await();
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x) {
      const Slope<float> slope = sees(x) ? options(x) : Slope<float>{0, 0};
      s[x] = slope.p, dp[x] = slope.ds;
    }
  } else {
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x)
      s[x] = element::power(smaller_or_nan(element::score(s[x], scale) - lse(x), 0.0f));
    if (!whole)
#pragma unroll
      for (int x = 0; x < W::kStep / 2; ++x)
        if (!sees(x)) s[x] = 0;
    if (!total)
#pragma unroll
      for (int x = 0; x < W::kStep / 2; ++x)
        if (sees(x) && !(lse(x) < math::infinity_of(0.0f))) s[x] = math::nan_of(0.0f);
    wgmma_hold(s);  // done before dp is awaited
    await();
#pragma unroll
    for (int x = 0; x < W::kStep / 2; ++x) dp[x] = s[x] * (dp[x] - delta(x));
  }
}

// ---- dq ----

template <class W>
__device__ __forceinline__ void bring_keys(const CUtensorMap& q, const CUtensorMap& dy,
                                           const CUtensorMap& k, const CUtensorMap& v,
                                           const Call& c, const BackwardRoom<W>& room,
                                           const Where& at, const Steps& steps) {
  if (steps.first >= steps.end) return;  // nobody would wait for what is brought
  const int group = at.head / static_cast<int>(c.heads / c.groups);
  expect_bytes(room.own_full, 2 * W::kOwnBytes);
  bring_tile<W::kWidth, W::kOwn>(q, room.own_full, room.own, c.q, at.tile * W::kOwn, at.head, at.n);
  bring_tile<W::kWidth, W::kOwn>(dy, room.own_full, room.own + W::kOwnBytes, c.dy,
                                 at.tile * W::kOwn, at.head, at.n);
  Turn<W::kStages> turn;
  for (int b = steps.first; b < steps.end; ++b, turn.next()) {
    await_phase(room.empty + turn.stage, turn.parity ^ 1);
    std::uint64_t* const full = room.full + turn.stage;
    expect_bytes(full, 2 * W::kStepBytes);
    bring_tile<W::kWidth, W::kStep>(k, full, room.step(turn.stage, 0), c.k, b * W::kStep, group,
                                    at.n);
    bring_tile<W::kWidth, W::kStep>(v, full, room.step(turn.stage, 1), c.v, b * W::kStep, group,
                                    at.n);
  }
}

// A warpgroup: dq of 64 queries.
template <class W>
__device__ __forceinline__ void sum_dq(const Call& c, const Stats& stats,
                                       const BackwardRoom<W>& room, const Where& at,
                                       const Steps& steps, const ChosenRows& again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kStep = W::kStep;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const int row = at.tile * W::kOwn + group * 64 + warp * 16;
  const float scale = static_cast<float>(c.scale);
  const char* const q = room.own + group * 64 * 128;
  const char* const dy = q + W::kOwnBytes;
  int i[2], first[2], end[2];
  float lse[2], delta[2];
  bool total = true;
  for (int h = 0; h < 2; ++h) {
    i[h] = row + lane / 4 + 8 * h;
    const bool there = i[h] < c.queries;
    const Range seen = there ? keys_of(c, i[h]) : Range{0, 0};
    first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
    const Index place = (at.n * c.heads + at.head) * c.delta_rows + i[h];
    lse[h] = there ? stats.lse[place] : 0, delta[h] = there ? stats.delta[place] : 0;
    total = total && lse[h] < math::infinity_of(0.0f);
  }
  total = __all_sync(0xffffffffu, total);
  float s[kStep / 2] = {}, dp[kStep / 2] = {}, sums[kWidth / 2];
  std::uint32_t weights[kStep / 4];
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) sums[x] = 0;
  wgmma_hold(sums);
  Turn<W::kStages> turn, last;
  if (steps.first < steps.end) await_phase(room.own_full, 0);
#pragma unroll 1
  for (int b = steps.first; b < steps.end; ++b) {
    await_phase(room.full + turn.stage, turn.parity);
    wgmma_hold(s);
    wgmma_hold(dp);
    wgmma_begin();
    multiply_rows<T, kWidth, W::kOwn, kStep>(s, q, room.step(turn.stage, 0));
    wgmma_end();
    multiply_rows<T, kWidth, W::kOwn, kStep>(dp, dy, room.step(turn.stage, 1));
    wgmma_end();
    wgmma_await<2>();  // sums of the last step
    wgmma_hold(sums);
    if (b > steps.first && threadIdx.x % 128 == 0) arrive(room.empty + last.stage);
    wgmma_await<1>();
    wgmma_hold(s);
    const int start = b * kStep, column = start + lane % 4 * 2;
    const bool whole = __all_sync(0xffffffffu, first[0] <= start && start + kStep <= end[0] &&
                                                   first[1] <= start && start + kStep <= end[1]);
    take_slopes<W>(
        s, dp, scale, whole, total,
        [&](int x) {
          const int j = column + column_of(x);
          return first[row_of(x)] <= j && j < end[row_of(x)];
        },
        [&](int x) { return lse[row_of(x)]; }, [&](int x) { return delta[row_of(x)]; },
        [&] {
          wgmma_await<0>();
          wgmma_hold(dp);
        },
        [&](int x) {
          const int h = row_of(x);
          return slope_with_options<T>(c, s[x], dp[x], lse[h], delta[h], at.n, at.head, i[h],
                                       column + column_of(x));
        });
    round_weights<T>(weights, dp);
    wgmma_hold(sums);
    wgmma_begin();
    add_rows<T, kWidth, kStep>(sums, weights, room.step(turn.stage, 0));
    wgmma_end();
    last = turn;
    turn.next();
  }
  wgmma_await<0>();
  wgmma_hold(sums);
  const bool may[2] = {true, true};
  const unsigned nan =
      store_results<T, kWidth>(c.dq, at, row, static_cast<int>(c.queries), c.width, c.packs, may,
                               room.pieces + (group * 4 + warp) * W::kPieceBytes,
                               [&](int x) { return element::result(sums[x], scale); });
  if (lane == 0) again.set(at.n * c.heads + at.head, row, nan);
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    sum_dq_warpgroups(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap dy,
                      const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v,
                      const __grid_constant__ Call c, const __grid_constant__ Stats stats,
                      const __grid_constant__ ChosenRows again) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  const BackwardRoom<W> room(shared);
  room.begin();
  let_next_begin();
  const int tiles = (static_cast<int>(c.queries) + W::kOwn - 1) / W::kOwn;
  const Where at = place_of(blockIdx.x, c.heads, tiles, true);
  const Index i = Index{at.tile} * W::kOwn;
  const Steps steps = Steps::over(keys_of(c, i), keys_of(c, min(i + W::kOwn, c.queries) - 1));
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) bring_keys<W>(q, dy, k, v, c, room, at, steps);
  } else {
    take_registers<240>();
    sum_dq<W>(c, stats, room, at, steps, again);
  }
#endif
}

// ---- dk and dv ----

// For each head of the group, steps over the queries.
template <class W>
__device__ __forceinline__ void bring_queries(const CUtensorMap& q, const CUtensorMap& dy,
                                              const CUtensorMap& k, const CUtensorMap& v,
                                              const Call& c, const Stats& stats,
                                              const BackwardRoom<W>& room, const Where& at,
                                              const Steps& steps) {
  if (steps.first >= steps.end) return;  // nobody would wait for what is brought
  expect_bytes(room.own_full, 2 * W::kOwnBytes);
  bring_tile<W::kWidth, W::kOwn>(k, room.own_full, room.own, c.k, at.tile * W::kOwn, at.head, at.n);
  bring_tile<W::kWidth, W::kOwn>(v, room.own_full, room.own + W::kOwnBytes, c.v, at.tile * W::kOwn,
                                 at.head, at.n);
  const int in_group = static_cast<int>(c.heads / c.groups);
  Turn<W::kStages> turn;
  for (int head = at.head * in_group; head < (at.head + 1) * in_group; ++head)
    for (int b = steps.first; b < steps.end; ++b, turn.next()) {
      await_phase(room.empty + turn.stage, turn.parity ^ 1);
      std::uint64_t* const full = room.full + turn.stage;
      expect_bytes(full, 2 * (W::kStepBytes + W::kStatBytes));
      bring_tile<W::kWidth, W::kStep>(q, full, room.step(turn.stage, 0), c.q, b * W::kStep, head,
                                      at.n);
      bring_tile<W::kWidth, W::kStep>(dy, full, room.step(turn.stage, 1), c.dy, b * W::kStep, head,
                                      at.n);
      const Index place = (at.n * c.heads + head) * c.delta_rows + b * W::kStep;
      copy_line(full, room.stat(turn.stage, 0), stats.lse + place, W::kStatBytes);
      copy_line(full, room.stat(turn.stage, 1), stats.delta + place, W::kStatBytes);
    }
}

// A warpgroup: dk and dv of 64 keys.
template <class W>
__device__ __forceinline__ void sum_dk_dv(const Call& c, const BackwardRoom<W>& room,
                                          const Where& at, const Steps& steps,
                                          const ChosenRows& again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kStep = W::kStep;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const int row = at.tile * W::kOwn + group * 64 + warp * 16;
  const float scale = static_cast<float>(c.scale);
  const char* const k = room.own + group * 64 * 128;
  const char* const v = k + W::kOwnBytes;
  int j[2], first[2], end[2];  // queries that see the lane's keys
  for (int h = 0; h < 2; ++h) {
    j[h] = row + lane / 4 + 8 * h;
    const Range seen = j[h] < c.keys ? queries_of(c, j[h]) : Range{0, 0};
    first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
  }
  float s[kStep / 2] = {}, dp[kStep / 2] = {}, dk[kWidth / 2], dv[kWidth / 2];
  std::uint32_t weights[kStep / 4];
#pragma unroll
  for (int x = 0; x < kWidth / 2; ++x) dk[x] = dv[x] = 0;
  const int in_group = static_cast<int>(c.heads / c.groups);
  Turn<W::kStages> turn;
  if (steps.first < steps.end) await_phase(room.own_full, 0);
  for (int head = at.head * in_group; head < (at.head + 1) * in_group; ++head)
    for (int b = steps.first; b < steps.end; ++b, turn.next()) {
      await_phase(room.full + turn.stage, turn.parity);
      wgmma_hold(s);
      wgmma_hold(dp);
      wgmma_begin();
      multiply_rows<T, kWidth, W::kOwn, kStep>(s, k, room.step(turn.stage, 0));
      wgmma_end();
      multiply_rows<T, kWidth, W::kOwn, kStep>(dp, v, room.step(turn.stage, 1));
      wgmma_end();
      wgmma_await<1>();
      wgmma_hold(s);
      const float* const lse = reinterpret_cast<const float*>(room.stat(turn.stage, 0));
      const float* const delta = reinterpret_cast<const float*>(room.stat(turn.stage, 1));
      const int start = b * kStep, column = lane % 4 * 2;
      const bool whole = __all_sync(0xffffffffu, first[0] <= start && start + kStep <= end[0] &&
                                                     first[1] <= start && start + kStep <= end[1]);
      const bool total = __all_sync(0xffffffffu, lse[lane] < math::infinity_of(0.0f) &&
                                                     lse[lane + 32] < math::infinity_of(0.0f));
      take_slopes<W>(
          s, dp, scale, whole, total,
          [&](int x) {
            const int i = start + column + column_of(x);
            return first[row_of(x)] <= i && i < end[row_of(x)];
          },
          [&](int x) { return lse[column + column_of(x)]; },
          [&](int x) { return delta[column + column_of(x)]; },
          [&] {
            wgmma_await<0>();
            wgmma_hold(dp);
          },
          [&](int x) {
            const int place = column + column_of(x);
            return slope_with_options<T>(c, s[x], dp[x], lse[place], delta[place], at.n, head,
                                         start + place, j[row_of(x)]);
          });
      round_weights<T>(weights, s);
      wgmma_hold(dv);
      wgmma_begin();
      add_rows<T, kWidth, kStep>(dv, weights, room.step(turn.stage, 1));
      wgmma_end();
      std::uint32_t slopes[kStep / 4];
      round_weights<T>(slopes, dp);
      wgmma_hold(dk);
      wgmma_begin();
      add_rows<T, kWidth, kStep>(dk, slopes, room.step(turn.stage, 0));
      wgmma_end();
      wgmma_await<0>();
      wgmma_hold(dv);
      wgmma_hold(dk);
      if (threadIdx.x % 128 == 0) arrive(room.empty + turn.stage);
    }
  const bool may[2] = {true, true};
  const float of_dv = W::kOptions && c.drops ? enlarged<float>(c) : 1.0f;
  char* const piece = room.pieces + (group * 4 + warp) * W::kPieceBytes;
  const int keys = static_cast<int>(c.keys);
  unsigned nan = store_results<T, kWidth>(c.dv, at, row, keys, c.out_width, c.packs, may, piece,
                                          [&](int x) { return element::result(dv[x], of_dv); });
  nan |= store_results<T, kWidth>(c.dk, at, row, keys, c.width, c.packs, may, piece,
                                  [&](int x) { return element::result(dk[x], scale); });
  if (lane == 0) again.set(at.n * c.groups + at.head, row, nan);
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    sum_dk_dv_warpgroups(const __grid_constant__ CUtensorMap q,
                         const __grid_constant__ CUtensorMap dy,
                         const __grid_constant__ CUtensorMap k,
                         const __grid_constant__ CUtensorMap v, const __grid_constant__ Call c,
                         const __grid_constant__ Stats stats,
                         const __grid_constant__ ChosenRows again) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  const BackwardRoom<W> room(shared);
  room.begin();
  let_next_begin();
  const int tiles = (static_cast<int>(c.keys) + W::kOwn - 1) / W::kOwn;
  const Where at = place_of(blockIdx.x, c.groups, tiles, false);
  const Index j = Index{at.tile} * W::kOwn;
  const Steps steps = Steps::over(queries_of(c, j), queries_of(c, min(j + W::kOwn, c.keys) - 1));
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) bring_queries<W>(q, dy, k, v, c, stats, room, at, steps);
  } else {
    take_registers<240>();
    sum_dk_dv<W>(c, room, at, steps, again);
  }
#endif
}

}  // namespace planck::attention_device
