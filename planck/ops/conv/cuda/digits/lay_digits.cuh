// f32 cut into s8 digits and laid as digit_windows.cuh brings them: channels side by side, in
// blocks of 64 or 128 that are filled up with zeros, digit after digit. NaN and infinities are
// zeros here.
#pragma once

#include <algorithm>

#include "planck/loops/cuda/chain.cuh"
#include "planck/loops/gemm/cuda/cutter.cuh"
#include "planck/ops/conv/cuda/digits/digit_tiles.cuh"
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

inline constexpr int kLayPixels = 64, kLayUnit = 64, kDigitThreads = 256;

struct ImageToLay {
  Tensor4 image;
  Magnitudes magnitudes;
  std::int8_t* out;
  int* exponents;  // of an image's groups: written, too
  DigitBlocks blocks;
  int high, wide, pixels, groups;
  int blocks_down;           // of the grid: for all pixels
  bool along_pixels, packs;  // which lie side by side, else channels; 16 bytes at a time
  static constexpr int kParts = kLayUnit / 16, kChunks = kDigits * kParts;

  ImageToLay(const View& v, const DigitBlocks& b, std::int64_t groups_, const Magnitudes& m,
             std::int8_t* to, int* exponents_to)
      : image(v),
        magnitudes(m),
        out(to),
        exponents(exponents_to),
        blocks(b),
        high(static_cast<int>(v.shape[2])),
        wide(static_cast<int>(v.shape[3])),
        pixels(static_cast<int>(v.shape[0] * v.shape[2] * v.shape[3])),
        groups(static_cast<int>(groups_)),
        blocks_down(static_cast<int>(ceil_div(pixels, kLayPixels))),
        along_pixels(v.strides[1] != 1),
        packs(!along_pixels && v.strides[0] % 4 == 0 && v.strides[2] % 4 == 0 &&
              v.strides[3] % 4 == 0 && b.channels % 4 == 0 &&
              reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0) {}
  std::int64_t count() const {
    return std::int64_t{blocks_down} * groups * (blocks.padded / kLayUnit);
  }

  // A block of the grid has 64 pixels by 64 channels of a group, a thread 16 channels of a pixel.
  __device__ void lay(int block, uint4* laid) const {
    const int thread = static_cast<int>(threadIdx.x), units = blocks.padded / kLayUnit;
    const int pixel0 = block % blocks_down * kLayPixels, of_groups = block / blocks_down;
    const int group = of_groups / units, unit = (of_groups - group * units) * kLayUnit;
    const int pixel = along_pixels ? thread % kLayPixels : thread / kParts,
              part = along_pixels ? thread / kLayPixels : thread % kParts;
    float v[16] = {};
    int exponent = 0;
    if (pixel0 + pixel < pixels) exponent = read(pixel0 + pixel, group, unit + part * 16, v);
    const DigitChunks chunks(v, exponent);
#pragma unroll
    for (int d = 0; d < kDigits; ++d)
      laid[pixel * (kChunks + 1) + d * kParts + part] = chunks.of[d];
    __syncthreads();
    const std::int64_t pitch = std::int64_t{groups} * blocks.pitch();
#pragma unroll
    for (int i = 0; i < kChunks * kLayPixels / kDigitThreads; ++i) {
      const int id = i * kDigitThreads + thread, p = id / kChunks, c = id % kChunks;
      if (pixel0 + p >= pixels) continue;
      *reinterpret_cast<uint4*>(out + (pixel0 + p) * pitch + group * blocks.pitch() +
                                blocks.at(unit + c % kParts * 16, c / kParts)) =
          laid[p * (kChunks + 1) + c];
    }
  }

 private:
  // 16 channels of a pixel; their exponent.
  __device__ __forceinline__ int read(int pixel, int group, int channel, float (&v)[16]) const {
    const int line = pixel / wide, n = line / high, left = blocks.channels - channel;
    const float* const from = static_cast<const float*>(image.data) + n * image.strides[0] +
                              (line - n * high) * image.strides[2] +
                              (pixel - line * wide) * image.strides[3] +
                              (std::int64_t{group} * blocks.channels + channel) * image.strides[1];
    if (packs && left >= 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        reinterpret_cast<float4*>(v)[i] = __ldg(reinterpret_cast<const float4*>(from) + i);
    } else {
#pragma unroll
      for (int i = 0; i < 16; ++i) v[i] = i < left ? from[i * image.strides[1]] : 0.0f;
    }
    const std::int64_t key = std::int64_t{n} * groups + group;
    const int exponent = magnitudes.exponent(key);
    if (channel == 0 && pixel == n * high * wide) exponents[key] = exponent;
    return exponent;
  }
};

// A block of the grid has four rows by 64 channels and nine taps, which it reads in the order in
// which they lie: `order` has the axes row, channel, tap from the outermost on.
struct FiltersToLay {
  Windows w;
  WeightOperand weight;
  std::int64_t rows, all_rows;  // of a group, of all
  DigitBlocks blocks;
  Magnitudes magnitudes;
  std::int8_t* out;
  int* exponents;  // of rows: written, too
  int order[3];
  static constexpr int kRows = 4, kTaps = 9, kPitch = kLayUnit + 4;  // floats

