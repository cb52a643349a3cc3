// Reductions over groups of any size on the device: teams of runs.
//
// A thread holds kTeamRuns runs of consecutive elements, 32 apart: run v of a block is run
// (v / 32) % 4 of lane v % 32 of warp v / 128. A team is 2^k consecutive runs, aligned at their
// number: part of a warp's lanes, a warp, or up to a block. Each group is a team, padded, or, where
// it is longer than a block, a sequence of teams called chunks.
//
// Combining lanes first (1, 2, 4, …), then a thread's runs, then warps follows a binary tree over
// the run number, aligned at powers of two. With −0 for padding (x + −0 is x, for every x) a sum is
// therefore the canonical pairwise one, whatever the size of team, chunk or block.
#pragma once

#include <cstdint>

#include "planck/loops/cuda/division.cuh"

namespace planck {

inline constexpr int kTeamRuns = 4;

struct TeamMap {
  std::int64_t groups = 0, runs = 0;  // runs of a group
  std::int64_t chunks = 1;            // teams of a group
  int log2_team = 0;
  bool small = true;  // all teams have 31-bit numbers
  Divisor chunks_divisor;

  // The smallest team that holds a group, at most a block of `threads`, at least 2^least runs.
  static TeamMap make(std::int64_t groups, std::int64_t runs, int threads, int least = 0) {
    TeamMap m;
    m.groups = groups;
    m.runs = runs;
    m.log2_team = least;
    const std::int64_t most = static_cast<std::int64_t>(threads) * kTeamRuns;
    while ((std::int64_t{1} << m.log2_team) < runs && (std::int64_t{1} << m.log2_team) < most)
      ++m.log2_team;
    const std::int64_t team = std::int64_t{1} << m.log2_team;
    m.chunks = runs > team ? (runs + team - 1) / team : 1;
    m.small = groups * m.chunks < kDivisorLimit;
    if (m.small) m.chunks_divisor = Divisor(static_cast<std::uint32_t>(m.chunks));
    return m;
  }
  std::int64_t blocks(int threads) const {
    const std::int64_t teams = (static_cast<std::int64_t>(threads) * kTeamRuns) >> log2_team;
    return (groups * chunks + teams - 1) / teams;
  }
};

// Where the runs of this thread belong: 32-bit numbers within the block, from a common origin.
struct TeamThread {
  std::int64_t origin_group, origin_run, chunk;
  std::uint32_t groups, runs;  // from the origin on, at most what a block can reach
  std::uint32_t first, mask;   // the thread's first run of the block; runs of a team − 1
  int log2_team;

