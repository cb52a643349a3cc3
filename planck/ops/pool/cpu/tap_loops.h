// Loops over one tap of many windows of a row.
#pragma once

#include <cstdint>

namespace planck {

// Pixel i of the tap is row[i * stride], and lies at position + i * stride of its plane.
template <class C>
struct Tap {
  const C* row;
  std::int64_t stride;
  int n;
  std::int32_t position;
};

template <class C>
struct TapLoops {
  // Replaces what a later pixel beats; indices are -1 where none was seen.
  void (*largest)(const Tap<C>&, C* best, std::int32_t* indices);
  void (*add)(const Tap<C>&, C* sums);
  // Adds window i's share to its pixel sums[i * stride].
  void (*spread)(const C* shares, std::int64_t stride, int n, C* sums);
  // The same, where the pixel is the window's choice: indices[i] = position + i * stride.
  void (*give)(const C* dy, const std::int32_t* indices, std::int32_t position, std::int64_t stride,
               int n, C* sums);
  // NaN made canonical.
  void (*settle)(C* values, int n);
  void (*divide)(C* sums, const C* counts, int n);
};

template <class C>
const TapLoops<C>& tap_loops();

}  // namespace planck
