// Workspaces of the CUDA kernels of tensor_core and exact, also known to builds without CUDA.
#pragma once

#include <algorithm>

#include "planck/ops/conv/host/chunks.h"
#include "planck/ops/conv/host/windows.h"

namespace planck::conv_device {

constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

// Parts of a workspace, one after the other, in bytes.
struct Parts {
  std::size_t end = 0;
  std::size_t add(std::int64_t bytes) {
    const std::size_t at = end;
    end += (static_cast<std::size_t>(bytes) + 255) / 256 * 256;
    return at;
  }
};

// Exponents of exact: how many of the image (y: x, dx: dy, dweight: x) and of the other operand.
struct ExactKeys {
  std::int64_t of_image, of_other;
  explicit ExactKeys(const ConvProblem& p);
};
// Magnitudes of both, 8 bytes for each key.
struct MagnitudesLayout {
  std::size_t of_image, of_other;
  MagnitudesLayout(const ExactKeys& keys, Parts& parts)
      : of_image(parts.add(8 * keys.of_image)), of_other(parts.add(8 * keys.of_other)) {}
};

// What is laid side by side at once: windows of so many bytes.
inline constexpr std::int64_t kSlabBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kWaitingBytes = std::int64_t{144} * 128 * 128 * 8;  // of exact tiles

// conv2d and conv2d_input: weights [group][row][pitch], windows of `slab` places
// [group][place][pitch], sums [place][channel]. exact: three planes of bytes each.
struct ImageLayout {
  bool exact;
  std::int64_t size, pitch, slab;  // bytes of an element; k of a row, as laid; places at once
  MagnitudesLayout magnitudes;
  std::size_t weights, windows, sums, row_exponents, column_exponents, waiting, bytes;
  explicit ImageLayout(const ConvProblem& p);
  // k of a row that has `depth`: whole chunks of 16 bytes.
  std::int64_t pitch_of(std::int64_t depth) const {
    return round_up(std::max<std::int64_t>(depth, 1), 16 / size);
  }

 private:
  ImageLayout(const ConvProblem& p, Parts parts);
};

// conv2d_weight: sums of chunks, [chunk][f][column] of f32, or of int64 for exact; windows and
// slopes of some chunks and columns of one group.
//   16 bits  windows [place][columns], slopes [place][filters]
//   TF32     windows [column][place], slopes [filter][place]
//   exact    windows [chunk][digit][column][place], slopes [chunk][digit][filter][place]
struct WeightLayout {
  bool exact;
  std::int64_t size;
  conv_detail::Chunks chunks;
  std::int64_t columns;             // in a group
  std::int64_t some, some_columns;  // chunks and columns at once
  MagnitudesLayout magnitudes;
  std::size_t sums, windows, slopes, waiting, bytes;
  explicit WeightLayout(const ConvProblem& p);

 private:
  WeightLayout(const ConvProblem& p, Parts parts);
};

// cuda:implicit: copies of the image and of dy with their channels side by side, laid weights of
// one phase, and sums [place][channel]; of dweight, sums of chunks [chunk][f][(tap, channel)], f32.
struct ImplicitLayout {
  std::size_t image, slopes, filters, sums, bytes;
  explicit ImplicitLayout(const ConvProblem& p);
};

// cuda:implicit_digits, dweight: digits of x and dy along rows of cells (host/cells.h), and sums of
// int64, `many` for each element: [some of k][group][tap][block of 64 channels][channel][filter].
struct SlopeDigitLayout {
  std::int64_t blocks, many;
  std::size_t sums;
  MagnitudesLayout magnitudes;
  std::int64_t image_pitch, slope_pitch;  // of k
  std::size_t image, slopes, bytes;
  explicit SlopeDigitLayout(const ConvProblem& p);

 private:
  SlopeDigitLayout(const ConvProblem& p, Parts parts);
};

// cuda:implicit_digits: the image and the filters of one phase as digits, channels in blocks of
// `block` bytes (digit_windows.cuh).
struct DigitLayout {
  std::int64_t block;
  MagnitudesLayout magnitudes;
  std::size_t added, sums;  // of tiles that are cut along k
  std::size_t image_exponents, filter_exponents, image, filters, bytes;
  // So many tiles may be cut, of 128 by 64 sums.
  static constexpr std::int64_t kMostCutTiles = 144, kAddedBytes = 32, kSumBytes = 128 * 64 * 8;
  explicit DigitLayout(const ConvProblem& p);

 private:
  DigitLayout(const ConvProblem& p, Parts parts);
};

}  // namespace planck::conv_device
