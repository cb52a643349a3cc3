// How the copy engine finds boxes (boxes.cuh) in an operand.
#pragma once

#include "planck/ops/grid_sample/cuda/boxes.cuh"

namespace planck::sample_device {

// False where it cannot: strides that are not whole vectors of 16 bytes, or no such engine.
template <class B>
bool map_boxes(const View& input, BoxMaps& maps) {
  const auto size = static_cast<std::int64_t>(storage_bytes(input.dtype));
  if (input.strides[3] != 1 || input.shape[3] * size < 16) return false;
  if (reinterpret_cast<std::uintptr_t>(input.data) % 16 != 0) return false;
  cuuint64_t extents[4], strides[3];
  for (int d = 0; d < 4; ++d) {
    extents[d] = static_cast<cuuint64_t>(input.shape[3 - d]);
    if (d == 3) continue;
    const std::int64_t bytes = input.strides[2 - d] * size;
    if (bytes <= 0 || bytes % 16 != 0 || bytes >= std::int64_t{1} << 40) return false;
    strides[d] = static_cast<cuuint64_t>(bytes);
  }
  const auto encode = tensor_map_encoder();
  if (encode == nullptr) return false;
  const auto map = [&](const BoxShape& shape, CUtensorMap& to) {
    const cuuint32_t box[4] = {static_cast<cuuint32_t>(shape.width),
                               static_cast<cuuint32_t>(shape.height), B::kChannels, 1};
    const cuuint32_t steps[4] = {1, 1, 1, 1};
    return encode(&to, size == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
                  4, input.data, extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
  };
  for (int size = 0; size < kBoxSizes; ++size)
    if (!map(B::shape(size), maps.of[size])) return false;
  return true;
}

}  // namespace planck::sample_device
