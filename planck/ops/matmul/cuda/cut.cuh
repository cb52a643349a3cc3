// f32 operands of exact products, cut into planes of bytes that lie along k: digits or residues.
//
// A Cutter is made of a row's exponent, has kPlanes, and makes of four neighbours a word of each
// plane. One that has `squares` adds up those of the integers, and rows of a group share a bound.
#pragma once

#include <algorithm>

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/lay_along_k.cuh"
#include "planck/math/products/exact_product.h"
#include "planck/ops/matmul/cuda/cut_columns.cuh"

namespace planck::matmul_device {

using namespace gemm_device;
namespace exact = math::exact;

template <class Cutter>
inline constexpr bool kAddsSquares = requires(Cutter c) {
  c.squares;
};

// A lane's 16 of k in a row of its block's tile: lanes go along rows.
struct Tile {
  int r, k, batch;
  std::int64_t row0, k0, left_r, left_k;
  const float* from;
  // at: the block's tile, in grid coordinates.
  __device__ Tile(const Lying<float>& x, uint3 at)
      : r(static_cast<int>(threadIdx.x) % 32),
        k(static_cast<int>(threadIdx.x) / 32 * 16),
        batch(static_cast<int>(at.z)),
        row0(std::int64_t{at.x} * kLayRows),
        k0(std::int64_t{at.y} * kLayDepth),
        left_r(x.rows - row0 - r),
        left_k(x.k - k0 - k),
        from(x.data + batch * x.batch + (row0 + r) * x.row + (k0 + k) * x.depth) {}
  __device__ void read(const Lying<float>& x, float (&v)[16]) const {
#pragma unroll
    for (int i = 0; i < 16; ++i) v[i] = left_r > 0 && i < left_k ? from[i * x.depth] : 0.0f;
  }
};

template <class Cutter>
__global__ void __launch_bounds__(kLayThreads)
    find_largest(Lying<float> x, std::uint32_t* largest) {
  follow();
  __shared__ std::uint32_t of_row[kLayRows];
  if (threadIdx.x < kLayRows) of_row[threadIdx.x] = 0;
  __syncthreads();
  const Tile tile(x, blockIdx);
  float v[16];
  tile.read(x, v);
  std::uint32_t most = 0;
#pragma unroll
  for (float f : v) most = max(most, exact::magnitude_of(f));
  atomicMax(of_row + tile.r, most);
  __syncthreads();
  const std::int64_t row = tile.row0 + threadIdx.x;
  if (threadIdx.x < kLayRows && row < x.rows)
    atomicMax(largest + tile.batch * x.rows + row, of_row[threadIdx.x]);
}

// From the last tile to the first: what was read last is in the second-level cache still.
template <class Cutter>
__global__ void __launch_bounds__(kLayThreads) cut_tiles(RowsToCut c, std::int64_t depth) {
  follow();
  constexpr int kPlanes = Cutter::kPlanes, kChunks = kLayDepth / 16;
  __shared__ uint4 bytes[kPlanes][kLayRows][kChunks + 1];
  const Lying<float>& x = c.x;
  const Tile tile(
      x, {gridDim.x - 1 - blockIdx.x, gridDim.y - 1 - blockIdx.y, gridDim.z - 1 - blockIdx.z});
  float v[16];
  tile.read(x, v);
  const std::int64_t row = tile.row0 + tile.r;
  const int e = row < x.rows ? exact::exponent_of(c.largest[tile.batch * x.rows + row]) : 0;
  if (tile.k0 == 0 && tile.k == 0 && row < x.rows) c.exponents[tile.batch * x.rows + row] = e;
  Cutter cut(e);
  std::uint32_t words[4][kPlanes];
#pragma unroll
  for (int i = 0; i < 4; ++i) cut(v + 4 * i, words[i]);
#pragma unroll
  for (int d = 0; d < kPlanes; ++d)
    bytes[d][tile.r][tile.k / 16] = {words[0][d], words[1][d], words[2][d], words[3][d]};
  __shared__ float squares[kChunks][kLayRows];
  if constexpr (kAddsSquares<Cutter>) squares[tile.k / 16][tile.r] = cut.squares;
  __syncthreads();
#pragma unroll
  for (int d = 0; d < kPlanes; ++d) {  // 256 chunks each
    const int r = static_cast<int>(threadIdx.x) / kChunks,
              chunk = static_cast<int>(threadIdx.x) % kChunks;
    const std::int64_t k = tile.k0 + chunk * 16;
    if (tile.row0 + r < x.rows && k < depth)
      *reinterpret_cast<uint4*>(c.to +
                                ((tile.batch * kPlanes + d) * x.rows + tile.row0 + r) * depth + k) =
          bytes[d][r][chunk];
  }
  if constexpr (kAddsSquares<Cutter>) {  // the largest of each tile, added up along k
    if (threadIdx.x >= kLayRows) return;
    float of_row = 0;
#pragma unroll
    for (int i = 0; i < kChunks; ++i) of_row += squares[i][threadIdx.x];
    const std::uint32_t most = __reduce_max_sync(0xffffffffu, __float_as_uint(of_row));
    if (threadIdx.x == 0)
      atomicAdd(c.squares + tile.batch * c.groups() + tile.row0 / kLayRows, __uint_as_float(most));
  }
}

// How rows of some length are cut: threads of a row and of a block, and the chunks of 4 that a
// thread keeps in registers between the passes.
template <int kGroup_, int kThreads_, int kKept_>
struct RowCut {
  static constexpr int kGroup = kGroup_, kThreads = kThreads_, kKept = kKept_;
  static constexpr std::int64_t kMost = std::int64_t{kGroup} * kKept * 4;  // k kept by a group
};
using ShortRows = RowCut<32, kLayThreads, 8>;
using MediumRows = RowCut<kLayThreads, kLayThreads, 4>;
// What is beyond registers is kept in shared memory, `shared` chunks for each thread, and what is
// beyond that is read again.
using LongRows = RowCut<1024, 1024, 4>;
constexpr int kMostShared = 13;  // 208 KiB

// The values of a group's threads, combined by f; in all of them where they are one warp, else in
// every thread of the block.
template <int kGroup, class T, class F>
__device__ __forceinline__ T combined(T v, F f) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, apart));
  if constexpr (kGroup > 32) {
    __shared__ T of_warp[kGroup / 32];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = v;
    __syncthreads();
    v = of_warp[0];
#pragma unroll
    for (int w = 1; w < kGroup / 32; ++w) v = f(v, of_warp[w]);
  }
  return v;
}

