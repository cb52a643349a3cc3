// Groups side by side on the device: a thread holds a run of columns and goes down the rows, the
// next of which are under way to shared memory. A block has lines of 128 or 256 bytes and, where
// there are enough of them, all rows: nothing is left to another launch.
//
// On an H200, [8192, 8192], us:                              f32 sum   max   argmax   bf16 sum
//   a loop that reads                                             64    64       64         35
//   512 rows a block, eight asked for at once, then a launch      81    82      108         54
//   all rows a block                                              75    69       71
//   turns joined in registers, rows come through shared memory    68    68       71         40
// Blocks that join in clusters of 2 to 8 take 3 to 20 us longer.
#pragma once

#include "planck/loops/async_copy.cuh"
#include "planck/ops/reduce/rows.cuh"

namespace planck::reduce_device {

inline constexpr int kColumnThreads = 512;
inline constexpr int kColumnRows = 64, kColumnBatch = 4;  // rows of a turn, rows at once

// x as [outer, length, inner].
template <class F>
struct ColumnArguments {
  const typename F::Stored* in;
  AxisMap outer_map, reduced;
  std::int64_t outer, length, inner, runs;  // runs of columns
  const typename F::C* parameters;
  typename F::K flip;
  FoldSink<F> sink;
  int width, slots;  // threads of a block side by side, and below one another; the rest are outers
  int turns;         // of kColumnRows rows a slot, a power of two
  unsigned tiles, chunks;
};

// Columns of a thread: 16 bytes, four at most.
template <class F>
inline constexpr int kColumnRun = F::kRun < 4 ? F::kRun : 4;

// Batches of a thread that are under way: 128 bytes.
template <class F, int kRun>
inline constexpr int kColumnStages = 128 / (kColumnBatch * kRun *
                                            static_cast<int>(sizeof(typename F::Stored)));

// A thread's rows in the pairwise order.
template <class F, int kRun>
struct OrderedRows {
  using A = typename F::A;
  using J = typename F::Join;
  static constexpr int kLevels = 4;
  static_assert(kColumnBatch << kLevels == kColumnRows);
  using Many = A[16][kRun];  // an array of its own, for it is not in registers
  A digits[kLevels][kRun], few[4][kRun], sum[kRun];

