// var and logsumexp of groups side by side, in chunks of 512 (reduce.math.h).
//
// A CUDA block has a tile of 512 rows of 128 bytes, which come side by side to shared memory, and a
// warp takes 16 bytes of it, 16 rows per thread in registers, while the next 512 rows are under
// way: no warp waits for another but where the tile changes. It leaves nodes of its columns and
// joins them at the end. Short columns are several per warp.
//
// On an H200, f32 [8192, 8192], where reading takes 64.5 us; us:                  var   logsumexp
//   clusters of blocks hold 8,192 rows, the parameter of all first                 76          93
//   512 rows in registers, a launch for each tile                                  85         104
//   all rows of 128 bytes to a CUDA block, the next 512 under way                  76          79
//   one barrier for the parameter instead of two                                   71          77
//   a warp has all rows of its columns: no barrier for the parameter               70          76
//   terms instead of exponentials; `planck bench`, where reading takes 59          66          71
// Tried, no faster: lines of 64 bytes (96, 110); 8 rows per thread, or 8 bytes, and twice as many
// threads (73, 81); the tile read from shared memory twice instead of held, three blocks per SM
// (73, 88); 1.5 tiles under way; places of 16 bytes that are not a row's in shared memory (143).
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/reduce/cuda/stats_slots.cuh"

namespace planck::reduce_device {

// Where the 16 bytes of a row and a slot lie in shared memory: row by row, in an order that keeps
// threads which read a slot, 16 rows each, off one another's banks.
__device__ __forceinline__ int row_place(int slot, int row, int log2_slots) {
  return (row << log2_slots) + (slot ^ (row / 16 & 7));
}
inline constexpr int kStatBytes = kStatThreads * kStatRows * 16;

template <class T, bool kVar, bool kPacks>
__global__ void __launch_bounds__(kStatThreads, 2) stat_columns(const StatColumns<T> a) {
  using C = Compute<T>;
  using First = std::conditional_t<kVar, rm::Add, Larger>;
  constexpr int kThreads = kStatThreads, kRows = kStatRows, kColumns = kRunOf<T>;
  extern __shared__ __align__(128) uint4 tile[];
  __shared__ StoredNode<C> nodes[kColumnWarps][kStatTurns][kColumns];
  follow();
  const int t = static_cast<int>(threadIdx.x), lane = t % 32;
  const int log2_slots = 8 - a.log2_lanes;
  static_assert(kThreads == 1 << 8);
  const int limit = static_cast<int>(min((a.length + kChunk - 1) / kChunk, std::int64_t{a.turns}));

  // Rows are loaded side by side, ...
  const int from_slot = t & ((1 << log2_slots) - 1), from_row = t >> log2_slots;
  int from_rest;
  const T* next;
  {
    const StatSlot from(a, from_slot);
    from_rest = from.rest(a);
    next = from.base(a) + a.reduced.start + (from.first(a) + from_row) * a.reduced.stride[0];
  }
  const int step = static_cast<int>(a.reduced.stride[0]) * (kThreads >> log2_slots);
  const unsigned address = shared_address(tile + row_place(from_slot, from_row, log2_slots));
  const auto ask = [&](int turn) {
    const int rest = from_rest - turn * kChunk;
    if (kPacks && a.log2_lanes == 5 && rest >= kChunk) {
#pragma unroll
      for (int j = 0; j < kRows; ++j)  // every 32nd row
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                         (address ^ (2 * j & 6) * 16) + j * 32 * 128),
                     "l"(next + static_cast<std::int64_t>(step) * j)
                     : "memory");
      next += static_cast<std::int64_t>(step) * kRows;
    } else {
      const StatSlot from(a, again(from_slot));
      const T* base = from.base(a);
#pragma unroll 1
      for (int row = from_row; row >> a.log2_lanes < kRows; row += kThreads >> log2_slots) {
        uint4* to = tile + row_place(from_slot, row, log2_slots);
        const T* x = base + a.reduced.offset(from.first(a) + turn * kChunk + row);
        if (kPacks && row < rest) {
          copy_async<16>(to, x);
        } else {
          Pack<16> p = filler<T, kVar>();
          if (row < rest)
#pragma unroll
            for (int e = 0; e < kColumns; ++e)
              if (from.pack * kColumns + e < a.inner) set_element(p, e, x[e]);
          store_pack<false>(to, 0, p);
        }
      }
    }
    end_copies();
  };
  // ... and worked on below one another.
  const int slot = t >> a.log2_lanes, own = (t & ((1 << a.log2_lanes) - 1)) * kRows;
  const int all = StatSlot(a, slot).rest(a);
  const uint4* mine = tile + row_place(slot, own, log2_slots);
  ask(0);