// A block, or a warp, for each row of one matrix, then of another, where rows lie along k. Nothing
// of the launch before is read, which is awaited in the end.
template <class Cutter, class R>
__global__ void __launch_bounds__(R::kThreads)
    cut_rows(RowsToCut first, RowsToCut second, std::int64_t rows, std::int64_t depth, int shared) {
  let_next_begin();
  constexpr int kGroup = R::kGroup, kKept = R::kKept, kPlanes = Cutter::kPlanes;
  extern __shared__ float4 in_shared[];
  const std::int64_t rows_of_first = first.count();
  const std::int64_t number =
      std::int64_t{blockIdx.x} * (R::kThreads / kGroup) + static_cast<int>(threadIdx.x) / kGroup;
  if (number >= rows) return;  // the same for the whole group
  const bool is_first = number < rows_of_first;
  // Member by member: a reference to either would put both into local memory.
  Lying<float> x = first.x;
  std::int8_t* to = first.to;
  int* exponents = first.exponents;
  float* squares = first.squares;
  if (!is_first) {
    x = second.x, to = second.to, exponents = second.exponents;
    squares = second.squares;
  }
  const std::int64_t at_row = number - (is_first ? 0 : rows_of_first);
  const std::int64_t row = at_row % x.rows, batch = at_row / x.rows;
  const float* const from = x.data + batch * x.batch + row * x.row;
  const bool packs = reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  const int thread = static_cast<int>(threadIdx.x) % kGroup;
  const auto read = [&](std::int64_t k, float* v) {
    if (packs && k + 4 <= x.k) {
      *reinterpret_cast<float4*>(v) = __ldg(reinterpret_cast<const float4*>(from + k));
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) v[i] = k + i < x.k ? from[k + i] : 0.0f;
    }
  };
  const auto at = [&](int i) { return (std::int64_t{i} * kGroup + thread) * 4; };
  std::uint32_t most = 0;
  float kept[kKept][4];
