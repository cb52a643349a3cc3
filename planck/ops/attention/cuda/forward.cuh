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
//
// Wide heads lost when the loop over tiles came, though each of their blocks has one: to be tried
// without it.
#pragma once

#include "planck/ops/attention/cuda/options.cuh"
#include "planck/ops/attention/cuda/tiles.cuh"

namespace planck::attention_device {

// kAhead: the product with the next keys is begun before weights are multiplied.
template <class T_, int kWidth_, bool kOptions_, bool kAhead_>
struct Forward {
  using T = T_;
  static constexpr int kWidth = kWidth_;
  static constexpr bool kOptions = kOptions_;  // masks and what else scores become
  static constexpr bool kAhead = kAhead_;
  static constexpr bool kStays = kWidth == 64;          // blocks walk over tiles
  static constexpr int kGroups = kWidth == 64 ? 3 : 2;  // warpgroups that compute
  static constexpr int kRegisters = kGroups == 3 ? 160 : 240;
  static constexpr int kQueries = 64 * kGroups, kKeys = element::kBlock;
  static constexpr int kStages = kWidth == 256 ? 1 : 2, kQueryStages = kStages;
  static constexpr int kQueryBytes = kTileBytes<kWidth, kQueries>;
  static constexpr int kKeyBytes = kTileBytes<kWidth, kKeys>;
  static constexpr int kPieceBytes = 16 * 160;
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
    queries_full = reinterpret_cast<std::uint64_t*>(pieces + 4 * W::kGroups * W::kPieceBytes);
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

// Tiles of queries, one after the other: blocks stay, and take every gridDim.x-th. Of each, the
// blocks of keys that somebody sees.
struct QueryTiles {
  int tiles;
  Index count;

  __device__ QueryTiles(const Call& c, int rows)
      : tiles((static_cast<int>(c.queries) + rows - 1) / rows), count(c.batch * c.heads * tiles) {}
  __device__ Where at(const Call& c, Index x) const { return place_of(x, c.heads, tiles, true); }
};
struct Blocks {
  int first, end;

  __device__ static Blocks seen(const Call& c, const Where& at, int rows) {
    const Index i = Index{at.tile} * rows;
    const Range low = keys_of(c, i), high = keys_of(c, min(i + rows, c.queries) - 1);
    return {static_cast<int>(low.first) / element::kBlock,
            (static_cast<int>(high.end) + element::kBlock - 1) / element::kBlock};
  }
};

// One thread: all that the block reads, in order.
template <class W>
__device__ __forceinline__ void bring_forward(const CUtensorMap& q, const CUtensorMap& k,
                                              const CUtensorMap& v, const Call& c,
                                              const ForwardRoom<W>& room) {
  const QueryTiles all(c, W::kQueries);
  Turn<W::kStages> turn;
  Turn<W::kQueryStages> mine;
  for (Index x = blockIdx.x; x < all.count; x += gridDim.x, mine.next()) {
    const Where at = all.at(c, x);
    const Blocks blocks = Blocks::seen(c, at, W::kQueries);
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

// What a lane knows of its two rows.
struct Rows2 {
  int i[2];
  int first[2], end[2];  // keys that they see
  float largest[2];
  float sums[2][2];  // of powers: of the keys' eight, the two of this lane

  __device__ Rows2(const Call& c, int row) {
    const float hidden = -math::infinity_of(0.0f);
    for (int h = 0; h < 2; ++h) {
      i[h] = row + 8 * h;
      const Range seen = i[h] < c.queries ? keys_of(c, i[h]) : Range{0, 0};
      first[h] = static_cast<int>(seen.first), end[h] = static_cast<int>(seen.end);
      largest[h] = hidden, sums[h][0] = sums[h][1] = 0;
    }
  }
  __device__ bool see_all(int from, int to) const {
    const bool all = first[0] <= from && to <= end[0] && first[1] <= from && to <= end[1];
    return __all_sync(0xffffffffu, all);
  }
};

// Largest scores of all lanes that share a row; what earlier sums are multiplied with.
__device__ __forceinline__ void meet(Rows2& rows, float (&largest)[2], float (&factor)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    for (int by = 1; by < 4; by *= 2)
      largest[h] = larger_or_nan(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], by));
    factor[h] = element::power(rows.largest[h] - largest[h]);
    rows.largest[h] = largest[h];
    rows.sums[h][0] *= factor[h], rows.sums[h][1] *= factor[h];
  }
}

// Scores of a block of keys become powers, s in place.
template <class W>
__device__ __forceinline__ void take_powers_of_some(const Call& c, const Where& at, Rows2& rows,
                                                    float (&s)[W::kKeys / 2], int start,
                                                    float scale, float (&factor)[2]) {
  const float hidden = -math::infinity_of(0.0f);
  const int column = start + static_cast<int>(threadIdx.x) % 4 * 2;
  float largest[2] = {rows.largest[0], rows.largest[1]};
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), j = column + column_of(x);
    const bool sees = rows.first[h] <= j && j < rows.end[h];
    if constexpr (W::kOptions)
      s[x] =
          sees ? score_with_options<typename W::T>(c, s[x], at.n, at.head, rows.i[h], j) : hidden;
    else
      s[x] = sees ? element::score(s[x], scale) : hidden;
    largest[h] = larger_or_nan(largest[h], s[x]);
  }
  meet(rows, largest, factor);
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    s[x] = element::power(s[x] - largest[row_of(x)]);
    rows.sums[row_of(x)][x % 2] += s[x];
  }
}

