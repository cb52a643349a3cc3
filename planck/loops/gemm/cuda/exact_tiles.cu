#include "planck/loops/gemm/cuda/exact_tiles.cuh"

namespace planck::gemm_device {

Result<void> launch_digits(cudaStream_t stream, int processors, int most, const TensorOperand& a,
                           const TensorOperand& b, ExactArgs e) {
  using W = ExactTiles;
  const auto map_a = tensor_map<std::int8_t>(a, kTileRows);
  if (!map_a) return tl::unexpected(map_a.error());
  const auto map_b = tensor_map<std::int8_t>(b, W::kColumns / W::kCluster);
  if (!map_b) return tl::unexpected(map_b.error());
  TileWalk& walk = e.product.walk;
  walk.down = static_cast<int>(ceil_div(e.product.m, kTileRows * W::kCluster));
  walk.across = static_cast<int>(ceil_div(e.product.n, W::kColumns));
  const std::int64_t tiles = std::int64_t{walk.down} * walk.across * walk.batches;
  const std::int64_t clusters = std::min(processors, most) / W::kCluster;
  return launch_clusters<W>(stream, multiply_exact<W>, std::min(tiles, clusters), *map_a, *map_b,
                            e);
}

}  // namespace planck::gemm_device