#pragma unroll
  for (int i = 0; i < kKept; ++i) read(at(i), kept[i]);
#pragma unroll
  for (int i = 0; i < kKept; ++i)
#pragma unroll
    for (float f : kept[i]) most = max(most, exact::magnitude_of(f));
#pragma unroll 4
  for (int i = kKept; at(i) < x.k; ++i) {
    float v[4];
    read(at(i), v);
    if (i - kKept < shared)
      in_shared[(i - kKept) * kGroup + thread] = make_float4(v[0], v[1], v[2], v[3]);
#pragma unroll
    for (float f : v) most = max(most, exact::magnitude_of(f));
  }
  most = combined<kGroup>(most, [](std::uint32_t a, std::uint32_t b) { return max(a, b); });
  const int e = exact::exponent_of(most);
  if (thread == 0) exponents[at_row] = e;
  Cutter cut(e);
  std::int8_t* const planes = to + (batch * kPlanes * x.rows + row) * depth;
  const auto write = [&](std::int64_t k, const float* v) {
    std::uint32_t words[kPlanes];
    cut(v, words);
#pragma unroll
    for (int d = 0; d < kPlanes; ++d)
      *reinterpret_cast<std::uint32_t*>(planes + d * x.rows * depth + k) = words[d];
  };
#pragma unroll
  for (int i = 0; i < kKept; ++i)
    if (at(i) < depth) write(at(i), kept[i]);
  for (int i = kKept; at(i) < depth; ++i) {
    float v[4];
    if (i - kKept < shared && at(i) < x.k)
      *reinterpret_cast<float4*>(v) = in_shared[(i - kKept) * kGroup + thread];
    else
      read(at(i), v);
    write(at(i), v);
  }
  if constexpr (kAddsSquares<Cutter>) {
    const float of_row = combined<kGroup>(cut.squares, [](float a, float b) { return a + b; });
    if (thread == 0)  // magnitudes have the order of their bits
      atomicMax(
          reinterpret_cast<int*>(squares) + batch * ceil_div(x.rows, kLayRows) + row / kLayRows,
          __float_as_int(of_row));
  }
  await_last();
}

inline bool lies_along_k(const RowsToCut& c) { return c.x.depth == 1; }

// Launches of a chain, one after the other.
class CutChain {
 public:
  explicit CutChain(const Stream& stream) : stream_(stream) {}

  template <class... P, class... A>
  Result<void> next(void (*kernel)(P...), dim3 grid, const A&... arguments) {
    return next_with(kLayThreads, 0, kernel, grid, arguments...);
  }
  template <class... P, class... A>
  Result<void> next_with(int threads, std::size_t shared, void (*kernel)(P...), dim3 grid,
                         const A&... arguments) {
    return next_of_clusters(1, threads, shared, kernel, grid, arguments...);
  }
  template <class... P, class... A>
  Result<void> next_of_clusters(int blocks, int threads, std::size_t shared, void (*kernel)(P...),
                                dim3 grid, const A&... arguments) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3(static_cast<unsigned>(threads));
    config.dynamicSmemBytes = shared;
    config.stream = native(stream_);
    config.attrs = attributes;
    config.numAttrs = begun_ && has_follow(stream_) ? 2 : 1;
    begun_ = true;
    return cuda_result(cudaLaunchKernelEx(&config, kernel, P(arguments)...), "matmul");
  }

 private:
  const Stream& stream_;
  bool begun_ = false;
};

