// Operands of the products of tensor_core and exact, packed from where they lie: windows of an
// image, row by row or column by column, and weights. No copy of an image is made.
#pragma once

#include "planck/core/view.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/ops/conv/host/windows.h"

namespace planck::conv_detail {

inline gemm::Side side_of(const gemm::Lines& lines) {
  return {nullptr, Dtype::f32, 0, 0, 0, &lines};
}

// A group's part of an image, x or dy.
struct Image {
  const View* view;
  std::int64_t channel;  // the first of the group
  bool finite = true;    // false: NaN and infinities are packed as zeros
};

// The matrix of windows [place][k].
class WindowMatrix {
 public:
  WindowMatrix(const Windows& w, const Image& image) : w_(w), image_(image) {}

  // Places [p0, p0 + places) and k [k0, k0 + depth) to out[place · place_step + k · k_step].
  void fill(std::int64_t p0, std::int64_t places, std::int64_t k0, std::int64_t depth, float* out,
            std::int64_t place_step, std::int64_t k_step) const;
  bool finite() const { return image_.finite; }

 private:
  void fill_tap(std::int64_t tap, std::int64_t channel, std::int64_t channels, std::int64_t p0,
                std::int64_t places, float* out, std::int64_t place_step,
                std::int64_t k_step) const;

  Windows w_;
  Image image_;
};

// Its rows are the product's: k is (tap, channel).
struct WindowRows final : gemm::Lines {
  const WindowMatrix& matrix;
  explicit WindowRows(const WindowMatrix& m) : matrix(m) {}
  void pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k, int width,
            float* out) const override;
};
// Its columns are: k is places, from `begin` on.
struct WindowColumns final : gemm::Lines {
  const WindowMatrix& matrix;
  std::int64_t begin = 0;
  explicit WindowColumns(const WindowMatrix& m) : matrix(m) {}
  void pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k, int width,
            float* out) const override;
};

// Weights of one phase and group: a row for each filter (y) or channel (dx), k as in the windows.
class WeightRows final : public gemm::Lines {
 public:
  WeightRows(const ConvProblem& p, const Windows& w, const View& weight, std::int64_t group,
             bool finite);
  void pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k, int width,
            float* out) const override;
  // Of row r and k = (tap, channel), in elements.
  std::int64_t offset(std::int64_t row, std::int64_t tap, std::int64_t channel) const {
    return first_ + row * row_ + channel * channel_ + tap / w_.across.taps * down_ +
           tap % w_.across.taps * across_;
  }

 private:
  Windows w_;
  const View& weight_;
  std::int64_t first_, row_, channel_, down_, across_;
  bool finite_;
};

}  // namespace planck::conv_detail
