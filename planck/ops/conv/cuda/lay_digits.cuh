// f32 cut into s8 digits and laid as digit_windows.cuh brings them: channels side by side, in
// blocks of 64 or 128 that are filled up with zeros, digit after digit. NaN and infinities are
// zeros here.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/ops/conv/cuda/digit_tiles.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"

namespace planck::conv_device {

// Sixteen neighbours: 16 bytes of each digit.
struct DigitChunks {
  uint4 of[kDigits];
  __device__ DigitChunks(float (&v)[16], int exponent) {
    const gemm_device::Cutter cut(exponent);
    std::uint32_t words[4][kDigits];
#pragma unroll
    for (float& x : v) x = math::exact::magnitude_of(x) < 0x7f800000u ? x : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; ++i) cut(v + 4 * i, words[i]);
#pragma unroll
    for (int d = 0; d < kDigits; ++d) of[d] = {words[0][d], words[1][d], words[2][d], words[3][d]};
  }
};

// Channels of one group as they are laid.
struct DigitBlocks {
  int channels, block, padded;
  __host__ __device__ DigitBlocks(std::int64_t count, std::int64_t block_)
      : channels(static_cast<int>(count)),
        block(static_cast<int>(block_)),
        padded(static_cast<int>((count + block_ - 1) / block_ * block_)) {}
  // Bytes of all digits of a pixel, or of a tap.
  __host__ __device__ int pitch() const { return kDigits * padded; }
  __device__ int at(int channel, int digit) const {
    return (channel / block * kDigits + digit) * block + channel % block;
  }
};

inline constexpr int kLayPixels = 32, kLayUnit = 64, kDigitThreads = 128;

// A block of the grid has 32 pixels by 64 channels of a group, a thread 16 channels of a pixel;
// lanes go along pixels, or along channels, whichever lie side by side.
inline __global__ void __launch_bounds__(kDigitThreads)
    lay_image_digits(Tensor4 image, int high, int wide, int pixels, DigitBlocks blocks, int groups,
                     Magnitudes magnitudes, std::int8_t* out, bool along_pixels, bool packs) {
  constexpr int kParts = kLayUnit / 16, kChunks = kDigits * kParts;
  __shared__ uint4 laid[kLayPixels][kChunks + 1];
  const int thread = static_cast<int>(threadIdx.x), units = blocks.padded / kLayUnit;
  const int group = static_cast<int>(blockIdx.y) / units,
            unit = (static_cast<int>(blockIdx.y) - group * units) * kLayUnit;
  const int pixel0 = static_cast<int>(blockIdx.x) * kLayPixels;
  const int pixel = along_pixels ? thread % kLayPixels : thread / kParts,
            part = along_pixels ? thread / kLayPixels : thread % kParts;
  const int channel = unit + part * 16, left = blocks.channels - channel;
  float v[16] = {};
  int exponent = 0;
  if (pixel0 + pixel < pixels) {
    const int line = (pixel0 + pixel) / wide, n = line / high;
    const float* const from = static_cast<const float*>(image.data) + n * image.strides[0] +
                              (line - n * high) * image.strides[2] +
                              (pixel0 + pixel - line * wide) * image.strides[3] +
                              (std::int64_t{group} * blocks.channels + channel) * image.strides[1];
    exponent = magnitudes.exponent(std::int64_t{n} * groups + group);
    if (packs && left >= 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        reinterpret_cast<float4*>(v)[i] = __ldg(reinterpret_cast<const float4*>(from) + i);
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = i < left ? from[i * image.strides[1]] : 0.0f;
    }
  }
  const DigitChunks chunks(v, exponent);
#pragma unroll
  for (int d = 0; d < kDigits; ++d) laid[pixel][d * kParts + part] = chunks.of[d];
  __syncthreads();
  const std::int64_t pitch = std::int64_t{groups} * blocks.pitch();
#pragma unroll
  for (int i = 0; i < kChunks * kLayPixels / kDigitThreads; ++i) {
    const int id = i * kDigitThreads + thread, p = id / kChunks, c = id % kChunks;
    if (pixel0 + p >= pixels) continue;
    *reinterpret_cast<uint4*>(out + (pixel0 + p) * pitch + group * blocks.pitch() +
                              blocks.at(unit + c % kParts * 16, c / kParts)) = laid[p][c];
  }
}

inline Result<void> lay_image(const Stream& stream, const View& v, const DigitBlocks& blocks,
                              std::int64_t groups, const Magnitudes& magnitudes, std::int8_t* out) {
  const Strides& s = v.strides;
  const std::int64_t pixels = v.shape[0] * v.shape[2] * v.shape[3];
  const bool packs = s[1] == 1 && s[0] % 4 == 0 && s[2] % 4 == 0 && s[3] % 4 == 0 &&
                     blocks.channels % 4 == 0 && reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
  const dim3 grid(static_cast<unsigned>(ceil_div(pixels, kLayPixels)),
                  static_cast<unsigned>(groups * blocks.padded / kLayUnit));
  if (pixels == 0 || grid.y == 0) return {};
  lay_image_digits<<<grid, kDigitThreads, 0, native(stream)>>>(
      Tensor4(v), static_cast<int>(v.shape[2]), static_cast<int>(v.shape[3]),
      static_cast<int>(pixels), blocks, static_cast<int>(groups), magnitudes, out, s[1] != 1,
      packs);
  return cuda_result(cudaGetLastError(), "conv2d");
}

// A thread has 16 channels of a row and walks over its taps. Lanes go along rows, or channels.
inline __global__ void __launch_bounds__(kDigitThreads)
    lay_filter_digits(Windows w, WeightOperand weight, std::int64_t rows, std::int64_t all_rows,
                      DigitBlocks blocks, Magnitudes magnitudes, std::int8_t* out,
                      bool along_rows) {
  const std::int64_t id = std::int64_t{blockIdx.x} * kDigitThreads + threadIdx.x;
  const int chunks = blocks.padded / 16;
  const std::int64_t row = along_rows ? id % all_rows : id / chunks;
  const int channel = static_cast<int>(along_rows ? id / all_rows : id % chunks) * 16;
  if (row >= all_rows || channel >= blocks.padded) return;
  const int exponent = magnitudes.exponent(row), taps = static_cast<int>(w.taps());
  for (int tap = 0; tap < taps; ++tap) {
    float v[16];
#pragma unroll
    for (int i = 0; i < 16; ++i)
      v[i] = channel + i < blocks.channels
                 ? weight.at<float>(w, row / rows, row % rows, tap, channel + i)
                 : 0.0f;
    const DigitChunks laid(v, exponent);
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      *reinterpret_cast<uint4*>(out + (row * taps + tap) * blocks.pitch() + blocks.at(channel, d)) =
          laid.of[d];
  }
}

inline Result<void> lay_filters(const Stream& stream, const Windows& w, const WeightOperand& weight,
                                std::int64_t rows, std::int64_t groups, const DigitBlocks& blocks,
                                const Magnitudes& magnitudes, std::int8_t* out) {
  const std::int64_t all = groups * rows;
  const std::int64_t* const s = weight.weight.strides;
  const bool along_rows = weight.forward ? s[0] < s[1] : s[1] < s[0];
  return launch(stream, "conv2d", lay_filter_digits,
                ceil_div(all * (blocks.padded / 16), kDigitThreads), kDigitThreads, w, weight, rows,
                all, blocks, magnitudes, out, along_rows);
}

}  // namespace planck::conv_device