// One operand or two whose rows lie across k.
template <class Cutter>
Result<void> cut_in_one_pass(CutChain& chain, const RowsToCut& first, const RowsToCut* second,
                             std::int64_t depth) {
  const auto kernel = cut_columns<Cutter>;
  if (auto ok =
          cuda_result(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           ColumnCut::kMostShare / 16 * ColumnCut::kPitch * 4),
                      "matmul");
      !ok)
    return ok;
  const std::int64_t of_first = ColumnCut::clusters(first);
  const std::int64_t all = of_first + (second != nullptr ? ColumnCut::clusters(*second) : 0);
  const ColumnCut cut(depth, all);
  return chain.next_of_clusters(cut.blocks, ColumnCut::kThreads, cut.shared(), kernel,
                                dim3(static_cast<unsigned>(all * cut.blocks)), first,
                                second != nullptr ? *second : first, of_first, depth, cut.share,
                                cut.blocks);
}

template <class Cutter>
Result<void> cut(const Stream& stream, const RowsToCut& a, const RowsToCut& b, std::int64_t depth) {
  const RowsToCut* const operands[] = {&a, &b};
  // Where all that is found out about a row is its exponent, a cluster can do it.
  const auto in_two_passes = [&](const RowsToCut& c) {
    return !lies_along_k(c) && (kAddsSquares<Cutter> || !ColumnCut::serves(c, depth));
  };
  char *cleared = nullptr, *end = nullptr;  // what is to be zero lies side by side
  const auto clear = [&](void* from, std::int64_t words) {
    auto* const at = static_cast<char*>(from);
    cleared = cleared == nullptr ? at : std::min(cleared, at);
    end = std::max(end, at + words * std::int64_t{sizeof(std::uint32_t)});
  };
  for (const RowsToCut* c : operands) {
    if (in_two_passes(*c)) clear(c->largest, c->count());
    if (kAddsSquares<Cutter>) clear(c->squares, c->groups() * c->x.batches);
  }
  if (cleared != nullptr)
    if (auto ok = cuda_result(
            cudaMemsetAsync(cleared, 0, static_cast<std::size_t>(end - cleared), native(stream)),
            "matmul");
        !ok)
      return ok;
  CutChain chain(stream);
  const RowsToCut *first = nullptr, *second = nullptr;  // that lie along k
  const RowsToCut *across = nullptr, *also = nullptr;   // that are cut in one pass
  for (const RowsToCut* c : operands) {
    if (!in_two_passes(*c)) {
      auto &one = lies_along_k(*c) ? first : across, &other = lies_along_k(*c) ? second : also;
      (one == nullptr ? one : other) = c;
      continue;
    }
    if (auto ok = chain.next(find_largest<Cutter>, tiles_of(c->x, c->x.k), c->x, c->largest); !ok)
      return ok;
    if (auto ok = chain.next(cut_tiles<Cutter>, tiles_of(c->x, depth), *c, depth); !ok) return ok;
  }
  if constexpr (!kAddsSquares<Cutter>)
    if (across != nullptr)
      if (auto ok = cut_in_one_pass<Cutter>(chain, *across, also, depth); !ok) return ok;
  if (first == nullptr) return {};
  const std::int64_t rows = first->count() + (second != nullptr ? second->count() : 0);
  if (second == nullptr) second = first;
  const auto blocks = [&](std::int64_t of_block) {
    return dim3(static_cast<unsigned>(ceil_div(rows, of_block)));
  };
  if (depth <= ShortRows::kMost)
    return chain.next(cut_rows<Cutter, ShortRows>, blocks(kLayThreads / 32), *first, *second, rows,
                      depth, 0);
  if (depth <= MediumRows::kMost)
    return chain.next(cut_rows<Cutter, MediumRows>, blocks(1), *first, *second, rows, depth, 0);
  constexpr std::int64_t kChunks = LongRows::kThreads * 4;
  const int shared = static_cast<int>(std::min<std::int64_t>(
      ceil_div(std::max<std::int64_t>(depth - LongRows::kMost, 0), kChunks), kMostShared));
  const auto kernel = cut_rows<Cutter, LongRows>;
  if (auto ok =
          cuda_result(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           kMostShared * LongRows::kThreads * 16),
                      "matmul");
      !ok)
    return ok;
  return chain.next_with(LongRows::kThreads, static_cast<std::size_t>(shared) * kChunks * 4, kernel,
                         blocks(1), *first, *second, rows, depth, shared);
}

}  // namespace planck::matmul_device
