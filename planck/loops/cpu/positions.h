// Positions of a nest as dense portions: in place if they lie densely, else through a buffer.
#pragma once

#include <algorithm>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/nest.h"

namespace planck {

// Outputs past this size are written around the caches.
inline constexpr std::size_t kStreamBytes = std::size_t{8} << 20;

// One operand, walked in a nest's order. `ahead`: see Source. `row`: bytes from one row of a panel
// or tile to the next.
struct MapOperand {
  void* base;
  Dtype dtype;
  Walk walk;
  std::int64_t ahead = 4096;
  std::int64_t row = 0;
};

// The address of positions [begin, begin + n) where they are dense in memory; else null.
inline std::byte* dense_at(const MapOperand& operand, std::int64_t begin, int n) {
  std::byte* at = nullptr;
  operand.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    if (length != n || (stride != 1 && n != 1)) return;
    if (is_packed(operand.dtype) && offset % 2 != 0) return;
    at = static_cast<std::byte*>(operand.base) +
         (is_packed(operand.dtype)
              ? offset / 2
              : offset * static_cast<std::int64_t>(storage_bytes(operand.dtype)));
  });
  return at;
}

// A float operand; `buffer` holds kPortion values of the compute type.
template <class C>
Source source_of(const MapOperand& operand, std::int64_t begin, int n, C* buffer) {
  if (const void* at = dense_at(operand, begin, n)) return {at, operand.dtype, operand.ahead};
  C* to = buffer;
  operand.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    load_portion(portion_ops(), operand.dtype, operand.base, offset, stride,
                 static_cast<int>(length), to);
    to += length;
  });
  return {buffer, dtype_of<C>};
}

// A quantized operand; gathered elements become whole bytes.
inline Source quantized_source_of(const MapOperand& operand, std::int64_t begin, int n,
                                  std::uint8_t* buffer) {
  if (const void* at = dense_at(operand, begin, n)) return {at, operand.dtype, operand.ahead};
  std::uint8_t* to = buffer;
  operand.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    portion_ops().gather_q(operand.dtype, operand.base, offset, stride, static_cast<int>(length),
                           to);
    to += length;
  });
  const bool has_sign = int_range(operand.dtype).lowest < 0;
  return {buffer, has_sign ? Dtype::s8 : Dtype::u8};
}

// Calls write(Sink) for positions [begin, begin + n) of an output: in place if they are dense, else
// through `buffer` and from there to their places.
template <class C, class F>
void with_sink(const MapOperand& operand, std::int64_t begin, int n, bool stream, C* buffer,
               F&& write) {
  if (void* at = dense_at(operand, begin, n)) return write(Sink{at, operand.dtype, stream});
  write(Sink{buffer, dtype_of<C>, false});
  const C* from = buffer;
  operand.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    const int count = static_cast<int>(length);
    if constexpr (std::is_same_v<C, std::uint8_t>)
      portion_ops().store_q(operand.dtype, operand.base, offset, stride, count, from);
    else
      store_portion(portion_ops(), operand.dtype, operand.base, offset, stride, count, from);
    from += length;
  });
}

}  // namespace planck