  FiltersToLay(const Windows& windows, const WeightOperand& from, std::int64_t rows_,
               std::int64_t groups, const DigitBlocks& b, const Magnitudes& m, std::int8_t* to,
               int* exponents_to)
      : w(windows),
        weight(from),
        rows(rows_),
        all_rows(groups * rows_),
        blocks(b),
        magnitudes(m),
        out(to),
        exponents(exponents_to),
        order{0, 1, 2} {
    const std::int64_t* const s = from.weight.strides;
    const std::int64_t steps[3] = {s[from.forward ? 0 : 1], s[from.forward ? 1 : 0],
                                   std::min(s[2], s[3])};
    std::stable_sort(order, order + 3, [&](int x, int y) { return steps[x] > steps[y]; });
  }
  int tap_tiles() const { return static_cast<int>(ceil_div(w.taps(), kTaps)); }
  std::int64_t count() const {
    return ceil_div(all_rows, kRows) * (blocks.padded / kLayUnit) * tap_tiles();
  }

  __device__ void lay(std::int64_t block, float* laid, std::int64_t* offsets) const {
    const int units = blocks.padded / kLayUnit, taps = static_cast<int>(w.taps());
    const int tap_tiles = (taps + kTaps - 1) / kTaps;
    const int tap0 = static_cast<int>(block % tap_tiles) * kTaps, few = min(kTaps, taps - tap0);
    const int channel0 = static_cast<int>(block / tap_tiles % units) * kLayUnit;
    const std::int64_t row0 = block / tap_tiles / units * kRows;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kRows + few) offsets[thread] = offset(row0, tap0, thread);
    __syncthreads();
    const auto extent = [&](int axis) { return axis == 0 ? kRows : axis == 1 ? kLayUnit : few; };
    const int inner = extent(order[2]), middle = extent(order[1]);
    const std::int64_t step = weight.weight.strides[weight.forward ? 1 : 0];
    struct At {
      int row, channel, tap;
    };
    const auto at = [&](std::uint32_t e) {
      const int i = static_cast<int>(e), lines = i / inner, outer = lines / middle;
      const auto along = [&](int axis) {
        return axis == order[2]   ? i - lines * inner
               : axis == order[1] ? lines - outer * middle
                                  : outer;
      };
      return At{along(0), along(1), along(2)};
    };
    read_together<9>(
        static_cast<std::uint32_t>(thread), static_cast<std::uint32_t>(kRows * kLayUnit * few),
        kDigitThreads,
        [&](std::uint32_t e) {
          const At from = at(e);
          const std::int64_t channel = channel0 + from.channel;
          return row0 + from.row < all_rows && channel < blocks.channels
                     ? static_cast<const float*>(
                           weight.weight.data)[offsets[from.row] + channel * step +
                                               offsets[kRows + from.tap]]
                     : 0.0f;
        },
        [&](std::uint32_t e, float v) {
          const At to = at(e);
          laid[(to.row * kTaps + to.tap) * kPitch + to.channel] = v;
        });
    __syncthreads();
    for (int i = thread; i < kRows * kTaps * 4; i += kDigitThreads) {
      const int part = i % 4, tap = i / 4 % kTaps;
      const std::int64_t row = row0 + i / (4 * kTaps);
      if (row >= all_rows || tap >= few) continue;
      float v[16];
#pragma unroll
      for (int e = 0; e < 16; ++e) v[e] = laid[i / 4 * kPitch + part * 16 + e];
      const int exponent = magnitudes.exponent(row);
      if (part == 0 && tap0 + tap == 0 && channel0 == 0) exponents[row] = exponent;
      const DigitChunks chunks(v, exponent);
#pragma unroll
      for (int d = 0; d < kDigits; ++d)
        *reinterpret_cast<uint4*>(out + (row * taps + tap0 + tap) * blocks.pitch() +
                                  blocks.at(channel0 + part * 16, d)) = chunks.of[d];
    }
  }

 private:
  // Of row `number` of a block, or of tap `number` less its rows.
  __device__ std::int64_t offset(std::int64_t row0, int tap0, int number) const {
    const std::int64_t* const s = weight.weight.strides;
    if (number < kRows) {
      const std::int64_t group = (row0 + number) / rows, row = row0 + number - group * rows;
      return weight.forward ? (row0 + number) * s[0] : group * weight.filters * s[0] + row * s[1];
    }
    const std::int64_t tap = tap0 + number - kRows, u = tap / w.across.taps;
    return (w.down.first_tap + u * w.down.tap_step) * s[2] +
           (w.across.first_tap + (tap - u * w.across.taps) * w.across.tap_step) * s[3];
  }
};

// The image, where there are blocks for it, then filters.
inline __global__ void __launch_bounds__(kDigitThreads)
    lay_digits(const __grid_constant__ ImageToLay image,
               const __grid_constant__ FiltersToLay filters, std::int64_t blocks_of_image) {
  follow();
  constexpr int kImage = kLayPixels * (ImageToLay::kChunks + 1) * 16,
                kFilters = FiltersToLay::kRows * FiltersToLay::kTaps * FiltersToLay::kPitch * 4;
  __shared__ uint4 room[(kImage > kFilters ? kImage : kFilters) / 16];
  __shared__ std::int64_t offsets[FiltersToLay::kRows + FiltersToLay::kTaps];
  // From the end on: what was looked at last is in the cache, and what is laid last is read first.
  if (blockIdx.x < blocks_of_image)
    image.lay(static_cast<int>(blocks_of_image - 1 - blockIdx.x), room);
  else
    filters.lay(blockIdx.x - blocks_of_image, reinterpret_cast<float*>(room), offsets);
}

inline Result<void> lay(const Stream& stream, const ImageToLay& image, bool with_image,
                        const FiltersToLay& filters) {
  const std::int64_t of_image = with_image ? image.count() : 0;
  return launch_next(stream, "conv2d", lay_digits, of_image + filters.count(), kDigitThreads, image,
                     filters, of_image);
}

}  // namespace planck::conv_device
