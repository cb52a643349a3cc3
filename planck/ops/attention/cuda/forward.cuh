// cuda:warpgroups, forward: a block has 64 queries for each of its warpgroups, and walks over the
// keys in the definition's blocks of 128, which a warp brings through the copy engine.
//
// A warpgroup has 64 rows of scores in registers, turns them to weights there, and multiplies these
// with values without leaving registers. The product of queries with the next keys is begun before
// that of weights with values, so that tensor cores have work while scores become weights. That is
// what takes the time, not the products: about 15 instructions per score.
//
// H200, TFLOP/s, B4 H16, planck bench; in brackets without launches, in a laboratory program:
//
//                                        L1024 D64    L4096 D64   L4096 D128   causal
//   exponentials after all sums          187                      420          375
//   before sums are awaited, and a
//   select less for each score           (195)        (253)       (430)        (342 to 374)
//   a loop over tiles, where blocks
//   of narrow heads stay                 (208)        (270)       (412)        (337)
//   four running maxima per row          197 (216)    (274)       405 (410)    349 (357)
//   wide heads without the loop, rows
//   done again a bit each                205 (227)    (276)       418 (440)    371 (383)
//   largest scores by comparing bits,
//   one launch; causal tiles of narrow
//   heads dealt out (causal 122 to 156)  213 (212)    (263)       418 (454)    372 (393)
//   no scores kept between blocks, whose
//   moves were 57 of 1,150 instructions      (214)    (274)           (444)        (388)
//   what nearly always happens follows
//   one another in memory                    (218)    (276)           (465)        (403)
//
// What did not help: a third warpgroup for narrow heads, whose registers spill (167, 176),
// warpgroups that take turns (225; 285 of 4096 keys), scores of the next block in registers of
// their own, begun beside the powers of this one (176), scores of the next tile begun beside the
// last sums of this one (199), and descriptors in uniform registers, 46 instructions less but a
// shuffle (204). Of a warp's time (ncu, before the last two) a quarter issues, a fifth waits for
// results of a few cycles, and a sixth for instructions.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/attention/cuda/by_definition.cuh"
#include "planck/ops/attention/cuda/powers.cuh"

namespace planck::attention_device {

// kAhead: the product with the next keys is begun before weights are multiplied.
template <class T_, int kWidth_, bool kOptions_, bool kAhead_>
struct Forward {
  using T = T_;
  static constexpr int kWidth = kWidth_;
  static constexpr bool kOptions = kOptions_;  // masks and what else scores become
  static constexpr bool kAhead = kAhead_;
  static constexpr bool kStays = kWidth == 64;  // blocks walk over tiles
  static constexpr bool kFollows = true;
  static constexpr int kGroups = 2;  // warpgroups that compute
  static constexpr int kQueries = 64 * kGroups, kKeys = element::kBlock;
  static constexpr int kStages = kWidth == 256 ? 1 : 2, kQueryStages = kStages;
  static constexpr int kQueryBytes = kTileBytes<kWidth, kQueries>;
  static constexpr int kKeyBytes = kTileBytes<kWidth, kKeys>;
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kCluster = 1;
  static constexpr int kShared = 1024 + kQueryStages * kQueryBytes + 2 * kStages * kKeyBytes +
                                 4 * kGroups * kPieceBytes + 8 * (2 * kQueryStages + 4 * kStages);
};

// Shared memory: queries, stages of keys and of values, pieces of results, barriers.
template <class W>
struct ForwardRoom {
  char *queries, *keys, *values, *pieces;
  std::uint64_t *queries_full, *queries_empty, *keys_full, *keys_empty, *values_full, *values_empty;

