#include "planck/loops/gemm/cuda/exact_tiles.cuh"

namespace planck::gemm_device {

namespace {

using W = ExactTiles;
static_assert(kExactRows == kTileRows * W::kCluster && kExactColumns == W::kColumns &&
              kExactDepth == kStepBytes);

constexpr int kJoinedRows = 16, kJoinThreads = 256;
constexpr int kApart = kJoinThreads / W::kColumns,
              kEach = kJoinedRows / kApart;  // rows of a thread

// A block adds up the parts of 16 rows of a tile, and rounds them to C.
__global__ void __launch_bounds__(kJoinThreads)
    join_parts(const __grid_constant__ ExactArgs e, ExactShares shares) {
  constexpr int kBlocks = kTileRows / kJoinedRows;  // of one block's rows of a tile
  await_last();
  const FollowedArgs<float>& p = e.product;
  const int at = static_cast<int>(blockIdx.x);
  const int rank = at / kBlocks % W::kCluster, cut = at / kBlocks / W::kCluster;
  const auto tile = p.walk.at(p.walk.count() - e.cut_tiles + cut);
  const int row_in = at % kBlocks * kJoinedRows + static_cast<int>(threadIdx.x) / W::kColumns;
  const int column_in = static_cast<int>(threadIdx.x) % W::kColumns;
  const int row = (tile.row * W::kCluster + rank) * kTileRows + row_in;
  const int j = tile.column * W::kColumns + column_in;
  if (j >= p.n) return;
  std::int64_t sums[kEach] = {};
  for (int c = shares.begin(cut); !shares.ended(c, cut); ++c) {
    if (!shares.has_part(c, cut)) continue;
    const std::int64_t part = shares.part_of(c, cut) * W::kCluster + rank;
    const std::int64_t* const from =
        e.cut_sums + part * W::kWaiting + row_in * W::kColumns + column_in;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (row + i * kApart < p.m) sums[i] += from[i * kApart * W::kColumns];
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    if (row + i * kApart < p.m) round_to_c(e, tile.batch, row + i * kApart, j, sums[i]);
}

}  // namespace

Result<void> launch_digits(cudaStream_t stream, int processors, int most, const TensorOperand& a,
                           const TensorOperand& b, ExactArgs e) {
  const auto map_a = tensor_map<std::int8_t>(a, kTileRows);
  if (!map_a) return tl::unexpected(map_a.error());
  const auto map_b = tensor_map<std::int8_t>(b, W::kColumns / W::kCluster);
  if (!map_b) return tl::unexpected(map_b.error());
  TileWalk& walk = e.product.walk;
  walk.down = static_cast<int>(ceil_div(e.product.m, kExactRows));
  walk.across = static_cast<int>(ceil_div(e.product.n, kExactColumns));
  const std::int64_t tiles = std::int64_t{walk.down} * walk.across * walk.batches;
  const std::int64_t clusters =
      std::min({processors / W::kCluster, most / W::kCluster, kMostExactClusters});
  const std::int64_t steps = ceil_div(e.product.k, kExactDepth);
  e.cut_tiles = e.cut_sums != nullptr ? tiles_to_cut(tiles, steps, clusters) : 0;
  if (auto ok = launch_clusters<W>(stream, multiply_exact<W>,
                                   e.cut_tiles > 0 ? clusters : std::min(tiles, clusters), *map_a,
                                   *map_b, e);
      !ok || e.cut_tiles == 0)
    return ok;
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(e.cut_tiles * kExactRows / kJoinedRows));
  config.blockDim = dim3(kJoinThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return cuda_result(cudaLaunchKernelEx(&config, join_parts, e,
                                        ExactShares{e.cut_tiles, static_cast<int>(steps),
                                                    static_cast<int>(clusters)}),
                     "matmul");
}

}  // namespace planck::gemm_device
