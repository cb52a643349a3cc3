// Images brought to have their channels side by side, as the copy engine reads them, and back.
#pragma once

#include "planck/loops/gemm/cuda/lay_along_k.cuh"
#include "planck/ops/conv/cuda/implicit.cuh"
#include "planck/ops/conv/cuda/lay_rows.cuh"

namespace planck::conv_device {

inline constexpr std::int64_t kMostBatches = 65'535;  // of a grid

// Windows of one pixel.
inline Windows pixel_windows(const View& v) {
  const auto axis = [](std::int64_t extent) {
    return conv_detail::WindowAxis{extent, 1, 0, 1, 0, 0, 1, 0, 1, extent};
  };
  return {axis(v.shape[2]), axis(v.shape[3]), v.shape[0], v.shape[1], v.shape[1]};
}

// Whether the pixels of a channel lie side by side.
inline bool planes_are_dense(const View& v) {
  return (v.shape[3] == 1 || v.strides[3] == 1) &&
         (v.shape[2] == 1 || v.strides[2] == v.shape[3]) && v.shape[0] <= kMostBatches;
}

// The image as it lies, or its copy in `room`, of [batch][pixel][channels, to whole 16 bytes].
// evenly: pixels must follow one another at one distance.
template <class T>
Result<PixelImage> side_by_side(const Stream& stream, const View& v, void* room,
                                bool evenly = false) {
  const std::int64_t n = v.shape[0], c = v.shape[1], high = v.shape[2], wide = v.shape[3];
  if (auto there = pixels_of(v)) {
    auto& s = there->strides;
    if (wide == 1) s[2] = high > 1 ? s[1] : s[0];
    const bool even = (high == 1 || s[1] == wide * s[2]) && (n == 1 || s[0] == high * wide * s[2]);
    if (!evenly || even) return *there;
  }
  using E = Bits<T>;
  constexpr std::int64_t kChunk = 16 / sizeof(E);
  const std::int64_t pitch = ceil_div(c, kChunk) * kChunk;
  const PixelImage copy{room, n, c, high, wide, {high * wide * pitch, wide * pitch, pitch}};
  if (planes_are_dense(v)) {
    const gemm_device::Lying<E> from{
        static_cast<const E*>(v.data), high * wide, c, n, 1, v.strides[1], v.strides[0]};
    gemm_device::lay_along_k<<<gemm_device::tiles_of(from, pitch), gemm_device::kLayThreads, 0,
                               native(stream)>>>(from, static_cast<E*>(room), pitch);
    if (auto ok = cuda_result(cudaGetLastError(), "conv2d"); !ok) return tl::unexpected(ok.error());
    return copy;
  }
  const PlaceRows<E> pixels{
      WindowSource(pixel_windows(v), v, false), 0, 0, static_cast<int>(c), false, 1};
  const Plain<E> to{static_cast<E*>(room), n * high * wide, pitch};
  if (auto ok = lay(stream, pixels, to, 1, v.strides[1] != 1); !ok)
    return tl::unexpected(ok.error());
  return copy;
}

// Whether turn_back serves this output: [n][channel][pixel] without gaps, whole chunks of 16 bytes.
template <class T>
bool turns_back(const View& out) {
  const std::int64_t pixels = out.shape[2] * out.shape[3];
  return planes_are_dense(out) && pixels % std::int64_t{16 / sizeof(T)} == 0 &&
         (out.shape[1] == 1 || out.strides[1] == pixels) &&
         (out.shape[0] == 1 || out.strides[0] == out.shape[1] * pixels) &&
         reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0;
}
// sums: [n][pixel][channel].
template <class T>
Result<void> turn_back(const Stream& stream, const T* sums, const View& out) {
  using E = Bits<T>;
  const std::int64_t c = out.shape[1], pixels = out.shape[2] * out.shape[3];
  const gemm_device::Lying<E> from{
      reinterpret_cast<const E*>(sums), c, pixels, out.shape[0], 1, c, pixels * c};
  gemm_device::lay_along_k<<<gemm_device::tiles_of(from, pixels), gemm_device::kLayThreads, 0,
                             native(stream)>>>(from, static_cast<E*>(out.data), pixels);
  return cuda_result(cudaGetLastError(), "conv2d");
}

}  // namespace planck::conv_device
