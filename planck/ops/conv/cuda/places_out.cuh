// From sums side by side, [place][channel], to y or dx of any strides; and sums of exact that meet
// NaN or infinities.
#pragma once

#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/conv/cuda/magnitudes.cuh"

namespace planck::conv_device {

// From one place of the output to the next, where sums can be stored where they belong: places in
// order at one distance, channels side by side.
inline std::optional<std::int64_t> side_by_side_places(const Windows& w, const View& out) {
  const Strides& s = out.strides;
  const std::int64_t wide = w.across.places, high = w.down.places;
  const std::int64_t step = wide > 1 ? s[3] : high > 1 ? s[2] : s[0];
  const bool even = s[1] == 1 && w.across.place_step == 1 && w.down.place_step == 1 &&
                    (high == 1 || wide == 1 || s[2] == wide * step) &&
                    (w.batch == 1 || w.in_image() == 1 || s[0] == w.in_image() * step);
  return even ? std::optional(step) : std::nullopt;
}

inline constexpr int kTurn = 32;

// A tile of 32 places by 32 channels for each block of 32 × 8 threads. from: [place][channels], or
// null for zeros. Lanes store along places, or along channels.
template <class T>
__global__ void __launch_bounds__(kTurn * 8)
    put_places(Windows w, Tensor4 out, const T* from, std::int64_t first, std::int64_t count,
               std::int64_t channels, bool along_places) {
  __shared__ T tile[kTurn][kTurn + 1];
  const std::int64_t row0 = std::int64_t{blockIdx.x} * kTurn, c0 = std::int64_t{blockIdx.y} * kTurn;
  const int x = static_cast<int>(threadIdx.x);
  for (int y = static_cast<int>(threadIdx.y); y < kTurn; y += 8)
    if (row0 + y < count && c0 + x < channels)
      tile[y][x] = from != nullptr ? from[(row0 + y) * channels + c0 + x] : T(0);
  __syncthreads();
  for (int y = static_cast<int>(threadIdx.y); y < kTurn; y += 8) {
    const int r = along_places ? x : y, c = along_places ? y : x;
    if (row0 + r < count && c0 + c < channels)
      static_cast<T*>(out.data)[offset_of(w, out, place_of(w, first + row0 + r), c0 + c)] =
          tile[r][c];
  }
}

template <class T>
Result<void> put(const Stream& stream, const Windows& w, const View& out, const T* from,
                 std::int64_t first, std::int64_t count) {
  const std::int64_t channels = out.shape[1];
  const dim3 grid(static_cast<unsigned>(ceil_div(count, kTurn)),
                  static_cast<unsigned>(ceil_div(channels, kTurn)));
  if (count == 0 || channels == 0) return {};
  put_places<T><<<grid, dim3(kTurn, 8), 0, native(stream)>>>(w, Tensor4(out), from, first, count,
                                                             channels, out.strides[1] != 1);
  return cuda_result(cudaGetLastError(), "conv2d");
}

// A sum's products that are not finite.
struct NotFiniteSum {
  bool nan = false, positive = false, negative = false;
  __device__ void add(float x, float y) {
    constexpr std::uint32_t kInf = 0x7f800000u;
    const std::uint32_t a = math::exact::magnitude_of(x), b = math::exact::magnitude_of(y);
    if (a < kInf && b < kInf) return;
    if (a > kInf || b > kInf || a == 0 || b == 0)
      nan = true;
    else
      ((math::bits_of(x) ^ math::bits_of(y)) >> 31 != 0 ? negative : positive) = true;
  }
  __device__ bool any() const { return nan || positive || negative; }
  __device__ float value() const {
    if (nan || (positive && negative)) return math::nan_of(0.0f);
    return positive ? math::infinity_of(0.0f) : -math::infinity_of(0.0f);
  }
};

// Element (f, tap, channel) of dweight.
__device__ inline NotFiniteSum not_finite_slope(const Windows& w, const Tensor4& x,
                                                const Tensor4& dy, std::int64_t f, std::int64_t tap,
                                                std::int64_t channel) {
  NotFiniteSum found;
  for (std::int64_t k = 0; k < w.places(); ++k) {
    const Place place = place_of(w, k);
    found.add(window<float>(w, x, place, tap, channel), dy.at<float>(place.n, f, place.i, place.j));
  }
  return found;
}

// Whether any key has NaN or infinities; all threads of a block ask.
__device__ __forceinline__ bool any_odd(const Magnitudes& m, std::int64_t keys) {
  bool any = false;
  for (std::int64_t k = threadIdx.x; k < keys; k += blockDim.x) any = any || m.odd[k] != 0;
  return __syncthreads_or(any) != 0;
}

// Elements of y or dx whose image or weights hold NaN or infinities, which were cut to zero.
inline __global__ void replace_not_finite(Windows w, Tensor4 image, WeightOperand weight,
                                          Tensor4 out, std::int64_t groups, std::int64_t rows,
                                          Magnitudes images, Magnitudes weights,
                                          std::int64_t image_keys, std::int64_t weight_keys) {
  follow();
  const bool odd_images = any_odd(images, image_keys), odd_weights = any_odd(weights, weight_keys);
  if (!odd_images && !odd_weights) return;
  const std::int64_t count = w.places() * groups * rows;
  for (std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; at < count;
       at += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t channel = at % (groups * rows), group = channel / rows;
    const Place place = place_of(w, at / (groups * rows));
    if (images.odd[place.n * groups + group] == 0 && weights.odd[channel] == 0) continue;
    NotFiniteSum sum;
    for (std::int64_t tap = 0; tap < w.taps(); ++tap)
      for (std::int64_t c = 0; c < w.channels; ++c)
        sum.add(window<float>(w, image, place, tap, group * w.channels + c),
                weight.at<float>(w, group, channel % rows, tap, c));
    if (sum.any()) static_cast<float*>(out.data)[offset_of(w, out, place, channel)] = sum.value();
  }
}

}  // namespace planck::conv_device
