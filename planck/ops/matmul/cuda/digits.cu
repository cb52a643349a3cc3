// cuda:digits: f32 products as exact sums of integers. A and B are cut into planes of s8 digits,
// then loops/gemm/cuda/exact_tiles.cuh multiplies and joins them.
#include <algorithm>

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/loops/gemm/cuda/exact_tiles.cuh"
#include "planck/loops/gemm/cuda/lay_along_k.cuh"
#include "planck/loops/gemm/cuda/warpgroups.launch.cuh"
#include "planck/ops/matmul/cuda/cut_columns.cuh"
#include "planck/ops/matmul/cuda/kernels.h"
#include "planck/ops/matmul/host/geometry.h"

namespace planck::matmul_device {

using namespace gemm_device;
namespace exact = math::exact;

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
__global__ void __launch_bounds__(kLayThreads)
    cut_tiles(Lying<float> x, const std::uint32_t* largest, std::int8_t* to, int* exponents,
              std::int64_t depth) {
  follow();
  __shared__ uint4 digits[3][kLayRows][kLayDepth / 16 + 1];
  const Tile tile(
      x, {gridDim.x - 1 - blockIdx.x, gridDim.y - 1 - blockIdx.y, gridDim.z - 1 - blockIdx.z});
  float v[16];
  tile.read(x, v);
  const std::int64_t row = tile.row0 + tile.r;
  const int e = row < x.rows ? exact::exponent_of(largest[tile.batch * x.rows + row]) : 0;
  if (tile.k0 == 0 && tile.k == 0 && row < x.rows) exponents[tile.batch * x.rows + row] = e;
  const Cutter cut(e);
  std::uint32_t words[4][3];
#pragma unroll
  for (int i = 0; i < 4; ++i) cut(v + 4 * i, words[i]);
#pragma unroll
  for (int d = 0; d < 3; ++d)
    digits[d][tile.r][tile.k / 16] = {words[0][d], words[1][d], words[2][d], words[3][d]};
  __syncthreads();
  constexpr int kChunks = kLayDepth / 16;
#pragma unroll
  for (int d = 0; d < 3; ++d) {  // 256 chunks each
    const int r = static_cast<int>(threadIdx.x) / kChunks,
              c = static_cast<int>(threadIdx.x) % kChunks;
    const std::int64_t k = tile.k0 + c * 16;
    if (tile.row0 + r < x.rows && k < depth)
      *reinterpret_cast<uint4*>(to + ((tile.batch * 3 + d) * x.rows + tile.row0 + r) * depth + k) =
          digits[d][r][c];
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

// A block, or a warp, for each row of one matrix, then of another, where rows lie along k. Nothing
// of the launch before is read, which is awaited in the end.
template <class R>
__global__ void __launch_bounds__(R::kThreads)
    cut_rows(RowsToCut first, RowsToCut second, std::int64_t rows, std::int64_t depth, int shared) {
  let_next_begin();
  constexpr int kGroup = R::kGroup, kKept = R::kKept;
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
  if (!is_first) x = second.x, to = second.to, exponents = second.exponents;
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
  most = __reduce_max_sync(0xffffffffu, most);
  if constexpr (kGroup > 32) {
    __shared__ std::uint32_t of_warp[kGroup / 32];
    if (thread % 32 == 0) of_warp[thread / 32] = most;
    __syncthreads();
#pragma unroll
    for (std::uint32_t other : of_warp) most = max(most, other);
  }
  const int e = exact::exponent_of(most);
  if (thread == 0) exponents[at_row] = e;
  const Cutter cut(e);
  std::int8_t* const planes = to + (batch * 3 * x.rows + row) * depth;
  const auto write = [&](std::int64_t k, const float* v) {
    std::uint32_t words[3];
    cut(v, words);
#pragma unroll
    for (int d = 0; d < 3; ++d)
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
  await_last();
}

bool lies_along_k(const RowsToCut& c) { return c.x.depth == 1; }

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

Result<void> cut(const Stream& stream, const RowsToCut& a, const RowsToCut& b, std::int64_t depth) {
  const RowsToCut* const operands[] = {&a, &b};
  const auto in_two_passes = [&](const RowsToCut& c) {
    return !lies_along_k(c) && !ColumnCut::serves(c, depth);
  };
  char *cleared = nullptr, *end = nullptr;  // largest magnitudes of both lie side by side
  for (const RowsToCut* c : operands) {
    if (!in_two_passes(*c)) continue;
    auto* const from = reinterpret_cast<char*>(c->largest);
    cleared = cleared == nullptr ? from : std::min(cleared, from);
    end = std::max(end, from + c->count() * std::int64_t{sizeof(std::uint32_t)});
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
    if (auto ok = chain.next(find_largest, tiles_of(c->x, c->x.k), c->x, c->largest); !ok)
      return ok;
    if (auto ok = chain.next(cut_tiles, tiles_of(c->x, depth), c->x, c->largest, c->to,
                             c->exponents, depth);
        !ok)
      return ok;
  }
  if (across != nullptr)
    if (auto ok = cut_in_one_pass(chain, *across, also, depth); !ok) return ok;
  if (first == nullptr) return {};
  const std::int64_t rows = first->count() + (second != nullptr ? second->count() : 0);
  if (second == nullptr) second = first;
  const auto blocks = [&](std::int64_t of_block) {
    return dim3(static_cast<unsigned>(ceil_div(rows, of_block)));
  };
  if (depth <= ShortRows::kMost)
    return chain.next(cut_rows<ShortRows>, blocks(kLayThreads / 32), *first, *second, rows, depth,
                      0);
  if (depth <= MediumRows::kMost)
    return chain.next(cut_rows<MediumRows>, blocks(1), *first, *second, rows, depth, 0);
  constexpr std::int64_t kChunks = LongRows::kThreads * 4;
  const int shared = static_cast<int>(std::min<std::int64_t>(
      ceil_div(std::max<std::int64_t>(depth - LongRows::kMost, 0), kChunks), kMostShared));
  const auto kernel = cut_rows<LongRows>;
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

namespace planck {

namespace {

using namespace gemm_device;

// One product, or a run of batches with one stride.
Result<void> multiply_digits(const Stream& stream, char* workspace, const DigitsLayout& at,
                             const gemm::Geometry& g, std::int64_t batches,
                             const std::int64_t (&strides)[gemm::kBatchOperands],
                             const std::int64_t (&offsets)[gemm::kBatchOperands]) {
  const auto* a = static_cast<const float*>(g.a.data) + offsets[0];
  const auto* b = static_cast<const float*>(g.b.data) + offsets[1];
  const auto own = [&](int o) { return strides[o] != 0 ? batches : 1; };
  const Lying<float> x{a, g.m, g.k, own(0), g.a.row, g.a.column, strides[0]};
  const Lying<float> y{b, g.n, g.k, own(1), g.b.column, g.b.row, strides[1]};
  auto* const digits_a = reinterpret_cast<std::int8_t*>(workspace + at.a);
  auto* const digits_b = reinterpret_cast<std::int8_t*>(workspace + at.b);
  auto* const exponents_a = reinterpret_cast<int*>(workspace + at.exponents_a);
  auto* const exponents_b = reinterpret_cast<int*>(workspace + at.exponents_b);
  const auto largest = [&](std::size_t where) {
    return reinterpret_cast<std::uint32_t*>(workspace + where);
  };
  if (auto ok = matmul_device::cut(stream, {x, digits_a, exponents_a, largest(at.largest_a)},
                                   {y, digits_b, exponents_b, largest(at.largest_b)}, at.depth);
      !ok)
    return ok;
  ExactArgs e{};
  TensorArgs<float>& p = e.product;
  p.c = static_cast<float*>(g.c.data) + offsets[2];
  p.c_row = g.c.row, p.c_column = g.c.column, p.c_batch = strides[2];
  p.m = static_cast<int>(g.m), p.n = static_cast<int>(g.n), p.k = static_cast<int>(at.depth);
  p.c_packs = packs_rows(p);
  p.walk.batches = static_cast<int>(batches);
  e.a_exponents = exponents_a, e.b_exponents = exponents_b;
  e.waiting = reinterpret_cast<std::int64_t*>(workspace + at.waiting);
  if (at.cut < at.bytes) e.cut_sums = reinterpret_cast<std::int64_t*>(workspace + at.cut);
  e.product.follows = following<float>(g, offsets[3], strides[3]);
  e.a = a, e.b = b, e.k = g.k;
  e.a_row = g.a.row, e.a_k = g.a.column, e.b_column = g.b.column, e.b_k = g.b.row;
  e.a_batch = strides[0], e.b_batch = strides[1];
  const auto planes = [&](const std::int8_t* data, std::int64_t rows, std::int64_t count) {
    return TensorOperand{data, rows, at.depth, at.depth, 1, 3 * count, rows * at.depth};
  };
  p.a_batches = strides[0] != 0, p.b_batches = strides[1] != 0;
  return launch_digits(native(stream), processors_of(stream), DigitsLayout::kMostBlocks,
                       planes(digits_a, g.m, own(0)), planes(digits_b, g.n, own(1)), e);
}

}  // namespace

Result<void> matmul_digits(const Stream& stream, Workspace workspace, const MatmulProblem& p,
                           const Operands& operands) {
  if (p.m == 0 || p.n == 0) return {};
  gemm::Geometry g = geometry_of(p, operands);
  if (g.batches.count == 0) return {};
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (p.k == 0) return matmul_cuda(stream, {}, p, operands);  // zeros
  DigitsLayout at(p);
  if (g.c.row == 1 && g.c.column != 1) g = g.transposed(), at = at.transposed();
  return each_run(g.batches, [&](std::int64_t count, const auto& strides, const auto& offsets) {
    return multiply_digits(stream, static_cast<char*>(workspace.data), at, g, count, strides,
                           offsets);
  });
}

}  // namespace planck
