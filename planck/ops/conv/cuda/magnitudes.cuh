// Exponents of exact convolutions on the device: the largest finite magnitudes of what shares one,
// and whether there is NaN or an infinity beside them.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/math/products/exact_product.h"
#include "planck/ops/conv/cuda/layout.h"
#include "planck/ops/conv/cuda/operands.cuh"

namespace planck::conv_device {

// Plane [a, b] of a tensor of four axes belongs to
//   key = a · per_a + a / a_group · per_a_group + b / b_group · per_b.
struct MagnitudeKeys {
  std::int64_t per_a, a_group, per_a_group, b_group, per_b;
  PLANCK_HD std::int64_t of(std::int64_t a, std::int64_t b) const {
    return a * per_a + a / a_group * per_a_group + b / b_group * per_b;
  }
};

// The image of y and dx; its weight; an operand of dweight.
inline MagnitudeKeys keys_of_images(std::int64_t groups, std::int64_t channels_in_group) {
  return {groups, 1, 0, std::max<std::int64_t>(channels_in_group, 1), 1};
}
inline MagnitudeKeys keys_of_weights(const ConvProblem& p) {
  if (p.kind == ConvKind::conv2d) return {1, 1, 0, 1, 0};
  return {0, std::max<std::int64_t>(p.filters(), 1), p.channels(), 1, 1};
}
inline MagnitudeKeys keys_of_channels() { return {0, 1, 0, 1, 1}; }

struct Magnitudes {
  std::uint32_t* largest;  // [key]: bits
  std::uint32_t* odd;      // [key]: 1 where there is NaN or an infinity
  Magnitudes(void* data, std::int64_t keys)
      : largest(static_cast<std::uint32_t*>(data)), odd(largest + keys) {}
  __device__ int exponent(std::int64_t key) const { return math::exact::exponent_of(largest[key]); }
};

// A block for each plane and 4,096 of its elements.
inline constexpr int kMagnitudeThreads = 128, kMagnitudePart = 4096;
inline __global__ void find_magnitudes(Tensor4 x, std::int64_t planes_b, std::int64_t height,
                                       std::int64_t width, std::int64_t parts, MagnitudeKeys keys,
                                       Magnitudes out) {
  const std::int64_t plane = blockIdx.x / parts, part = blockIdx.x % parts;
  const std::int64_t a = plane / planes_b, b = plane % planes_b;
  const std::int64_t end = min(height * width, (part + 1) * kMagnitudePart);
  std::uint32_t most = 0, odd = 0;
  for (std::int64_t e = part * kMagnitudePart + threadIdx.x; e < end; e += kMagnitudeThreads) {
    const std::uint32_t m = math::exact::magnitude_of(x.at<float>(a, b, e / width, e % width));
    if (m < 0x7f800000u)
      most = max(most, m);
    else
      odd = 1;
  }
  most = __reduce_max_sync(0xffffffffu, most);
  odd = __reduce_or_sync(0xffffffffu, odd);
  if (threadIdx.x % 32 != 0) return;
  atomicMax(out.largest + keys.of(a, b), most);
  if (odd != 0) atomicOr(out.odd + keys.of(a, b), 1u);
}

inline Result<void> find_magnitudes(const Stream& stream, const View& v, const MagnitudeKeys& keys,
                                    std::int64_t count, const Magnitudes& out) {
  const auto cleared =
      cudaMemsetAsync(out.largest, 0, static_cast<std::size_t>(8 * count), native(stream));
  if (auto ok = cuda_result(cleared, "conv2d"); !ok) return ok;
  const std::int64_t parts = ceil_div(v.shape[2] * v.shape[3], kMagnitudePart);
  return launch(stream, "conv2d",
                static_cast<void (*)(Tensor4, std::int64_t, std::int64_t, std::int64_t,
                                     std::int64_t, MagnitudeKeys, Magnitudes)>(find_magnitudes),
                v.shape[0] * v.shape[1] * parts, kMagnitudeThreads, Tensor4(v), v.shape[1],
                v.shape[2], v.shape[3], parts, keys, out);
}

// Of the image (y: x, dx: dy, dweight: x) and of the other operand.
inline Result<void> find_both_magnitudes(const Stream& stream, const ConvProblem& p,
                                         const Operands& operands, const Magnitudes& image,
                                         const Magnitudes& other, const ExactKeys& keys) {
  const bool slopes = p.kind == ConvKind::conv2d_weight;
  const View &a = operands[conv_operand::first], &b = operands[conv_operand::second];
  const MagnitudeKeys of_image =
      slopes ? keys_of_channels() : keys_of_images(p.groups(), a.shape[1] / p.groups());
  if (auto ok = find_magnitudes(stream, a, of_image, keys.of_image, image); !ok) return ok;
  return find_magnitudes(stream, b, slopes ? keys_of_channels() : keys_of_weights(p), keys.of_other,
                         other);
}

}  // namespace planck::conv_device
