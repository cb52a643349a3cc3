// Portions of elements between memory of any stride and compute arrays.
//
// A CPU kernel works on portions of at most kPortion elements and, within a portion, on steps of
// kStep that stay in the first-level cache. Dense operands are read and written in place
// (steps-inl.h); all others are gathered into an array first, here. Offsets and strides count
// elements from `base`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/core/dtype.h"

namespace planck {

inline constexpr int kPortion = 1024;  // elements of a portion
inline constexpr int kStep = 256;      // of a step
inline constexpr int kChunk = 64;      // of a loop of constant length

// Stored bits of a quantized integer, exclusive or this, are the integer plus this.
inline std::int32_t sign_of(Dtype t) { return t == Dtype::s8 ? 128 : t == Dtype::s4 ? 8 : 0; }

// Dense elements of a portion. `ahead`: how many bytes further on to prefetch. `row`: bytes from
// one row to the next, where a portion has several.
struct Source {
  const void* data;
  Dtype dtype;
  std::int64_t ahead = 4096;
  std::int64_t row = 0;
  Source at_row(int r) const {
    return {static_cast<const std::byte*>(data) + r * row, dtype, ahead, row};
  }
  // Without the first i elements; of whole bytes.
  Source from(int i) const {
    const auto bytes = static_cast<std::int64_t>(storage_bytes(dtype));
    return {static_cast<const std::byte*>(data) + i * bytes, dtype, ahead, row};
  }
};
struct Sink {
  void* data;
  Dtype dtype;
  bool stream;  // bypass the caches: for outputs larger than they are
  std::int64_t row = 0;
  Sink at_row(int r) const { return {static_cast<std::byte*>(data) + r * row, dtype, stream, row}; }
};

// One table per instruction set; portion_ops() is the best this CPU has.
struct PortionOps {
  void (*load_f32)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                   float* out);
  void (*load_f64)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                   double* out);
  void (*load_i32)(const void* base, std::int64_t offset, std::int64_t stride, int n,
                   std::int32_t* out);
  // Quantized integers as bytes, sign-extended to 8 bits.
  void (*gather_q)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                   std::uint8_t* out);
  void (*store_f32)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                    const float* in);
  void (*store_f64)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                    const double* in);
  // Low bytes of quantized integers; for packed dtypes stride is 1 and offset and n are even.
  void (*store_q)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                  const std::uint8_t* in);
  // Rows × columns of elements of whole bytes, rows contiguous in memory and `stride` between
  // columns, transposed: out[row * out_stride + column].
  void (*load_tile)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int rows,
                    int columns, void* out, int out_stride);
  // Rows of at most kStep quantized integers as bytes, `step` bytes apart, to rows of `to`.
  void (*store_q_rows)(int rows, int n, const std::uint8_t* in, std::int64_t step, const Sink& to);
};

const PortionOps& portion_ops();

// Same names for both compute types.
inline void load_portion(const PortionOps& ops, Dtype t, const void* b, std::int64_t o,
                         std::int64_t s, int n, float* out) {
  ops.load_f32(t, b, o, s, n, out);
}
inline void load_portion(const PortionOps& ops, Dtype t, const void* b, std::int64_t o,
                         std::int64_t s, int n, double* out) {
  ops.load_f64(t, b, o, s, n, out);
}
inline void store_portion(const PortionOps& ops, Dtype t, void* b, std::int64_t o, std::int64_t s,
                          int n, const float* in) {
  ops.store_f32(t, b, o, s, n, in);
}
inline void store_portion(const PortionOps& ops, Dtype t, void* b, std::int64_t o, std::int64_t s,
                          int n, const double* in) {
  ops.store_f64(t, b, o, s, n, in);
}

}  // namespace planck
