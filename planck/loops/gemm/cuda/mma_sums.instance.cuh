// Products by mma.sync whose sums are not rounded, of 16-bit elements, one source for each.
#pragma once

#include "planck/loops/gemm/cuda/mma_tiles.instance.cuh"

namespace planck::gemm_device {

template <class E>
Result<void> run_mma_sums(const Stream& stream, const gemm::Geometry& g) {
  return launch_mma_tiles<Lies::wide, Lies::wide>(stream, mma_arguments<E, float>(g));
}

}  // namespace planck::gemm_device

#undef PLANCK_INSTANTIATE
#define PLANCK_INSTANTIATE(T)                                                  \
  namespace planck::gemm_device {                                              \
  template Result<void> run_mma_sums<T>(const Stream&, const gemm::Geometry&); \
  }
