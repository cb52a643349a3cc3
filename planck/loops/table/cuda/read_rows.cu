// "cuda:rows": out[n] = weight[indices[n]], bit for bit.
//
// A team of lanes, a warp for longer rows, copies kRows rows at once: all indices, then all loads,
// then all stores. Elements are moved as bytes, whatever they mean.
//
// H200, share of a copy of the same bytes, uniform indices (vectors per lane × rows at once):
//                          1 × 4   1 × 4 streamed   2 × 2   3 × 2   4 × 1   8 × 1
//   f32 rows of 768        0.91    0.99             1.00    1.00    0.98    1.00
//   bf16 rows of 4,096     0.88    0.91             0.93    0.94    0.92    0.92
//   f32 rows of 64         0.89    0.96             0.80    0.69    0.58    0.41
#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/pack.cuh"
#include "planck/loops/table/cuda/keys.cuh"
#include "planck/loops/table/kernels.h"

namespace planck {

namespace table_device {

namespace {

constexpr int kThreads = 256;

struct CopyRows {
  Integers indices;
  const char* weight;
  char* out;
  FlatView out_rows;                                        // in elements
  std::int64_t element, weight_row, weight_unit, out_unit;  // bytes
  std::int64_t count, rows, padding;                        // N, V
  std::int64_t units, tiles;  // of a row; of `lanes` · kVectors units
  std::int64_t pieces;        // tiles of all rows
  bool narrow;
  Divisor divisor;  // by tiles
  int log2_lanes;
  unsigned long long* bad;
};

template <int kBytes, int kVectors, int kRows, bool kStreaming>
__global__ void __launch_bounds__(kThreads) copy_rows(const __grid_constant__ CopyRows a) {
  const int lanes = 1 << a.log2_lanes, lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  // Piece r of a team is `teams` after the one before, so that a warp's pieces are neighbours.
  const std::int64_t teams = 32 >> a.log2_lanes;
  const std::int64_t warp = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  const std::int64_t first = warp * teams * kRows + (threadIdx.x % 32 >> a.log2_lanes);
  std::int64_t index[kRows], row[kRows], tile[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t piece = first + r * teams;
    row[r] = a.narrow ? a.divisor.quotient(static_cast<std::uint32_t>(piece)) : piece / a.tiles;
    tile[r] = piece - row[r] * a.tiles;
    index[r] = piece < a.pieces ? a.indices[row[r]] : -1;
  }
  Pack<kBytes> packs[kRows][kVectors];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const bool inside = Keys::in_table(index[r], a.rows);
    const bool valid = inside && index[r] != a.padding;
    if (!inside && a.bad != nullptr && tile[r] == 0 && lane == 0 && first + r * teams < a.pieces)
      atomicAdd(a.bad, 1ull);
    const char* from = a.weight + index[r] * a.weight_row;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t unit = (tile[r] * kVectors + v) * lanes + lane;
      packs[r][v] = {};
      if (valid && unit < a.units)
        packs[r][v] = load_pack<kBytes, false>(from + unit * a.weight_unit, 0);
    }
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first + r * teams >= a.pieces) continue;
    char* to = a.out + a.out_rows(row[r]) * a.element;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const std::int64_t unit = (tile[r] * kVectors + v) * lanes + lane;
      if (unit < a.units) store_pack<kStreaming>(to + unit * a.out_unit, 0, packs[r][v]);
    }
  }
}

template <int kBytes, int kVectors, int kRows, bool kStreaming = false>
Result<void> launch_copy(const Stream& stream, CopyRows a) {
  const std::int64_t lanes = std::int64_t{1} << a.log2_lanes;
  a.tiles = std::max<std::int64_t>(
      1, ceil_div(a.units, lanes * kVectors));  // indices are counted without columns too
  a.pieces = a.count * a.tiles;
  a.narrow = a.pieces + kThreads * kRows < kDivisorLimit && a.tiles < kDivisorLimit;
  if (a.narrow) a.divisor = Divisor(static_cast<std::uint32_t>(a.tiles));
  const std::int64_t teams = kThreads / lanes;
  return launch(stream, "embedding", copy_rows<kBytes, kVectors, kRows, kStreaming>,
                ceil_div(a.pieces, teams * kRows), kThreads, a);
}

template <int kBytes>
Result<void> launch_bytes(const Stream& stream, CopyRows& a) {
  a.units = a.units * a.element / kBytes;
  if (kBytes > a.element) a.weight_unit = a.out_unit = kBytes;
  a.log2_lanes = 0;
  while (a.log2_lanes < 5 && (1 << a.log2_lanes) < a.units) ++a.log2_lanes;
  if (a.units <= 32) return launch_copy<kBytes, 1, 4, true>(stream, a);
  if (a.units % 96 == 0 || a.units >= 192) return launch_copy<kBytes, 3, 2>(stream, a);
  return launch_copy<kBytes, 2, 2>(stream, a);
}

}  // namespace

}  // namespace table_device

Result<void> read_rows_cuda(const Stream& stream, Workspace, const TableProblem& p,
                            const Operands& operands) {
  using namespace table_device;
  using O = table_operand::Embedding;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &weight = operands[O::weight], &out = operands[O::out];
  CopyRows a = {};
  if (operands[O::bad_indices].present) {
    a.bad = static_cast<unsigned long long*>(operands[O::bad_indices].data);
    if (auto ok = cuda_result(cudaMemsetAsync(a.bad, 0, 8, native(stream)), "embedding"); !ok)
      return ok;
  }
  a.count = p.count();
  a.rows = p.num_embeddings;
  a.padding = p.padding_idx;
  if (a.count == 0) return {};
  a.indices = Integers::of(operands[O::indices]);
  a.weight = static_cast<const char*>(weight.data);
  a.out = static_cast<char*>(out.data);
  const int axes = out.shape.rank() - 1;
  a.out_rows = FlatView::over(out, axes);
  a.element = static_cast<std::int64_t>(storage_bytes(p.element_dtype));
  a.weight_row = weight.strides[0] * a.element;
  a.weight_unit = weight.strides[1] * a.element;
  a.out_unit = out.strides[axes] * a.element;
  a.units = p.dim;
  std::int64_t common = reinterpret_cast<std::int64_t>(a.weight) |
                        reinterpret_cast<std::int64_t>(a.out) | a.weight_row | p.dim * a.element;
  for (int d = 0; d < a.out_rows.rank; ++d) common |= a.out_rows.stride[d] * a.element;
  const bool dense = p.dim == 1 || (a.weight_unit == a.element && a.out_unit == a.element);
  if (dense && common % 16 == 0) return launch_bytes<16>(stream, a);
  if (dense && common % 8 == 0) return launch_bytes<8>(stream, a);
  if (a.element == 8) return launch_bytes<8>(stream, a);
  if (dense && common % 4 == 0) return launch_bytes<4>(stream, a);
  if (a.element == 4) return launch_bytes<4>(stream, a);
  return launch_bytes<2>(stream, a);
}

}  // namespace planck
