#include "planck/ops/matmul/cuda/product.launch.cuh"

namespace planck::matmul_device {

// Tiles of 64 × 128, 32 × 64, 8 × 16.
Result<void> multiply_f64(const Stream& stream, const Geometry& g) {
  return launch_product<double, Tiling<4, 4, 2, 2, 8, 2>, Tiling<2, 2, 2, 2, 16, 4>,
                        Tiling<1, 1, 1, 1, 32, 8>>(stream, g);
}

}  // namespace planck::matmul_device
