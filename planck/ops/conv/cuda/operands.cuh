// Operands of a convolution as the kernels of tensor_core and exact read them: elements of windows
// and weights by (place, tap, channel), of any strides.
#pragma once

#include "planck/core/view.h"
#include "planck/ops/conv/host/windows.h"

namespace planck::conv_device {

using conv_detail::Windows;

// A tensor of four axes.
struct Tensor4 {
  void* data;
  std::int64_t strides[4];
  explicit Tensor4(const View& v)
      : data(v.data), strides{v.strides[0], v.strides[1], v.strides[2], v.strides[3]} {}
  template <class T>
  __device__ const T& at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return static_cast<const T*>(
        data)[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

struct Place {
  std::int64_t n, i, j;
};
__device__ __forceinline__ Place place_of(const Windows& w, std::int64_t number) {
  const std::int64_t wide = w.across.places, high = w.down.places;
  return {number / wide / high, number / wide % high, number % wide};
}

// What the kernel covers at a place; outside of the image it is zero.
template <class T>
__device__ __forceinline__ T window(const Windows& w, const Tensor4& image, const Place& at,
                                    std::int64_t tap, std::int64_t channel) {
  const std::int64_t h = w.down.read(at.i, tap / w.across.taps);
  const std::int64_t x = w.across.read(at.j, tap % w.across.taps);
  if (h < 0 || h >= w.down.extent || x < 0 || x >= w.across.extent) return T(0);
  return image.at<T>(at.n, channel, h, x);
}

// Weights of row r (filter of y, channel of dx) of a group.
struct WeightOperand {
  Tensor4 weight;
  std::int64_t filters;  // of a group
  bool forward;
  template <class T>
  __device__ T at(const Windows& w, std::int64_t group, std::int64_t row, std::int64_t tap,
                  std::int64_t channel) const {
    const std::int64_t u = w.down.first_tap + tap / w.across.taps * w.down.tap_step;
    const std::int64_t v = w.across.first_tap + tap % w.across.taps * w.across.tap_step;
    return forward ? weight.at<T>(group * filters + row, channel, u, v)
                   : weight.at<T>(group * filters + channel, row, u, v);
  }
};

// Where an element of y or dx lies.
__device__ __forceinline__ std::int64_t offset_of(const Windows& w, const Tensor4& out,
                                                  const Place& at, std::int64_t channel) {
  return at.n * out.strides[0] + channel * out.strides[1] +
         (w.down.first_place + at.i * w.down.place_step) * out.strides[2] +
         (w.across.first_place + at.j * w.across.place_step) * out.strides[3];
}

}  // namespace planck::conv_device