#pragma unroll 1
  for (int turn = 0; turn < limit; ++turn) {
    const int rest = all - turn * kChunk, n = min(rest, kChunk), rows = rest - own;
    Pack<16> p[kRows];
    await_copies<0>();
    __syncthreads();
    const bool warps = a.log2_lanes == 5;  // a slot is one
    const auto load = [&](int log2) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) p[k] = load_pack<16, false>(mine + (k << log2), 0);
    };
    if (warps)
      load(3);
    else
      load(log2_slots);
    __syncthreads();
    if (turn + 1 < limit) ask(turn + 1);
    C v[kColumns], parameter[kColumns];
    [[maybe_unused]] Pack<16> least;
    if constexpr (kVar) {
#pragma unroll
      for (int e = 0; e < kColumns; ++e)
        v[e] = join_tree<rm::Add, 0, kRows>([&](int k) { return element_of<T>(p[k], e); });
    } else {
      largest_rows<T>(p, v, least);
    }
    C own_parameter = C(0);
    if (warps) {
      own_parameter = join_columns<First>(v);
      if (kVar) own_parameter /= static_cast<C>(n);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) parameter[e] = __shfl_sync(~0u, own_parameter, e);
    } else {
      join_slots<First>(v, a.log2_lanes);
#pragma unroll
      for (int e = 0; e < kColumns; ++e) parameter[e] = kVar ? v[e] / static_cast<C>(n) : v[e];
    }
    const auto sums = [&](const auto& lift) {
#pragma unroll
      for (int e = 0; e < kColumns; ++e)
        v[e] =
            join_tree<rm::Add, 0, kRows>([&](int k) { return lift(element_of<T>(p[k], e), k, e); });
    };
    if constexpr (kVar) {
      if (rows >= kRows)
        sums([&](C x, int, int e) { return rm::square(x, parameter[e]); });
      else
        sums([&](C x, int k, int e) { return k < rows ? rm::square(x, parameter[e]) : C(0); });
    } else {
      bool near = true;
#pragma unroll
      for (int e = 0; e < kColumns; ++e)
        near = near && is_near(element_of<T>(least, e), parameter[e]);
      if (__builtin_expect(__all_sync(~0u, near), true))
        sums([](C x, int, int) { return row_device::term_near(x); });
      else
        sums([&](C x, int, int e) {
          return math::exp_term(x - math::center_of_terms(parameter[e]));
        });
    }
    const auto node = [&](C first, C sum) {
      return node_of<kVar>(first, !kVar && first == -math::infinity_of(C(0)) ? C(0) : sum, n);
    };
    if (warps) {
      const C sum = join_columns<rm::Add>(v);
      if (lane < kColumns) nodes[slot][turn][lane] = stored_node(node(own_parameter, sum));
    } else {
      join_slots<rm::Add>(v, a.log2_lanes);
      if (own == 0 && n > 0) {
        const StatSlot at(a, again(slot));
#pragma unroll
        for (int e = 0; e < kColumns; ++e) at.put(a, e, node(parameter[e], v[e]));
      }
    }
  }
  if (a.log2_lanes < 5) return;
  // Half a warp joins the turns of a column.
  __syncwarp();
  const StatSlot at(a, again(slot));
  const int turn = lane % kStatTurns, rest = all - turn * kChunk;
#pragma unroll 1
  for (int first = 0; first < kColumns; first += 32 / kStatTurns) {
    const int e = first + lane / kStatTurns;
    StoredNode<C> of_turn{};
    if (rest > 0) of_turn = nodes[slot][turn][e];
    auto node = node_of<kVar>(of_turn.parameter, of_turn.sum, min(rest, kChunk));
#pragma unroll 1
    for (int bit = 1; bit < limit; bit *= 2) {
      const auto later = lane_after(node, bit);
      if (turn % (2 * bit) == 0 && rest > bit * kChunk) node = rm::joined(node, later);
    }
    if (turn == 0 && rest > 0) at.put(a, e, node);
  }
}

}  // namespace planck::reduce_device
