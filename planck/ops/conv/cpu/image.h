// Dense copies of images, in the type they are computed in, with their borders of zeros: whatever
// strides, dtype and padding were, what the kernel covers lies at one offset from each place.
#pragma once

#include "planck/core/stream.h"
#include "planck/core/view.h"

namespace planck::conv_detail {

struct ImageLayout {
  std::int64_t channels, height, width;  // of the copy, borders included
  std::int64_t top, left;                // where the image's first row and column lie in it
  std::int64_t step = 1;                 // columns that many apart lie side by side
  bool channels_last = false;  // [n][row][column][channel], else [n][channel][row][column]

  std::int64_t pitch() const { return (width + step - 1) / step; }
  std::int64_t row() const { return channels_last ? width * channels : step * pitch(); }
  std::int64_t channel() const { return channels_last ? 1 : height * row(); }
  std::int64_t image() const { return height * row() * (channels_last ? 1 : channels); }
  std::int64_t column(std::int64_t w) const {
    return channels_last ? w * channels : w % step * pitch() + w / step;
  }
};

// Elements that may be read behind the last image.
inline constexpr std::int64_t kSlack = 64;

// Images [first, first + count) of x [N, C, H, W]. What does not fit into the layout is left out.
// T: float for f32, f16, bf16; double; std::int8_t.
template <class T>
void copy_images(const Stream& stream, const ImageLayout& layout, const View& x, std::int64_t first,
                 std::int64_t count, T* out);

}  // namespace planck::conv_detail