  __device__ explicit ForwardRoom(char* shared) {
    queries = shared + (1024 - (shared_address(shared) & 1023)) % 1024;
    keys = queries + W::kQueryStages * W::kQueryBytes;
    values = keys + W::kStages * W::kKeyBytes;
    pieces = values + W::kStages * W::kKeyBytes;
    queries_full = reinterpret_cast<std::uint64_t*>(pieces + 4 * W::kGroups * kPieceBytes);
    queries_empty = queries_full + W::kQueryStages;
    keys_full = queries_empty + W::kQueryStages, keys_empty = keys_full + W::kStages;
    values_full = keys_empty + W::kStages, values_empty = values_full + W::kStages;
  }
  __device__ void begin() const {
    if (threadIdx.x == 0) {
      for (int s = 0; s < W::kQueryStages; ++s)
        init_barrier(queries_full + s, 1), init_barrier(queries_empty + s, W::kGroups);
      for (int s = 0; s < W::kStages; ++s) {
        init_barrier(keys_full + s, 1), init_barrier(values_full + s, 1);
        init_barrier(keys_empty + s, W::kGroups), init_barrier(values_empty + s, W::kGroups);
      }
      fence_barriers();
    }
    __syncthreads();
  }
};

// Tiles of queries, one after the other: blocks stay, and take one of every gridDim.x. Where tiles
// differ, those that see most come first, of all heads, and every other turn goes back, so that
// whoever has more in one turn has less in the next.
struct QueryTiles {
  int tiles;
  Index count;
  bool differ;

