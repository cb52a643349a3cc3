// Windows of f32 turned to lie along places, as tensor cores read TF32: [(tap, channel)][place].
#pragma once

#include "planck/ops/conv/cuda/lay_rows.cuh"

namespace planck::conv_device {

inline constexpr int kTurnedPlaces = 64, kTurnedChannels = 32, kTurnThreads = 256;

// Columns [first_column, + columns) of one group, of `places` places from `first` on; zeros beyond
// the last place.
struct WindowsToTurn {
  WindowSource source;
  std::int64_t first, places;
  int group, first_column, columns, taps;
  float* out;
  bool along_channels;  // which lie side by side, else places

  __host__ __device__ int channel_tiles() const {
    return (source.channels + kTurnedChannels - 1) / kTurnedChannels;
  }
  std::int64_t blocks() const { return ceil_div(places, kTurnedPlaces) * channel_tiles() * taps; }
};

// A block turns 64 places by 32 channels of a tap.
inline __global__ void __launch_bounds__(kTurnThreads)
    turn_windows(const __grid_constant__ WindowsToTurn t) {
  __shared__ const float* from[kTurnedPlaces];
  __shared__ float tile[kTurnedPlaces][kTurnedChannels + 1];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int tiles = t.channel_tiles(), all = tiles * t.taps;
  const int number = static_cast<int>(blockIdx.x % static_cast<unsigned>(all));
  const int tap = number / tiles, channel0 = (number - tap * tiles) * kTurnedChannels;
  const std::int64_t place0 = std::int64_t{blockIdx.x / static_cast<unsigned>(all)} * kTurnedPlaces;
  if (const int p = static_cast<int>(threadIdx.x); p < kTurnedPlaces) {
    const std::int64_t place = t.first + place0 + p;
    from[p] = place < t.source.places ? t.source.tap_at<float>(t.source.spot(place), tap) : nullptr;
  }
  __syncthreads();
  const std::int64_t step = t.source.image.strides[1],
                     skipped = (std::int64_t{t.group} * t.source.channels + channel0) * step;
  const int channels = min(kTurnedChannels, t.source.channels - channel0);
  const auto read = [&](int place, int channel) {
    return from[place] != nullptr && channel < channels ? from[place][skipped + channel * step]
                                                        : 0.0f;
  };
#pragma unroll
  for (int i = 0; i < kTurnedPlaces / 8; ++i) {
    const int place = t.along_channels ? warp + 8 * i : i % 2 * 32 + lane,
              channel = t.along_channels ? lane : warp + i / 2 * 8;
    tile[place][channel] = read(place, channel);
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTurnedPlaces / 8; ++i) {
    const int place = i % 2 * 32 + lane, channel = warp + i / 2 * 8;
    const int column = tap * t.source.channels + channel0 + channel - t.first_column;
    if (channel < channels && column >= 0 && column < t.columns && place0 + place < t.places)
      t.out[column * t.places + place0 + place] = tile[place][channel];
  }
}

inline Result<void> turn(const Stream& stream, const WindowsToTurn& t) {
  return launch(stream, "conv2d_weight", turn_windows, t.blocks(), kTurnThreads, t);
}

}  // namespace planck::conv_device
