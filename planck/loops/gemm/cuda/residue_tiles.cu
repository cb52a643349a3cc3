#include "planck/loops/gemm/cuda/residue_tiles.cuh"

namespace planck::gemm_device {

Result<void> launch_residues(cudaStream_t stream, int processors, int most, const TensorOperand& a,
                             const TensorOperand& b, ResidueArgs r) {
  using W = ResidueTiles;
  const auto map_a = tensor_map<std::int8_t>(a, kTileRows);
  if (!map_a) return tl::unexpected(map_a.error());
  const auto map_b = tensor_map<std::int8_t>(b, W::kColumns / W::kCluster);
  if (!map_b) return tl::unexpected(map_b.error());
  for (int i = 0; i < residues::kMost; ++i) {
    r.modulus[i] = static_cast<std::int32_t>(residues::modulus(i));
    r.reciprocal[i] = residues::reciprocal(i);
  }
  FollowedArgs<float>& p = r.exact.product;
  p.walk.down = static_cast<int>(ceil_div(p.m, kTileRows * W::kCluster));
  p.walk.across = static_cast<int>(ceil_div(p.n, W::kColumns));
  const std::int64_t tiles = std::int64_t{p.walk.down} * p.walk.across * p.walk.batches;
  return launch_clusters<W>(stream, multiply_by_residues<W>,
                            std::min<std::int64_t>(tiles, std::min(processors, most) / W::kCluster),
                            *map_a, *map_b, r);
}

}  // namespace planck::gemm_device
