// var and logsumexp of groups of consecutive elements, in chunks of 512 (reduce.math.h).
//
// A warp holds a chunk in its registers while the next is on its way, takes several chunks one
// after the other, and leaves a node of each in shared memory. One warp joins those of a group, one
// node per lane; the nodes of long groups go to the workspace, for another launch.
//
// On an H200, f32 [8192, 8192], where reading takes 64.5 us; us:                  var   logsumexp
//   rows of 8,192 held by a CUDA block, the parameter of all first                 67          73
//   one chunk per warp                                                            132         143
//   several per warp                                                               70          74
//   the next one under way, in registers                                           68          72
//   terms instead of exponentials; `planck bench`, where reading takes 59          63          68
// logsumexp by exp takes 57 where memory takes none: 20 instructions per element. Tried, no faster:
// the next chunk by way of shared memory; two bodies of the loop instead of moves between registers
// (more code, 78).
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/rows/cuda/row_operands.cuh"
#include "planck/ops/reduce/cuda/stats.cuh"

namespace planck::reduce_device {

inline constexpr int kRowStatWarps = 8, kFewRowStatWarps = 4;  // of a CUDA block

template <class T>
struct StatRows {
  row_device::RowView<const T> in;
  row_device::DenseView<const T> dense;  // the same, where it is
  std::int64_t groups, length;
  bool merged;     // whole rows behind one another, each of 2^k chunks of 512
  int log2_team;   // short rows: runs of a group
  int log2_part;   // chunks of 512 of a part, up to 32; a group has one or several parts
  int log2_turns;  // chunks of 512 of a warp, up to 32
  NodeSink<T> sink;
};

// What long rows are: whole chunks of 512, runs behind one another, anything.
enum class RowLoads { whole, dense, strided };

// A lane's runs of a whole chunk of 512.
template <class T>
__device__ __forceinline__ void load_chunk(const T* from, ChunkPacks<T>& p) {
#pragma unroll
  for (int k = 0; k < kChunkRuns<T>; ++k) p[k] = load_pack<16, true>(from, k * 32);
}

// n elements of a chunk of 512, wherever they lie, by way of shared memory.
template <class T, bool kVar, bool kDense>
__device__ __forceinline__ void stage_chunk(const StatRows<T>& a, std::int64_t row,
                                            std::int64_t first, int n, Pack<16>* staged,
                                            ChunkPacks<T>& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto place = [&](int i) {
    return kDense ? a.dense.at(row, first + i) : a.in.at(row, first + i);
  };
  const Pack<16> none = filler<T, kVar>();
  __syncwarp();
  if ((kDense || a.in.packs) && n % kRunOf<T> == 0) {
#pragma unroll 1
    for (int i = lane; i < kChunk / kRunOf<T>; i += 32)
      staged[i] = i * kRunOf<T> < n ? load_pack<16, true>(place(i * kRunOf<T>), 0) : none;
  } else {
    T* elements = reinterpret_cast<T*>(staged);
#pragma unroll 1
    for (int i = lane; i < kChunk; i += 32)
      elements[i] = i < n ? *place(i) : *reinterpret_cast<const T*>(none.word);
  }
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kChunkRuns<T>; ++k) p[k] = staged[k * 32 + lane];
}

