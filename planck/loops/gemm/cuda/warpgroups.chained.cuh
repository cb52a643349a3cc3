// Warpgroups whose launch is set up while the one before still runs (loops/cuda/chain.cuh), and
// products of few rows among these, where the time is that of reading B: a block owns 64 × 32 of C.
//
// What a block is going to read of B first is on its way to L2 before the launch before has ended:
// whoever still writes there writes through L2. Stages that hold no more than the rows of A that
// there are, so that two blocks fit on a multiprocessor, were slower: 1 and 8 by 4096 x 4096 of
// bf16 took 14.3 us on an H200 instead of 12.7.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/warpgroups.cuh"

namespace planck::gemm_device {

__device__ __forceinline__ void fetch_box(const CUtensorMap& map, int x, int y, int z) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(&map),
               "r"(x), "r"(y), "r"(z)
               : "memory");
#endif
}

template <class W>
struct ChainedWarpgroups : W {
  static constexpr bool kFollows = true;

  template <class Args>
  static __device__ __forceinline__ void follow(const CUtensorMap&, const Args&) {
    planck::follow();
  }
};

template <class E, int kColumns, int kCluster, bool kMajorKA, bool kMajorKB, int kRows = kTileRows>
using Chained = ChainedWarpgroups<Warpgroups<E, kColumns, kCluster, kMajorKA, kMajorKB, kRows>>;

// Both operands along k.
template <class E>
struct ThinWarpgroups : Warpgroups<E, 32, 1, true, true, 64> {
  using Base = Warpgroups<E, 32, 1, true, true, 64>;
  static constexpr bool kFollows = true;

  template <class Args>
  static __device__ __forceinline__ void follow(const CUtensorMap& map_b, const Args& p) {
    let_next_begin();
    if (threadIdx.x == 0) {
      const auto tile = p.walk.at(static_cast<int>(blockIdx.x));
      for (int s = 0; s < Base::kStages && s * Base::kDepth < p.k; ++s)
        fetch_box(map_b, s * Base::kDepth, tile.column * Base::kColumns,
                  p.b_batches ? tile.batch : 0);
    }
    await_last();
  }
};

}  // namespace planck::gemm_device
