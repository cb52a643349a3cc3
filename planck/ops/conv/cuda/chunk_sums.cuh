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

inline constexpr int kAddThreads = 64, kAddWide = 4;

// From left to right. A thread has four neighbours of a tap's channels, side by side where the
// strides of the sums let it.
template <class T>
__global__ void __launch_bounds__(kAddThreads)
    add_chunks(ChunkSums a, const float* sums, bool packs) {
  const auto channels = static_cast<int>(a.w.channels);
  const std::uint32_t fours = (static_cast<std::uint32_t>(channels) + 3) / kAddWide,
                      of_filter = fours * static_cast<std::uint32_t>(a.w.taps());
  const std::int64_t id = std::int64_t{blockIdx.x} * kAddThreads + threadIdx.x;
  const std::int64_t f = id / of_filter;
  if (f >= a.all_filters) return;
  const auto rest = static_cast<std::uint32_t>(id - f * of_filter);
  const std::uint32_t tap = rest / fours;
  const int c = static_cast<int>(rest - tap * fours) * kAddWide;
  const float* const from = sums + f * a.row + tap * a.tap + c;
  const auto read = [&](std::int64_t chunk, float(&v)[kAddWide]) {
    if (packs)
      *reinterpret_cast<float4*>(v) = *reinterpret_cast<const float4*>(from + chunk * a.chunk);
    else
#pragma unroll
      for (int e = 0; e < kAddWide; ++e) v[e] = c + e < channels ? from[chunk * a.chunk + e] : 0.0f;
  };
  __align__(16) float total[kAddWide];
  read(0, total);
#pragma unroll 8
  for (std::int64_t chunk = 1; chunk < a.chunks; ++chunk) {
    __align__(16) float v[kAddWide];
    read(chunk, v);
#pragma unroll
    for (int e = 0; e < kAddWide; ++e) total[e] = __fadd_rn(total[e], v[e]);
  }
  const std::uint32_t u = tap / static_cast<std::uint32_t>(a.w.across.taps);
  const std::int64_t v = tap - u * a.w.across.taps;
  T* const to = static_cast<T*>(a.out.data) + f * a.out.strides[0] + u * a.out.strides[2] +
                v * a.out.strides[3];
#pragma unroll
  for (int e = 0; e < kAddWide; ++e) {
    if (c + e >= channels) return;
    T& at = to[(c + e) * a.out.strides[1]];
    if constexpr (sizeof(T) == 2)
      at = T::from_bits(static_cast<std::uint16_t>(rounded_pair<T>(total[e], 0.0f)));
    else
      at = canonical_nan(total[e]);
  }
}

template <class T>
Result<void> launch_add_chunks(const Stream& stream, const ChunkSums& a, const float* sums) {
  const bool packs = a.w.channels % kAddWide == 0 && a.row % kAddWide == 0 &&
                     a.tap % kAddWide == 0 && a.chunk % kAddWide == 0 &&
                     reinterpret_cast<std::uintptr_t>(sums) % 16 == 0;
  const std::int64_t threads = a.all_filters * a.w.taps() * ceil_div(a.w.channels, kAddWide);
  return launch(stream, "conv2d_weight", add_chunks<T>, ceil_div(threads, kAddThreads), kAddThreads,
                a, sums, packs);
}

}  // namespace planck::conv_device