  __device__ QueryTiles(const Call& c, int rows, bool stays)
      : tiles((static_cast<int>(c.queries) + rows - 1) / rows),
        count(c.batch * c.heads * tiles),
        differ(stays && c.causal) {}
  // The number of the block's tile in a turn; past the end: no more.
  __device__ Index of_turn(int turn) const {
    const bool back = differ && turn % 2 != 0;
    return Index{turn} * gridDim.x + (back ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  }
  __device__ Where at(const Call& c, Index x) const {
    if (!differ) return place_of(x, c.heads, tiles, true);
    const int heads = static_cast<int>(c.heads), all = static_cast<int>(c.batch) * heads;
    const int tile = static_cast<int>(x) / all, head = static_cast<int>(x) % all;
    return {head / heads, head % heads, tiles - 1 - tile};
  }
};

// One thread: all that the block reads, in order.
template <class W>
__device__ __forceinline__ void bring_forward(const CUtensorMap& q, const CUtensorMap& k,
                                              const CUtensorMap& v, const Call& c,
                                              const ForwardRoom<W>& room) {
  const QueryTiles all(c, W::kQueries, W::kStays);
  Turn<W::kStages> turn;
  Turn<W::kQueryStages> mine;
  Index number;
  for (int round = 0; (number = all.of_turn(round)) < all.count; ++round, mine.next()) {
    const Where at = all.at(c, number);
    const Blocks blocks = Blocks::seen(c, Index{at.tile} * W::kQueries, W::kQueries);
    const int group = at.head / static_cast<int>(c.heads / c.groups);
    await_phase(room.queries_empty + mine.stage, mine.parity ^ 1);
    expect_bytes(room.queries_full + mine.stage, W::kQueryBytes);
    bring_tile<W::kWidth, W::kQueries>(q, room.queries_full + mine.stage,
                                       room.queries + mine.stage * W::kQueryBytes, c.q,
                                       at.tile * W::kQueries, at.head, at.n);
    for (int b = blocks.first; b < blocks.end; ++b, turn.next()) {
      const auto bring = [&](const CUtensorMap& map, const Operand& from, char* to,
                             std::uint64_t* full, std::uint64_t* empty) {
        await_phase(empty + turn.stage, turn.parity ^ 1);
        expect_bytes(full + turn.stage, W::kKeyBytes);
        bring_tile<W::kWidth, W::kKeys>(map, full + turn.stage, to + turn.stage * W::kKeyBytes,
                                        from, b * W::kKeys, group, at.n);
      };
      bring(k, c.k, room.keys, room.keys_full, room.keys_empty);
      bring(v, c.v, room.values, room.values_full, room.values_empty);
    }
    if constexpr (!W::kStays) break;
  }
}

// A warpgroup: 64 queries of every tile.
template <class W>
__device__ __forceinline__ void attend(const Call& c, const ForwardRoom<W>& room) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kKeys = W::kKeys;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const bool one = threadIdx.x % 128 == 0;  // arrives for the warpgroup
  const Scale scale(c);
  const auto release = [&](std::uint64_t* empty, int stage) {
    if (one) arrive(empty + stage);
  };
  const QueryTiles all(c, W::kQueries, W::kStays);
  Turn<W::kStages> turn;
  Turn<W::kQueryStages> mine;
  Index number;
  for (int round = 0; (number = all.of_turn(round)) < all.count; ++round, mine.next()) {
    const Where at = all.at(c, number);
    const Blocks blocks = Blocks::seen(c, Index{at.tile} * W::kQueries, W::kQueries);
    const int row = at.tile * W::kQueries + group * 64 + warp * 16;
    const char* const queries = room.queries + mine.stage * W::kQueryBytes + group * 64 * 128;
    Rows2 rows(c, row + lane / 4);
    float sums[kWidth / 2], factor[2] = {1, 1};
    std::uint32_t weights[kKeys / 4];
#pragma unroll
    for (int x = 0; x < kWidth / 2; ++x) sums[x] = 0;
    // Scores begin with each block: what is kept from one to the next is moved to its place.
    const auto begin_scores = [&](float(&s)[kKeys / 2], const Turn<W::kStages>& at_stage) {
      await_phase(room.keys_full + at_stage.stage, at_stage.parity);
      wgmma_hold(s);
      wgmma_begin();
      multiply_rows<T, kWidth, W::kQueries, kKeys>(s, queries,
                                                   room.keys + at_stage.stage * W::kKeyBytes);
      wgmma_end();
    };
    const auto begin_sums = [&](const Turn<W::kStages>& at_stage) {
      await_phase(room.values_full + at_stage.stage, at_stage.parity);
      wgmma_hold(sums);
      wgmma_begin();
      add_rows<T, kWidth, kKeys>(sums, weights, room.values + at_stage.stage * W::kKeyBytes);
      wgmma_end();
    };
    await_phase(room.queries_full + mine.stage, mine.parity);
    if constexpr (W::kAhead) {
      if (blocks.first < blocks.end) {
        float s[kKeys / 2] = {};
        begin_scores(s, turn);
        wgmma_await<0>();
        wgmma_hold(s);
        release(room.keys_empty, turn.stage);
        take_powers<W>(c, at, rows, s, blocks.first * kKeys, scale, factor);
        take_weights<W>(c, at, rows, weights, s, blocks.first * kKeys);
        for (int b = blocks.first + 1; b < blocks.end; ++b) {
          const Turn<W::kStages> last = turn;
          turn.next();
          float s[kKeys / 2] = {};
          begin_scores(s, turn);
          begin_sums(last);
          wgmma_await<1>();
          wgmma_hold(s);
          release(room.keys_empty, turn.stage);
          take_powers<W>(c, at, rows, s, b * kKeys, scale, factor);
          wgmma_await<0>();
          wgmma_hold(sums);
          release(room.values_empty, last.stage);
          rescale<kWidth>(sums, factor);
          take_weights<W>(c, at, rows, weights, s, b * kKeys);
        }
        begin_sums(turn);
        wgmma_await<0>();
        wgmma_hold(sums);
        release(room.values_empty, turn.stage);
        turn.next();
      }
    } else {
      for (int b = blocks.first; b < blocks.end; ++b, turn.next()) {
        float s[kKeys / 2] = {};
        begin_scores(s, turn);
        wgmma_await<0>();
        wgmma_hold(s);
        release(room.keys_empty, turn.stage);
        take_powers<W>(c, at, rows, s, b * kKeys, scale, factor);
        rescale<kWidth>(sums, factor);
        take_weights<W>(c, at, rows, weights, s, b * kKeys);
        begin_sums(turn);
        wgmma_await<0>();
        wgmma_hold(sums);
        release(room.values_empty, turn.stage);
      }
    }
    release(room.queries_empty, mine.stage);

    char* const piece = room.pieces + (group * 4 + warp) * kPieceBytes;
    if (const unsigned nan = finish_rows<W>(c, at, rows, row, sums, piece); nan != 0) {
      __syncwarp();
      attend_chosen<T>(c, at.n, at.head, row, nan, piece);
      __syncwarp();
    }
    if constexpr (!W::kStays) break;
  }
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    attend_warpgroups(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                      const __grid_constant__ CUtensorMap v, const __grid_constant__ Call c) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  const ForwardRoom<W> room(shared);
  if (threadIdx.x == 0) prefetch_map(q), prefetch_map(k), prefetch_map(v);
  room.begin();
  follow();
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) bring_forward<W>(q, k, v, c, room);
  } else {
    take_registers<240>();
    attend<W>(c, room);
  }
#endif
}

}  // namespace planck::attention_device
