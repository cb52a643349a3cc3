// Indices and offsets as CPU kernels read them, whatever their dtype, shape and strides.
#pragma once

#include <algorithm>
#include <cstddef>

#include "planck/core/view.h"
#include "planck/loops/cpu/parts.h"
#include "planck/loops/nest.h"

namespace planck {

// One occurrence of a row. U: 32 bits where both fit.
template <class U>
struct alignas(2 * sizeof(U)) Entry {
  U row, position;
};

// Positions of a tensor's leading axes, in row-major order, as offsets in elements.
class PositionMap {
 public:
  PositionMap(const View& v, int axes) {
    NestStrides extent{}, stride{};
    for (int d = 0; d < axes; ++d) {
      extent[static_cast<std::size_t>(d)] = v.shape[d];
      stride[static_cast<std::size_t>(d)] = v.strides[d];
    }
    walk_ = walk_of(make_nest(axes, extent, {&stride, 1}), 0);
  }
  const Walk& walk() const { return walk_; }
  std::int64_t offset(std::int64_t position) const {
    if (walk_.rank == 1) return position * walk_.stride[0];
    std::int64_t at = 0;
    for (auto d = static_cast<std::size_t>(walk_.rank); d-- > 0;) {
      at += position % walk_.extent[d] * walk_.stride[d];
      position /= walk_.extent[d];
    }
    return at;
  }

 private:
  Walk walk_;
};

// A tensor of i32 or i64.
class IndexReader {
 public:
  explicit IndexReader(const View& v)
      : data_(v.data), wide_(v.dtype == Dtype::i64), positions_(v, v.shape.rank()) {}

  // Calls f(position, index), or copies of f, for positions [begin, end), in order.
  template <class F>
  void each(std::int64_t begin, std::int64_t end, F f) const {
    if (begin >= end) return;
    wide_ ? each_of<std::int64_t>(begin, end, f) : each_of<std::int32_t>(begin, end, f);
  }
  // The same with f for [begin, middle) and g for [middle, end), by turns where the indices lie
  // evenly: neither waits for what the other has just stored. The halves differ by at most one.
  template <class F, class G>
  void each_half(std::int64_t begin, std::int64_t middle, std::int64_t end, F f, G g) const {
    const Walk& walk = positions_.walk();
    if (walk.rank > 1 || middle - begin > end - middle) {
      each(begin, middle, f);
      return each(middle, end, g);
    }
    wide_ ? by_turns<std::int64_t>(begin, middle, f, g)
          : by_turns<std::int32_t>(begin, middle, f, g);
    each(2 * middle - begin, end, g);
  }
  std::int64_t operator[](std::int64_t position) const {
    const std::int64_t at = positions_.offset(position);
    return wide_ ? static_cast<const std::int64_t*>(data_)[at]
                 : static_cast<const std::int32_t*>(data_)[at];
  }

 private:
  template <class Index, class F>
  void each_of(std::int64_t begin, std::int64_t end, F& f) const {
    const auto run = [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      const auto* data = static_cast<const Index*>(data_) + offset;
      F call = f;  // a copy, so that its captures stay in registers
      for (std::int64_t k = 0; k < length; ++k)
        call(begin + k, static_cast<std::int64_t>(data[k * stride]));
      begin += length;
    };
    positions_.walk().runs(begin, end - begin, run);
  }

  template <class Index, class F, class G>
  void by_turns(std::int64_t begin, std::int64_t middle, F f, G g) const {
    const Walk& walk = positions_.walk();
    const auto* data = static_cast<const Index*>(data_) + walk.offset;
    const std::int64_t stride = walk.stride[0], half = middle - begin;
    for (std::int64_t k = begin; k < middle; ++k) {
      f(k, static_cast<std::int64_t>(data[k * stride]));
      g(k + half, static_cast<std::int64_t>(data[(k + half) * stride]));
    }
  }

  const void* data_;
  bool wide_;
  PositionMap positions_;
};

}  // namespace planck
