// The input of a CPU reduction, by positions group * length + element.
#pragma once

#include "planck/core/view.h"
#include "planck/loops/cpu/positions.h"
#include "planck/loops/rows/cpu/reduce.h"

namespace planck {

// One input, read as C.
template <class C>
struct ReduceInput {
  MapOperand x;
  bool dense;

  ReduceInput(const View& view, const Walk& walk)
      : x{view.data, view.dtype, walk}, dense(walk.dense()) {}

  // Elements at positions [begin, begin + n), n <= kPortion.
  Source gathered(std::int64_t begin, int n, C* buffer) const {
    C* to = buffer;
    x.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      const int m = static_cast<int>(length);
      if constexpr (std::is_same_v<C, std::int32_t>)
        portion_ops().load_i32(x.base, offset, stride, m, to);
      else if constexpr (std::is_same_v<C, std::int64_t>)
        for (int k = 0; k < m; ++k) to[k] = static_cast<const C*>(x.base)[offset + k * stride];
      else if constexpr (std::is_same_v<C, std::uint8_t>)
        portion_ops().gather_q(Dtype::u8, x.base, offset, stride, m, to);
      else
        load_portion(portion_ops(), x.dtype, x.base, offset, stride, m, to);
      to += length;
    });
    return {buffer, dtype_of<C>};
  }
  // Null where they are not dense.
  const void* in_place(std::int64_t begin, std::int64_t n) const {
    if (dense)
      return static_cast<const std::byte*>(x.base) +
             (x.walk.offset + begin) * static_cast<std::int64_t>(storage_bytes(x.dtype));
    return dense_at(x, begin, static_cast<int>(n));
  }
};

}  // namespace planck
