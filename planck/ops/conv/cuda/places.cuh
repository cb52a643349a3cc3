// One convolution as the device sees it, and the kernel for few rows: a thread owns one place of
// the output and kRows of its rows (filters of y, channels of dx), and walks k in the promised
// order: what it reads of the image serves all its rows.
//
// Along an axis, place p and tap t meet the image at p · step_at + t · reach + origin. For y these
// are the stride, the dilation and −padding. For dx it holds within each phase: the places of one
// remainder modulo the stride have the same taps, evenly spaced (image_products.cu).
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/tile.cuh"
#include "planck/ops/conv/cuda/positions.h"

namespace planck::conv_device {

struct Four {
  std::int64_t at[4];
};

template <class T>
struct ConvArgs {
  using Output = typename gemm_device::Stored<T>::Output;
  const T *image, *weight;
  Output* out;
  Four image_strides, out_strides;
  std::int64_t weight_row, weight_summed, weight_tap[2];
  std::int64_t image_group, weight_group, out_group;  // from one group to the next
  std::int64_t batch, height, width;                  // places
  std::int64_t groups, rows;                          // rows of a group
  int summed;                                         // channels (filters) of a group
  int depth;                                          // summed · taps
  unsigned image_height, image_width;
  int step_at[2], reach[2], origin[2];
  conv_detail::Positions places, taps;
  conv_detail::Position step;  // what a tile's step adds to a tap
  bool out_packs;              // 16-byte (8-byte, for 16-bit floats) chunks of places are aligned
};

// One word of what is multiplied: a float, or four bytes.
template <class T>
__device__ __forceinline__ typename gemm_device::Stored<T>::Word word_of(const T* v) {
  if constexpr (std::is_same_v<T, std::int8_t>)
    return static_cast<std::int32_t>(
        static_cast<std::uint32_t>(static_cast<std::uint8_t>(v[0])) |
        static_cast<std::uint32_t>(static_cast<std::uint8_t>(v[1])) << 8 |
        static_cast<std::uint32_t>(static_cast<std::uint8_t>(v[2])) << 16 |
        static_cast<std::uint32_t>(static_cast<std::uint8_t>(v[3])) << 24);
  else
    return widen(*v);
}

__device__ __forceinline__ std::int32_t number(std::int8_t v) { return v; }
template <class T>
__device__ __forceinline__ Compute<T> number(T v) {
  return widen(v);
}
template <class W>
__device__ __forceinline__ W add_product(W a, W b, W sum) {
  if constexpr (std::is_same_v<W, std::int32_t>)
    return sum + a * b;
  else
    return gemm_device::multiply_add(a, b, sum);
}

inline constexpr int kPlaceThreads = 256, kPlaceRows = 4;

template <class T>
__global__ void __launch_bounds__(kPlaceThreads)
    convolve_places(const __grid_constant__ ConvArgs<T> a) {
  using Word = typename gemm_device::Stored<T>::Word;
  const std::int64_t all = a.batch * a.height * a.width;
  const std::int64_t id = std::int64_t{blockIdx.x} * kPlaceThreads + threadIdx.x;
  const std::int64_t blocks = (a.rows + kPlaceRows - 1) / kPlaceRows;
  if (id >= all * blocks * a.groups) return;
  const std::int64_t group = id / all / blocks, row = id / all % blocks * kPlaceRows;
  const conv_detail::Position p = a.places.of(id % all);
  const int h0 = p.middle * a.step_at[0] + a.origin[0], w0 = p.inner * a.step_at[1] + a.origin[1];
  const T* image = a.image + group * a.image_group + p.outer * a.image_strides.at[0];
  const T* weight = a.weight + group * a.weight_group;
  const T* weights[kPlaceRows];
  Word sums[kPlaceRows];
#pragma unroll
  for (int r = 0; r < kPlaceRows; ++r) {
    weights[r] = weight + (row + r < a.rows ? row + r : a.rows - 1) * a.weight_row;
    sums[r] = 0;
  }
  for (int c = 0; c < a.summed; ++c)
    for (int u = 0; u < a.taps.middle; ++u)
      for (int v = 0; v < a.taps.inner; ++v) {
        const int h = h0 + u * a.reach[0], w = w0 + v * a.reach[1];
        Word x = 0;
        if (static_cast<unsigned>(h) < a.image_height && static_cast<unsigned>(w) < a.image_width)
          x = number(image[c * a.image_strides.at[1] + h * a.image_strides.at[2] +
                           w * a.image_strides.at[3]]);
        const std::int64_t tap = c * a.weight_summed + u * a.weight_tap[0] + v * a.weight_tap[1];
#pragma unroll
        for (int r = 0; r < kPlaceRows; ++r)
          sums[r] = add_product<Word>(number(weights[r][tap]), x, sums[r]);
      }
  auto* out = a.out + group * a.out_group + p.outer * a.out_strides.at[0] +
              p.middle * a.out_strides.at[2] + p.inner * a.out_strides.at[3];
#pragma unroll
  for (int r = 0; r < kPlaceRows; ++r)
    if (row + r < a.rows) gemm_device::store_one<T>(out[(row + r) * a.out_strides.at[1]], sums[r]);
}

}  // namespace planck::conv_device
