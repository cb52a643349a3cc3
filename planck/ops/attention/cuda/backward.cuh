// cuda:warpgroups, backward: one kernel for dq, whose blocks own queries and walk over keys, and
// one for dk and dv, whose blocks own keys and walk over the queries of all heads of the group.
// Each sum has one order and one owner, so scores are computed twice: seven products where five
// would do, and no atomics.
//
// dk and dv have scores the other way round, keys down and queries across, so that weights are
// factors of the next product without leaving registers.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/attention/cuda/slopes.cuh"

namespace planck::attention_device {

template <class T_, int kWidth_, bool kOptions_>
struct Backward {
  using T = T_;
  static constexpr int kWidth = kWidth_;
  static constexpr bool kOptions = kOptions_;
  static constexpr int kGroups = 2, kOwn = 64 * kGroups, kStep = 64;  // rows owned, and of a step
  static constexpr int kStages = kWidth == 64 ? 4 : 3;
  static constexpr int kOwnBytes = kTileBytes<kWidth, kOwn>;
  static constexpr int kStepBytes = kTileBytes<kWidth, kStep>;
  static constexpr int kStatBytes = kStep * 4;
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
    own_full = reinterpret_cast<std::uint64_t*>(pieces + 4 * W::kGroups * kPieceBytes);
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
  const char* const q = room.own + group * 64 * 128;
  const char* const dy = q + W::kOwnBytes;
  const OwnQueries own(c, stats, at, row + lane / 4);
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
    own.take_slopes<W>(c, at, s, dp, b * kStep, [&] {
      wgmma_await<0>();
      wgmma_hold(dp);
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
  finish_dq<W>(c, at, row, sums, room.pieces + (group * 4 + warp) * kPieceBytes, again);
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
  const char* const k = room.own + group * 64 * 128;
  const char* const v = k + W::kOwnBytes;
  const OwnKeys own(c, row + lane / 4);
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
      own.take_slopes<W>(c, at, head, room.stat(turn.stage, 0), room.stat(turn.stage, 1), s, dp,
                         b * kStep, [&] {
                           wgmma_await<0>();
                           wgmma_hold(dp);
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
  finish_dk_dv<W>(c, at, row, dk, dv, room.pieces + (group * 4 + warp) * kPieceBytes, again);
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
