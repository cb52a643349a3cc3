// Weights of any dtype and strides, packed for the tiles of a product (loops/gemm/cpu/tile.h).
#pragma once

#include <algorithm>
#include <type_traits>

#include "planck/core/view.h"
#include "planck/loops/gemm/cpu/pack.h"

namespace planck::conv_detail {

// Rows of weights as panels of tiles, k in steps of kMostDepth.
template <class S, class C>
void pack_weights(const S* from, std::int64_t row_stride, std::int64_t rows, std::int64_t k,
                  const std::int64_t* at, int width, C* out) {
  for (std::int64_t first = 0; first < rows;
       first += width, out += width * gemm::packed_depth<C>(k)) {
    const int n = static_cast<int>(std::min<std::int64_t>(width, rows - first));
    const S* row = from + first * row_stride;
    const auto value = [&](int r, std::int64_t i) {
      return i < k ? static_cast<C>(row[r * row_stride + at[i]]) : C{0};
    };
    for (std::int64_t i = 0; i < gemm::packed_depth<C>(k); ++i)
      for (int r = 0; r < width; ++r) {
        C& to = out[i * width + r];
        if (r >= n)
          to = 0;
        else if constexpr (std::is_same_v<C, std::int32_t>)  // two of k to a word
          to = static_cast<C>(static_cast<std::uint32_t>(value(r, 2 * i + 1)) << 16 |
                              (static_cast<std::uint32_t>(value(r, 2 * i)) & 0xffffu));
        else
          to = value(r, i);
      }
  }
}
template <class C>
void pack_weights(const View& w, std::int64_t offset, std::int64_t row_stride, std::int64_t rows,
                  std::int64_t k, const std::int64_t* at, int width, C* out) {
  const auto of = [&]<class S>(S) {
    pack_weights(static_cast<const S*>(w.data) + offset, row_stride, rows, k, at, width, out);
  };
  if constexpr (std::is_same_v<C, float>)
    w.dtype == Dtype::f16 ? of(f16{}) : w.dtype == Dtype::bf16 ? of(bf16{}) : of(float{});
  else if constexpr (std::is_same_v<C, double>)
    of(double{});
  else
    of(std::int8_t{});
}

}  // namespace planck::conv_detail