  // The i-th batch of a turn, value(row, column)
  template <class V>
  __device__ __forceinline__ void take(int i, const V& value) {
#pragma unroll
    for (int e = 0; e < kRun; ++e) {
      A v[kColumnBatch];
#pragma unroll
      for (int k = 0; k < kColumnBatch; ++k) v[k] = value(k, e);
      sum[e] = join_run<J>(v);
    }
    A none[1][kRun];
    join_turn<J>(i, sum, digits, none);
  }
};

template <class F, int kRun>
__global__ void __launch_bounds__(kColumnThreads, 1) columns(const ColumnArguments<F> a) {
  using A = typename F::A;
  using J = typename F::Join;
  using Stored = typename F::Stored;
  constexpr int kBatch = kColumnBatch, kBatches = kColumnRows / kBatch;
  constexpr int kStages = kColumnStages<F, kRun>;
  constexpr int kBytes = kRun * static_cast<int>(sizeof(Stored));
  __shared__ A shared[kColumnThreads * kRun];
  follow();
  const int column = static_cast<int>(threadIdx.x) % a.width;
  const int slot = static_cast<int>(threadIdx.x) / a.width % a.slots;
  const int sub = static_cast<int>(threadIdx.x) / (a.width * a.slots);
  const int subs = kColumnThreads / (a.width * a.slots);
  unsigned block = blockIdx.x;
  const unsigned tile = block % a.tiles;
  block /= a.tiles;
  const unsigned chunk = block % a.chunks;
  const std::int64_t outer = static_cast<std::int64_t>(block / a.chunks) * subs + sub;
  const std::int64_t run = static_cast<std::int64_t>(tile) * a.width + column;
  const bool inside = outer < a.outer && run < a.runs;
  const std::int64_t group = outer * a.inner + run * kRun;
  const Stored* base = a.in + (inside ? a.outer_map.offset(outer) + run * kRun : 0);
  typename F::C parameter[kRun] = {};
  if constexpr (F::kGiven)
    if (inside)
#pragma unroll
      for (int e = 0; e < kRun; ++e) parameter[e] = a.parameters[group + e];
  const std::int64_t first = (static_cast<std::int64_t>(chunk) * a.slots + slot) *
                             (static_cast<std::int64_t>(a.turns) * kColumnRows);
  const std::int64_t rows = inside ? a.length - first : 0;
  std::conditional_t<F::kAnyOrder, Seen<F>[kRun], OrderedRows<F, kRun>> seen;
  [[maybe_unused]] typename OrderedRows<F, kRun>::Many many;
  // `there` rows of the i-th batch of a turn
  using Batch = Pack<kBytes>[kBatch];
  const auto take = [&](const Batch& packs, int turn, int i, auto there) {
    if constexpr (F::kAnyOrder) {
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          if (k < there)
            seen[e].take(element<Stored>(packs[k], e), turn * kColumnRows + i * kBatch + k, a.flip);
    } else {
      seen.take(i, [&](int k, int e) {
        return k < there ? F::lift(element<Stored>(packs[k], e), parameter[e], a.flip, 0)
                         : F::nothing();
      });
    }
  };
  // Rows of kRun > 1 are at one distance and come through shared memory, each thread's own.
  extern __shared__ __align__(16) unsigned char ring[];
  [[maybe_unused]] const Stored* next = base + a.reduced.start + first * a.reduced.stride[0];
  [[maybe_unused]] std::int64_t asked = 0;
  [[maybe_unused]] const auto place = [&](int batch, int k) {
    return ring +
           (static_cast<unsigned>(batch % kStages * kBatch + k) * kColumnThreads + threadIdx.x) *
               kBytes;
  };
  [[maybe_unused]] const auto ask = [&](int batch) {
#pragma unroll
    for (int k = 0; k < kBatch; ++k, ++asked, next += a.reduced.stride[0])
      if (asked < rows) copy_async<kBytes>(place(batch, k), next);
    end_copies();
  };
  if constexpr (kRun > 1)
    for (int i = 0; i + 1 < kStages; ++i) ask(i);
#pragma unroll 1
  for (int turn = 0; turn < a.turns; ++turn) {
    const std::int64_t row = first + turn * kColumnRows, left = rows - turn * kColumnRows;
    const auto batch = [&](int i, auto there) {
      Batch packs;
      if constexpr (kRun > 1) {
        ask(i + kStages - 1);
        await_copies<kStages - 1>();
#pragma unroll
        for (int k = 0; k < kBatch; ++k) packs[k] = load_pack<kBytes, false>(place(i, k), 0);
      } else {
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (k < there)
            packs[k] = load_pack<kBytes, false>(base + a.reduced.offset(row + i * kBatch + k), 0);
      }
      take(packs, turn, i, there);
    };
    if (left >= kColumnRows) {
      constexpr int kUnroll = F::kGiven ? 1 : kBatches;
#pragma unroll kUnroll
      for (int i = 0; i < kBatches; ++i) batch(i, std::integral_constant<int, kBatch>{});
    } else {
      constexpr int kUnroll = kRun > 1 ? 1 : 4;
#pragma unroll kUnroll
      for (int i = 0; i < kBatches; ++i) {
        const std::int64_t rest = left - i * kBatch;
        batch(i, rest < 0 ? 0 : rest < kBatch ? static_cast<int>(rest) : kBatch);
      }
    }
    if constexpr (!F::kAnyOrder)
      if (a.turns > 1) join_turn<J>(turn, seen.sum, seen.few, many);
  }
  A sum[kRun];
#pragma unroll
  for (int e = 0; e < kRun; ++e) {
    if constexpr (F::kAnyOrder)
      sum[e] = seen[e].result(first, rows > 0);
    else
      sum[e] = seen.sum[e];
  }
  if (a.slots > 1) {
    A* own = shared + threadIdx.x * kRun;
#pragma unroll
    for (int e = 0; e < kRun; ++e) own[e] = sum[e];
    for (int half = 1; half < a.slots; half *= 2) {
      __syncthreads();
      if ((slot & (2 * half - 1)) == 0)
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          own[e] = sum[e] = J::template of<A>(sum[e], own[half * a.width * kRun + e]);
    }
  }
  if (slot != 0 || !inside) return;
#pragma unroll
  for (int e = 0; e < kRun; ++e)
    a.sink.put(group + e, (outer * a.chunks + chunk) * a.inner + run * kRun + e, sum[e],
               a.parameters);
}

// Fills in how the work is cut: lines of 256 bytes, or of 128 where that leaves too few; all rows
// of them to a block, or chunks where blocks are few.
template <class F>
void cut_columns(ColumnArguments<F>& a, int run) {
  a.runs = a.inner / run;
  constexpr int kSize = static_cast<int>(sizeof(typename F::Stored));
  const int line = run == 1 && kSize < 4 ? 64 : 256 / (run * kSize);
  a.width = a.slots = a.turns = 1;
  while (a.width < line && a.width < a.runs) a.width *= 2;
  if (a.outer * ceil_div(a.runs, a.width) < reduce_cuts::kEnoughColumnBlocks && a.width > 1)
    a.width /= 2;
  while (a.slots * a.width < kColumnThreads && a.slots * kColumnRows < a.length) a.slots *= 2;
  while (a.slots * a.width < kColumnThreads && a.width < a.runs) a.width *= 2;
  a.tiles = static_cast<unsigned>(ceil_div(a.runs, a.width));
  const auto rows = [&] { return std::int64_t{kColumnRows} * a.slots * a.turns; };
  const std::int64_t across = ceil_div(a.outer, kColumnThreads / (a.width * a.slots)) * a.tiles;
  while (rows() < a.length && a.turns < 32768 &&
         across * ceil_div(a.length, rows()) > reduce_cuts::kEnoughColumnBlocks)
    a.turns *= 2;
  a.chunks = static_cast<unsigned>(ceil_div(a.length, rows()));
}

template <class F, int kRun>
Result<void> launch_columns(const Stream& stream, const ColumnArguments<F>& a, bool first) {
  constexpr const char* kName = "reduce columns";
  const std::int64_t subs = kColumnThreads / (a.width * a.slots);
  const std::int64_t blocks = ceil_div(a.outer, subs) * a.chunks * a.tiles;
  constexpr int kRing = kRun > 1 ? kColumnThreads * 128 : 0;
  if (kRing > 0)
    if (auto ok =
            cuda_result(cudaFuncSetAttribute(columns<F, kRun>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, kRing),
                        kName);
        !ok)
      return ok;
  if (!first)
    return launch_next_with(stream, kName, kRing, columns<F, kRun>, blocks, kColumnThreads, a);
  if (blocks > INT32_MAX)
    return fail(ErrorCode::device, std::string(kName) + ": more blocks than a grid has");
  columns<F, kRun><<<static_cast<unsigned>(blocks), kColumnThreads, kRing, native(stream)>>>(a);
  return cuda_result(cudaGetLastError(), kName);
}

}  // namespace planck::reduce_device
