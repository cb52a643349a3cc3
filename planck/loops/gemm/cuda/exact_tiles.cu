#include "planck/loops/gemm/cuda/exact_tiles.cuh"

namespace planck::gemm_device {

namespace {

using W = ExactTiles;
static_assert(kExactRows == kTileRows * W::kCluster && kExactColumns == W::kColumns &&
              kExactDepth == kStepBytes);

// A block joins what a warp has left of each part: kEach pairs of neighbours for a thread.
constexpr int kJoinThreads = 256;
constexpr int kPairs = kPartRows * W::kColumns / 2, kEach = kPairs / kJoinThreads;

__global__ void __launch_bounds__(kJoinThreads)
    join_parts(const __grid_constant__ ExactArgs e, ExactShares shares) {
  constexpr int kBlocks = kTileRows / kPartRows;  // of one block's rows of a tile
  await_last();
  const FollowedArgs<float>& p = e.product;
  const int at = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const int rank = at / kBlocks % W::kCluster, cut = at / kBlocks / W::kCluster;
  const auto tile = p.walk.at(p.walk.count() - e.cut_tiles + cut);
  const int row0 = (tile.row * W::kCluster + rank) * kTileRows + at % kBlocks * kPartRows;
  longlong2 sums[kEach] = {};
  for (int c = shares.begin(cut); !shares.ended(c, cut); ++c) {
    if (!shares.has_part(c, cut)) continue;
    const std::int64_t part = shares.part_of(c, cut) * W::kCluster + rank;
    const auto* const from =
        reinterpret_cast<const longlong2*>(e.cut_sums + part * W::kWaiting) + at % kBlocks * kPairs;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const longlong2 v = from[i * kJoinThreads + thread];
      sums[i].x += v.x, sums[i].y += v.y;
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const PlaceInPart place(i * kJoinThreads + thread);
    const int row = row0 + place.row, column = tile.column * W::kColumns + place.column;
    if (row >= p.m) continue;
    if (column < p.n) round_to_c(e, tile.batch, row, column, sums[i].x);
    if (column + 1 < p.n) round_to_c(e, tile.batch, row, column + 1, sums[i].y);
  }
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
  config.gridDim = dim3(static_cast<unsigned>(e.cut_tiles * kExactRows / kPartRows));
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
