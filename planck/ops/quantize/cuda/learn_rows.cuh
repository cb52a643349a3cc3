// Learned scales of groups that lie one after another in memory, with few instructions beyond the
// elements' own: threads hold so little that many fit a multiprocessor, and each starts anew.
//
// Groups of 2^k runs share a block; a longer group is a sequence of chunks of one block each.
#pragma once

#include <bit>

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/quantize/cuda/learn.cuh"

namespace planck::quantize_device {

inline constexpr int kRowThreads = 256;

template <class T>
struct LearnRows {
  static constexpr int R = 16 / static_cast<int>(sizeof(T));  // elements per run
  static constexpr int kRuns = sizeof(T) == 2 ? 4 : 2;        // per thread
  static constexpr int kLog2Block = sizeof(T) == 2 ? 10 : 9;  // runs per block
  static constexpr int kBlockRuns = kRowThreads * kRuns;
  static_assert(1 << kLog2Block == kBlockRuns);

  std::int64_t groups = 0, runs = 0;  // runs per group
  std::int64_t chunks = 1;            // per group
  int log2_team = 0;                  // where blocks have several groups
  Divisor chunks_divisor;

  // Long groups: if there are so many that a second launch, for the sums of chunks, costs little.
  static bool fits(std::int64_t groups, std::int64_t runs) {
    if (runs > kBlockRuns)
      return groups * runs >= 1 << 18 && groups * ceil_div(runs, kBlockRuns) < kDivisorLimit;
    return runs >= 2 * kRuns && std::has_single_bit(static_cast<std::uint64_t>(runs));
  }
  static LearnRows make(std::int64_t groups, std::int64_t runs) {
    LearnRows r;
    r.groups = groups;
    r.runs = runs;
    r.chunks = ceil_div(runs, kBlockRuns);
    r.log2_team = std::countr_zero(static_cast<std::uint64_t>(runs));
    r.chunks_divisor = Divisor(static_cast<std::uint32_t>(r.chunks));
    return r;
  }
  bool one() const { return runs >= kBlockRuns; }  // one group per block
  std::int64_t blocks() const {
    return one() ? groups * chunks : ceil_div(groups * runs, kBlockRuns);
  }
};

// kOne: a block has members of one group.
template <class T, bool kOne>
__global__ void __launch_bounds__(kRowThreads, sizeof(T) == 4 || (kOne && sizeof(T) == 2) ? 4 : 3)
    learn_rows_kernel(const __grid_constant__ LearnArguments<T, true> args,
                      const __grid_constant__ LearnRows<T> map) {
  using C = Compute<T>;
  constexpr int R = LearnRows<T>::R, K = LearnRows<T>::kRuns, kBytes = 16;
  constexpr int kBlockRuns = LearnRows<T>::kBlockRuns;
  __shared__ Two<C> shared[kRowThreads / 32];
  follow();
  const int first = static_cast<int>(threadIdx.x / 32 * (32 * K) + threadIdx.x % 32);
  // The block's first group, chunk and run, and how many runs it has.
  std::int64_t group, chunk = 0, origin, rest;
  if (kOne) {
    group = map.chunks_divisor.quotient(blockIdx.x);
    chunk = blockIdx.x - group * map.chunks;
    origin = group * map.runs + chunk * kBlockRuns;
    rest = map.runs - chunk * kBlockRuns;
  } else {
    origin = static_cast<std::int64_t>(blockIdx.x) * kBlockRuns;
    group = origin >> map.log2_team;
    rest = map.groups * map.runs - origin;
  }
  const int left = static_cast<int>(min(rest, std::int64_t{kBlockRuns}));
  const auto valid = [&](int k) { return first + 32 * k < left; };
  const auto group_of = [&](int k) { return kOne ? 0 : (first + 32 * k) >> map.log2_team; };
  const std::int64_t offset = (origin + first) * kBytes;
  const char* dy_at = static_cast<const char*>(args.dy) + offset;
  const char* x_at = static_cast<const char*>(args.x) + offset;
  char* dx_at = static_cast<char*>(args.dx) + offset;
  RunPack<T, R> x[K], dy[K];
  StoredGroup<T> stored[K];
#pragma unroll
  for (int k = 0; k < K; ++k) {
    if (!valid(k)) continue;
    dy[k] = load_pack<kBytes, false>(dy_at, 32 * k);
    x[k] = load_pack<kBytes, false>(x_at, 32 * k);
    if (k == 0 || !kOne) stored[k] = load_stored(args, group + group_of(k));
  }
  Two<C> sums[K];
  Cell<T> cell;
#pragma unroll
  for (int k = 0; k < K; ++k) {
    sums[k] = {kNothing<C>, kNothing<C>};
    if (!valid(k)) continue;
    if (k == 0 || !kOne) cell = learn_cell(stored[k], args.grid);
    LearnedRun<T, R> run;
    learn_run<T, R>(x[k], dy[k], cell, args.grid, run);
    store_pack<false>(dx_at, 32 * k, run.dx);
    sums[k] = run.sum();
  }
  team_sum(sums, kOne ? LearnRows<T>::kLog2Block : map.log2_team, shared,
           [&](int k, bool second, C sum) {
             if (kOne || valid(k))
               store_sum(args, map.chunks, group + group_of(k), chunk, second, sum);
           });
}

}  // namespace planck::quantize_device