  __device__ __forceinline__ explicit TeamThread(const TeamMap& m) : log2_team(m.log2_team) {
    first = threadIdx.x / 32 * (32 * kTeamRuns) + threadIdx.x % 32;
    mask = (1u << log2_team) - 1;
    chunk = 0;
    if (m.chunks == 1) {
      origin_group =
          static_cast<std::int64_t>(blockIdx.x) * ((blockDim.x * kTeamRuns) >> log2_team);
    } else {  // a team is a block
      origin_group = m.small ? m.chunks_divisor.quotient(blockIdx.x) : blockIdx.x / m.chunks;
      chunk = blockIdx.x - origin_group * m.chunks;
    }
    origin_run = chunk << log2_team;
    groups = static_cast<std::uint32_t>(min(m.groups - origin_group, std::int64_t{1} << 20));
    runs = static_cast<std::uint32_t>(min(m.runs - origin_run, std::int64_t{1} << 20));
  }
  __device__ __forceinline__ std::uint32_t group(int k) const {
    return (first + k * 32) >> log2_team;
  }
  __device__ __forceinline__ std::uint32_t run(int k) const { return (first + k * 32) & mask; }
  __device__ __forceinline__ bool valid(int k) const { return group(k) < groups && run(k) < runs; }
  // The first run of its team.
  __device__ __forceinline__ bool leads(int k) const { return run(k) == 0 && group(k) < groups; }
};

// Two values reduced at once.
template <class C>
struct Two {
  C first, second;
};

template <class C>
__device__ __forceinline__ Two<C> shuffle_xor(const Two<C>& v, int lanes) {
  return {__shfl_xor_sync(~0u, v.first, lanes), __shfl_xor_sync(~0u, v.second, lanes)};
}

// Gives each run the result of its team. Every thread of the block must call; shared: one entry
// per warp. combine must be commutative.
template <class C, class Combine>
__device__ __forceinline__ void team_reduce(Two<C> (&v)[kTeamRuns], int log2_team, Two<C>* shared,
                                            const Combine& combine) {
  const int lane_levels = log2_team < 5 ? log2_team : 5;
#pragma unroll 1
  for (int level = 0; level < lane_levels; ++level)
#pragma unroll
    for (int k = 0; k < kTeamRuns; ++k) v[k] = combine(v[k], shuffle_xor(v[k], 1 << level));
  if (log2_team >= 6) {
    v[0] = v[1] = combine(v[0], v[1]);
    v[2] = v[3] = combine(v[2], v[3]);
  }
  if (log2_team >= 7) v[0] = v[1] = v[2] = v[3] = combine(v[0], v[2]);
  if (log2_team > 7) {
    const int warps = 1 << (log2_team - 7), warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 0) shared[warp] = v[0];
    __syncthreads();
    Two<C> t = shared[(warp & ~(warps - 1)) + (threadIdx.x & (warps - 1))];
#pragma unroll 1
    for (int lanes = 1; lanes < warps; lanes <<= 1) t = combine(t, shuffle_xor(t, lanes));
    v[0] = v[1] = v[2] = v[3] = t;
  }
}

// What combines sums: −0 where there is nothing to add.
template <class C>
struct AddTwo {
  __device__ __forceinline__ Two<C> operator()(const Two<C>& a, const Two<C>& b) const {
    return {a.first + b.first, a.second + b.second};
  }
};
template <class C>
inline constexpr C kNothing = C(-0.0);

// Adds two registers of this lane to two of the lane across bit `bit`: the lane keeps one sum,
// whose operands are `mine` of both lanes.
template <class C>
__device__ __forceinline__ C exchange_add(C mine_if_low, C mine_if_high, int bit) {
  const bool high = (threadIdx.x & bit) != 0;
  const C sent = high ? mine_if_low : mine_if_high;
  const C kept = high ? mine_if_high : mine_if_low;
  return kept + __shfl_xor_sync(~0u, sent, bit);
}