// A warp goes over 2^log2_turns chunks of 512, numbered over groups, their parts and the chunks of
// a part (which need not be there): several parts, or its share of one.
template <class T, bool kVar, RowLoads kLoads>
__global__ void __maxnreg__((sizeof(T) == 8 ? 96 : 64)) stat_rows(const StatRows<T> a) {
  using C = Compute<T>;
  constexpr int kRun = kRunOf<T>, kRuns = kChunkRuns<T>;
  __shared__ StoredNode<C> nodes[kRowStatWarps * 32];
  follow();
  const int warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0);
  const int lane = static_cast<int>(threadIdx.x) % 32, mask = (1 << a.log2_part) - 1;
  const int turns = 1 << a.log2_turns;
  const std::int64_t number = (static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp)
                              << a.log2_turns;
  std::int64_t group = number >> a.log2_part, part = 0;
  if (a.sink.parts > 1) {
    part = group;
    group /= a.sink.parts;
    part -= group * a.sink.parts;
  }
  const std::int64_t first = ((part << a.log2_part) + (number & mask)) * kChunk;
  // Of this warp: elements of a row, rows.
  const int share = min(turns, mask + 1) * kChunk;
  const int rest = static_cast<int>(min(a.length - first, std::int64_t{share}));
  const int rows = static_cast<int>(
      max(std::int64_t{0}, min(a.groups - group, std::int64_t{max(1, turns >> a.log2_part)})));
  const auto put = [&](int row, int chunk, const Node<C, kVar>& node) {
    if (lane == 0) nodes[warp * turns + (row << a.log2_part) + chunk] = stored_node(node);
  };
  if constexpr (kLoads == RowLoads::whole) {
    const int at_once = a.merged ? rows : 1, count = at_once * max(0, rest / kChunk);
#pragma unroll 1
    for (int row = 0; row < rows && count > 0; row += at_once) {
      const T* next = a.dense.at(group + row, first + lane * kRun);
      ChunkPacks<T> held, ahead;
      load_chunk<T>(next, held);
#pragma unroll 1
      for (int chunk = 0; chunk < count; ++chunk) {
        next += kChunk;
        if (chunk + 1 < count) load_chunk<T>(next, ahead);
        put(row, chunk, chunk_node<T, kVar>(held, kChunk));
#pragma unroll
        for (int k = 0; k < kRuns; ++k) held[k] = ahead[k];
      }
    }
  } else {
    __shared__ Pack<16> staged[kRowStatWarps][kRuns * 32];
#pragma unroll 1
    for (int row = 0; row < rows; ++row)
#pragma unroll 1
      for (int chunk = 0; chunk * kChunk < rest; ++chunk) {
        const int done = chunk * kChunk, n = min(rest - done, kChunk);
        ChunkPacks<T> p;
        if (kLoads == RowLoads::dense && n % kRun == 0) {
          const T* from = a.dense.at(group + row, first + done + lane * kRun);
#pragma unroll
          for (int k = 0; k < kRuns; ++k) {
            p[k] = filler<T, kVar>();
            if ((k * 32 + lane) * kRun < n) p[k] = load_pack<16, true>(from, k * 32);
          }
        } else {
          stage_chunk<T, kVar, kLoads == RowLoads::dense>(a, group + row, first + done, n,
                                                          staged[warp], p);
        }
        put(row, chunk, chunk_node<T, kVar>(p, n));
      }
  }
  // One warp joins the nodes of its parts, or of the part of which it has the first chunks.
  if (a.log2_part > a.log2_turns)
    __syncthreads();
  else
    __syncwarp();
  if ((number & mask) != 0) return;
  const std::int64_t left = a.length - first;
  const int row = lane >> a.log2_part, chunk = lane & mask;
  const bool there = lane >> max(a.log2_part, a.log2_turns) == 0 && row < rows &&
                     left > chunk * std::int64_t{kChunk};
  StoredNode<C> own{};
  if (there) own = nodes[warp * turns + lane];
  auto node = node_of<kVar>(own.parameter, own.sum,
                            static_cast<int>(min(left - chunk * kChunk, std::int64_t{kChunk})));
#pragma unroll 1
  for (int bit = 1; bit <= mask; bit *= 2) {
    const auto later = lane_after(node, bit);
    if ((lane & (2 * bit - 1)) == 0 && there && left > (chunk + bit) * std::int64_t{kChunk})
      node = rm::joined(node, later);
  }
  if (chunk == 0 && there) a.sink.put(group + row, part, node);
}

}  // namespace planck::reduce_device
