// Where the sums of a product of windows go: places of y or dx, and elements of dweight.
#pragma once

#include <algorithm>

#include "planck/core/view.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/ops/conv/host/windows.h"

namespace planck::conv_detail {

// y or dx: C is [place][channel], or [channel][place].
struct PlaceSink final : gemm::Sink {
  const Windows& w;
  const View& out;
  std::int64_t channel;  // the group's first
  bool places_are_rows;
  PlaceSink(const Windows& windows, const View& v, std::int64_t first, bool rows)
      : w(windows), out(v), channel(first), places_are_rows(rows) {}

  std::int64_t offset(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) const {
    const Strides& s = out.strides;
    return n * s[0] + (channel + c) * s[1] + (w.down.first_place + i * w.down.place_step) * s[2] +
           (w.across.first_place + j * w.across.place_step) * s[3];
  }
  void store(std::int64_t row, std::int64_t column, int n, const float* sums) const override {
    const std::int64_t wide = w.across.places, high = w.down.places;
    const auto at = [&](std::int64_t place, std::int64_t c) {
      return offset(place / wide / high, place / wide % high, place % wide, c);
    };
    if (places_are_rows)
      return gemm::store_sums(out.dtype, out.data, at(row, column), out.strides[1], n, sums);
    for (int done = 0; done < n;) {
      const std::int64_t place = column + done;
      const auto length = static_cast<int>(std::min<std::int64_t>(wide - place % wide, n - done));
      gemm::store_sums(out.dtype, out.data, at(place, row), w.across.place_step * out.strides[3],
                       length, sums + done);
      done += length;
    }
  }
};

// dweight: C is [filter][(tap, channel)], or the other way round.
struct TapSink final : gemm::Sink {
  const View& out;
  std::int64_t filter, channels;  // the group's first filter; channels of a group
  bool filters_are_rows;
  TapSink(const View& v, std::int64_t first, bool rows)
      : out(v), filter(first), channels(v.shape[1]), filters_are_rows(rows) {}

  std::int64_t offset(std::int64_t f, std::int64_t column) const {
    const Strides& s = out.strides;
    const std::int64_t tap = column / channels, c = column % channels;
    return (filter + f) * s[0] + c * s[1] + tap / out.shape[3] * s[2] + tap % out.shape[3] * s[3];
  }
  void store(std::int64_t row, std::int64_t column, int n, const float* sums) const override {
    if (!filters_are_rows)
      return gemm::store_sums(out.dtype, out.data, offset(column, row), out.strides[0], n, sums);
    for (int done = 0; done < n;) {
      const std::int64_t at = column + done;
      const auto length =
          static_cast<int>(std::min<std::int64_t>(channels - at % channels, n - done));
      gemm::store_sums(out.dtype, out.data, offset(row, at), out.strides[1], length, sums + done);
      done += length;
    }
  }
};

}  // namespace planck::conv_detail
