// Sums of chunks of places, [chunk][f][(tap, channel)], to dweight.
#pragma once

#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/conv/cuda/operands.cuh"

namespace planck::conv_device {

struct ChunkSums {
  Windows w;
  Tensor4 x, dy, out;
  std::int64_t filters, columns, all_filters, chunks;
  std::int64_t row, tap, chunk;  // sums from one filter, tap, chunk to the next

  __device__ std::int64_t count() const { return all_filters * columns; }
  // Where element (f, column) lies in dweight, and among the sums of a chunk.
  __device__ std::int64_t offset(std::int64_t f, std::int64_t column) const {
    const std::int64_t t = column / w.channels, c = column % w.channels;
    return f * out.strides[0] + c * out.strides[1] + t / w.across.taps * out.strides[2] +
           t % w.across.taps * out.strides[3];
  }
  __device__ std::int64_t sum(std::int64_t f, std::int64_t column) const {
    return f * row + column / w.channels * tap + column % w.channels;
  }
};

// From left to right.
template <class T>
__global__ void add_chunks(ChunkSums a, const float* sums) {
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < a.count();
       at += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t f = at / a.columns, column = at % a.columns;
    const float* const from = sums + a.sum(f, column);
    float total = from[0];
    for (std::int64_t chunk = 1; chunk < a.chunks; ++chunk)
      total = __fadd_rn(total, from[chunk * a.chunk]);
    T* const to = static_cast<T*>(a.out.data) + a.offset(f, column);
    if constexpr (sizeof(T) == 2)
      *to = T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(total, 0.0f)));
    else
      *to = canonical_nan(total);
  }
}

}  // namespace planck::conv_device