// Sums of teams, as trees over their runs. Calls store(k, second, sum) once for each team and each
// of the two sums, from some thread of the team whose run k belongs to it. Every thread of the
// block must call; shared: one entry per warp. At each level of the tree a lane hands half of what
// it holds to its partner: 9 shuffles for 4 runs instead of 40.
template <int kRuns, class C, class Store>
__device__ __forceinline__ void team_sum(const Two<C> (&v)[kRuns], int log2_team, Two<C>* shared,
                                         const Store& store) {
  static_assert(kRuns == 2 || kRuns == 4);
  constexpr int kHalf = kRuns / 2, kExchanges = kRuns == 4 ? 3 : 2, kWarpLevel = 4 + kExchanges;
  const unsigned lane = threadIdx.x % 32;
  const bool second = lane & 1;            // which of the two sums this lane goes on with
  const int later = lane & 2 ? kHalf : 0;  // with those of the first runs, or of the others
  C one[kRuns], two[kHalf];
#pragma unroll
  for (int k = 0; k < kRuns; ++k) one[k] = exchange_add(v[k].first, v[k].second, 1);
#pragma unroll
  for (int k = 0; k < kHalf; ++k) two[k] = exchange_add(one[k], one[k + kHalf], 2);
  if (log2_team < kExchanges) {  // several sums per lane; rolled, since store() is inlined
#pragma unroll 1
    for (int i = 0; i < (2 * kRuns) >> log2_team; ++i) {
      const int k = log2_team == 0 ? i / 2 : log2_team == 1 ? i : later + i;
      C sum = two[0];
#pragma unroll
      for (int j = 0; j < kRuns; ++j) {
        if (log2_team == 2 && j < kHalf && i == j) sum = two[j];
        if (log2_team == 1 && i == j) sum = one[j];
        if (log2_team == 0 && i == 2 * j) sum = v[j].first;
        if (log2_team == 0 && i == 2 * j + 1) sum = v[j].second;
      }
      store(k, log2_team == 0 ? i % 2 == 1 : second, sum);
    }
    return;
  }
  C sum = two[0];
  int k = later;
  if constexpr (kRuns == 4) {
    sum = exchange_add(two[0], two[1], 4);
    k += lane & 4 ? 1 : 0;
  }
  bool leads = (lane & ((1u << log2_team) - 1)) < 2 * kRuns;
#pragma unroll
  for (int bit = 2 * kRuns; bit < 32; bit *= 2)
    if (bit < 1 << log2_team) sum += __shfl_xor_sync(~0u, sum, bit);
  if (log2_team > 5) {
    sum += __shfl_xor_sync(~0u, sum, kRuns);  // neighbouring runs of a thread
    k = kRuns == 4 ? later : 0;
    leads = lane < kRuns;
  }
  if (kRuns == 4 && log2_team > 6) {
    sum += __shfl_xor_sync(~0u, sum, 2);
    k = 0;
    leads = lane < 2;
  }
  if (log2_team > kWarpLevel) {
    const unsigned warp = threadIdx.x / 32, warps = 1u << (log2_team - kWarpLevel);
    C* sums = reinterpret_cast<C*>(shared);
    if (lane < 2) sums[2 * warp + lane] = sum;
    __syncthreads();
    sum = sums[2 * ((warp & ~(warps - 1)) + ((lane >> 1) & (warps - 1))) + (lane & 1)];
    for (unsigned bit = 2; bit < 2 * warps; bit *= 2) sum += __shfl_xor_sync(~0u, sum, bit);
    leads = lane < 2 && (warp & (warps - 1)) == 0;
  }
  if (leads) store(k, second, sum);
}

// ---- columns ---------------------------------------------------------------------------

// Groups that are columns: a thread holds one run of columns over kSlotRows rows. A block has
// kColumnThreads threads, or another power of two, `width` (a power of two) side by side, the
// others below: chunks of slots · kSlotRows rows.
inline constexpr int kColumnThreads = 256, kSlotRows = 32;

struct ColumnSlots {
  std::int64_t rows = 0, runs = 0, tiles = 0, chunks = 0;  // tiles of columns, chunks of rows
  int width = 1, slots = 1;

  static ColumnSlots make(std::int64_t rows, std::int64_t runs, int threads = kColumnThreads) {
    ColumnSlots s;
    s.rows = rows;
    s.runs = runs;
    while (s.width < 32 && s.width < runs) s.width *= 2;
    s.slots = threads / s.width;
    s.tiles = (runs + s.width - 1) / s.width;
    s.chunks = (rows + s.slots * kSlotRows - 1) / (s.slots * kSlotRows);
    return s;
  }
};

// Combines what the slots of a block hold for each of `columns` columns, in a tree over slots:
// values[slot · columns + column], results in slot 0.
template <class C, class Combine>
__device__ __forceinline__ void reduce_slots(Two<C>* values, int columns, int slots,
                                             const Combine& combine) {
  for (int half = 1; half < slots; half *= 2) {
    __syncthreads();
    const int pairs = slots / (2 * half) * columns;
    for (int i = static_cast<int>(threadIdx.x); i < pairs; i += static_cast<int>(blockDim.x)) {
      const int slot = i / columns * (2 * half), column = i % columns;
      Two<C>& left = values[slot * columns + column];
      left = combine(left, values[(slot + half) * columns + column]);
    }
  }
  __syncthreads();
}

}  // namespace planck