// The same of a block that all rows see, with scale > 0 and no score so low that its power is 0: if
// so, two instructions fewer for each. A scale that is a power of two multiplies without rounding,
// which a fused multiply-add does as well. Products with a positive scale keep the order of sums.
template <class W>
__device__ __forceinline__ bool take_powers_of_all(Rows2& rows, float (&s)[W::kKeys / 2],
                                                   float scale, bool rounds, float (&factor)[2]) {
  constexpr int kChains = 4;  // of each row, so that comparisons do not wait for one another
  float most[2][kChains], least[2][kChains], largest[2];
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) {
    const int h = row_of(x), chain = (x / 4 + x % 2 * 2) % kChains;
    most[h][chain] = x < 8 ? s[x] : fmaxf(most[h][chain], s[x]);
    least[h][chain] = x < 8 ? s[x] : smaller_or_nan(least[h][chain], s[x]);
  }
  bool near = true;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float low = smaller_or_nan(smaller_or_nan(least[h][0], least[h][1]),
                               smaller_or_nan(least[h][2], least[h][3]));
    largest[h] = fmaxf(fmaxf(most[h][0], most[h][1]), fmaxf(most[h][2], most[h][3]));
    for (int by = 1; by < 4; by *= 2)
      largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], by));
    largest[h] = larger_or_nan(rows.largest[h], element::score(largest[h], scale));
    near = near && element::score(low, scale) - largest[h] >= -math::kTermNear;
  }
  if (!__all_sync(0xffffffffu, near)) return false;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    factor[h] = element::power(rows.largest[h] - largest[h]);
    rows.largest[h] = largest[h];
    rows.sums[h][0] *= factor[h], rows.sums[h][1] *= factor[h];
  }
  if (rounds) {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x)
      s[x] = math::exp_term_near(element::score(s[x], scale) - largest[row_of(x)]);
  } else {
#pragma unroll
    for (int x = 0; x < W::kKeys / 2; ++x)
      s[x] = math::exp_term_near(math::fma_of(s[x], scale, -largest[row_of(x)]));
  }
#pragma unroll
  for (int x = 0; x < W::kKeys / 2; ++x) rows.sums[row_of(x)][x % 2] += s[x];
  return true;
}

template <class W>
__device__ __forceinline__ void take_powers(const Call& c, const Where& at, Rows2& rows,
                                            float (&s)[W::kKeys / 2], int start, float scale,
                                            bool rounds, float (&factor)[2]) {
  const bool fast = !W::kOptions && scale > 0 && rows.see_all(start, start + W::kKeys) &&
                    take_powers_of_all<W>(rows, s, scale, rounds, factor);
  if (!fast) take_powers_of_some<W>(c, at, rows, s, start, scale, factor);
  wgmma_hold(s);  // done before anything is awaited
}

template <class W>
__device__ __forceinline__ void take_weights(const Call& c, const Where& at, const Rows2& rows,
                                             std::uint32_t (&weights)[W::kKeys / 4],
                                             float (&s)[W::kKeys / 2], int start) {
  if constexpr (W::kOptions)
    if (c.drops)
#pragma unroll
      for (int x = 0; x < W::kKeys / 2; ++x)
        if (const int j = start + static_cast<int>(threadIdx.x) % 4 * 2 + column_of(x);
            !stays(c, at.n, at.head, rows.i[row_of(x)], j))
          s[x] = 0;
  round_weights<typename W::T>(weights, s);
}

