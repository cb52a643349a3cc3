// Loops over windows of 2 x 2 pixels side by side, on dense rows.
#pragma once

#include <cstdint>

namespace planck {

// Some rows of windows of one plane. A row of windows belongs to two rows of the image.
template <class C>
struct PairRows {
  C* image;  // x or dx
  std::int64_t image_row;
  C* windows;  // y or dy
  std::int64_t windows_row;
  std::int32_t* indices;  // null for averages
  std::int64_t indices_row;
  std::int64_t rows, n;       // n windows per row
  std::int64_t first, width;  // the position of the first pixel, pixels from row to row
};

template <class C>
struct PairLoops {
  void (*largest)(const PairRows<C>&);
  void (*largest_backward)(const PairRows<C>&);
  void (*average)(const PairRows<C>&);
  void (*average_backward)(const PairRows<C>&);
};

template <class C>
const PairLoops<C>& pair_loops();

}  // namespace planck
