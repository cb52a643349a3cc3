// Labelled grey images, as training wants them: the built-in digits, or a folder's.
//
// A folder holds either MNIST's four files,
//   train-images-idx3-ubyte   train-labels-idx1-ubyte     (train-images.idx3-ubyte … will do)
//   t10k-images-idx3-ubyte    t10k-labels-idx1-ubyte
// or two arrays:
//   images.npy   [count, height, width] or [count, 1, height, width]: u8 of 0 … 255, or floats
//                of 0 … 1
//   labels.npy   [count]: u8, s8, i32 or i64
// Bytes become v / 255. Labels are 0 … classes − 1; classes is one more than the largest label that
// is trained with.
//
// Everything else is refused, in one line that begins with the path and names both values: a
// missing folder or file, counts or sizes that differ, a label or a pixel out of its range.
// ErrorCode::io.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planck/core/result.h"

namespace planck {

struct ImageSet {
  std::int64_t count = 0, height = 0, width = 0;
  std::vector<float> pixels;  // [count, height, width], 0 … 1
  std::vector<std::int32_t> labels;
  int classes = 0;
};

struct ImageData {
  ImageSet train, test;
  std::string name;  // "digits", or the folder
};

// All images of a folder; of MNIST's files those for training first.
[[nodiscard]] Result<ImageSet> load_images(const std::string& folder);

// Pictures without labels: an .npy file of [height, width], [count, height, width] or [count, 1,
// height, width], pixels as above.
[[nodiscard]] Result<ImageSet> load_pictures(const std::string& path);

// Two parts: MNIST's own, else split(). "": the built-in digits, 1,437 and 360.
[[nodiscard]] Result<ImageData> load_image_data(const std::string& folder_or_empty);

// A fifth of the images, rounded up, for testing; of every class its share of them to within one
// image. Which ones, seed decides: the first of each class in shuffled(count, seed, 0). Both parts
// keep the order of the whole. At least two images.
[[nodiscard]] Result<ImageData> split(const ImageSet& all, std::uint64_t seed);

// Images and labels at these positions, one after another. pixels holds indices.size() × height ×
// width, labels indices.size().
void gather(const ImageSet& images, std::span<const std::int64_t> indices, std::span<float> pixels,
            std::span<std::int32_t> labels);

}  // namespace planck