// A warpgroup: 64 queries of every tile.
template <class W>
__device__ __forceinline__ void attend(const Call& c, const ForwardRoom<W>& room,
                                       const ChosenRows& again) {
  using T = typename W::T;
  constexpr int kWidth = W::kWidth, kKeys = W::kKeys;
  const int group = static_cast<int>(threadIdx.x) / 128 - 1;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4,
            lane = static_cast<int>(threadIdx.x) % 32;
  const bool one = threadIdx.x % 128 == 0;  // arrives for the warpgroup
  const float scale = static_cast<float>(c.scale);
  const bool rounds = (__float_as_uint(scale) & 0x7fffffu) != 0;
  const auto release = [&](std::uint64_t* empty, int stage) {
    if (one) arrive(empty + stage);
  };
  const QueryTiles all(c, W::kQueries);
  Turn<W::kStages> turn;
  Turn<W::kQueryStages> mine;
  for (Index tile = blockIdx.x; tile < all.count; tile += gridDim.x, mine.next()) {
    const Where at = all.at(c, tile);
    const Blocks blocks = Blocks::seen(c, at, W::kQueries);
    const int row = at.tile * W::kQueries + group * 64 + warp * 16;
    const char* const queries = room.queries + mine.stage * W::kQueryBytes + group * 64 * 128;
    Rows2 rows(c, row + lane / 4);
    float s[kKeys / 2] = {}, sums[kWidth / 2], factor[2] = {1, 1};
    std::uint32_t weights[kKeys / 4];
#pragma unroll
    for (int x = 0; x < kWidth / 2; ++x) sums[x] = 0;
    const auto begin_scores = [&](const Turn<W::kStages>& at_stage) {
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
    const auto rescale = [&] {
      if (__any_sync(0xffffffffu, factor[0] != 1.0f || factor[1] != 1.0f))
#pragma unroll
        for (int x = 0; x < kWidth / 2; ++x) sums[x] *= factor[row_of(x)];
    };
    await_phase(room.queries_full + mine.stage, mine.parity);
    if constexpr (W::kAhead) {
      if (blocks.first < blocks.end) {
        begin_scores(turn);
        wgmma_await<0>();
        wgmma_hold(s);
        release(room.keys_empty, turn.stage);
        take_powers<W>(c, at, rows, s, blocks.first * kKeys, scale, rounds, factor);
        take_weights<W>(c, at, rows, weights, s, blocks.first * kKeys);
        for (int b = blocks.first + 1; b < blocks.end; ++b) {
          const Turn<W::kStages> last = turn;
          turn.next();
          begin_scores(turn);
          begin_sums(last);
          wgmma_await<1>();
          wgmma_hold(s);
          release(room.keys_empty, turn.stage);
          take_powers<W>(c, at, rows, s, b * kKeys, scale, rounds, factor);
          wgmma_await<0>();
          wgmma_hold(sums);
          release(room.values_empty, last.stage);
          rescale();
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
        begin_scores(turn);
        wgmma_await<0>();
        wgmma_hold(s);
        release(room.keys_empty, turn.stage);
        take_powers<W>(c, at, rows, s, b * kKeys, scale, rounds, factor);
        rescale();
        take_weights<W>(c, at, rows, weights, s, b * kKeys);
        begin_sums(turn);
        wgmma_await<0>();
        wgmma_hold(sums);
        release(room.values_empty, turn.stage);
      }
    }
    release(room.queries_empty, mine.stage);

    float of_row[2];
    bool may[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float l = rows.sums[h][0] + rows.sums[h][1];
      for (int by = 1; by < 4; by *= 2) l += __shfl_xor_sync(0xffffffffu, l, by);
      const float m = rows.largest[h];
      of_row[h] = element::row_factor(m, l);
      if (W::kOptions && c.drops) of_row[h] *= enlarged<float>(c);
      may[h] = m < math::infinity_of(0.0f);
      if (lane % 4 == 0 && rows.i[h] < c.queries)
        *const_cast<float*>(at_row<float>(c.lse, at.n, at.head, rows.i[h])) =
            element::log_sum_exp(m, l);
    }
    const unsigned nan = store_results<T, kWidth>(
        c.y, at, row, static_cast<int>(c.queries), c.out_width, c.packs, may,
        room.pieces + (group * 4 + warp) * W::kPieceBytes,
        [&](int x) { return element::result(sums[x], of_row[row_of(x)]); });
    if (lane == 0) again.set(at.n * c.heads + at.head, row, nan);
    if constexpr (!W::kStays) break;
  }
}

template <class W>
__global__ void __launch_bounds__(W::kThreads, 1)
    attend_warpgroups(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k,
                      const __grid_constant__ CUtensorMap v, const __grid_constant__ Call c,
                      const __grid_constant__ ChosenRows again) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char shared[];
  const ForwardRoom<W> room(shared);
  room.begin();
  let_next_begin();
  if (threadIdx.x < 128) {
    leave_registers<24>();
    if (threadIdx.x == 0) bring_forward<W>(q, k, v, c, room);
  } else {
    take_registers<W::kRegisters>();
    attend<W>(c, room, again);
  }
#endif
}

}  // namespace planck::attention_device
