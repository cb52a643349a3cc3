#include "planck/ops/matmul/cuda/product.launch.cuh"

namespace planck::matmul_device {

// Tiles of 128 × 128, 64 × 64, 16 × 32.
Result<void> multiply_f32(const Stream& stream, const Geometry& g) {
  return launch_product<float, Tiling<4, 2, 2, 2, 8, 2>, Tiling<1, 1, 4, 2, 16, 3>,
                        Tiling<1, 1, 1, 1, 32, 8>>(stream, g);
}

}  // namespace planck::matmul_device
