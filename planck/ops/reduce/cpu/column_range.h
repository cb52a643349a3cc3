// Some rows of some columns that lie side by side.
#pragma once

#include "planck/loops/cpu/portions.h"
#include "planck/loops/nest.h"

namespace planck {

struct ColumnRange {
  const void* base;  // of the columns
  Dtype dtype;
  Walk down;                  // from there to the rows
  std::int64_t begin, count;  // rows
  int n;                      // columns

  std::int64_t bytes() const { return static_cast<std::int64_t>(storage_bytes(dtype)); }
  // From a row to the one `rows` below, of most rows.
  std::int64_t ahead(std::int64_t rows) const {
    return rows * bytes() * down.stride[static_cast<std::size_t>(down.rank - 1)];
  }
  // Calls f(address) for the rows in order.
  template <class F>
  void each(const F& f) const {
    const auto* from = static_cast<const std::byte*>(base);
    down.runs(begin, count, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) f(from + (offset + i * stride) * bytes());
    });
  }
};

}  // namespace planck
