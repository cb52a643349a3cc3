// Short blocks of elements between memory and compute arrays: conversion, gathering, packing,
// streaming stores.
//
// A CPU kernel works on blocks of at most kBlock elements that stay in the first-level cache: load
// each operand into an array of the compute type, do the math, store. Conversions are those of
// planck/core/half.h, bit for bit, on every instruction set. Offsets and strides count elements
// from `base`.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck {

inline constexpr int kBlock = 1024;

// One table for each instruction set; block_ops() is the best this CPU has.
struct BlockOps {
  void (*load_f32)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                   float* out);
  void (*load_f64)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                   double* out);
  void (*load_i32)(const void* base, std::int64_t offset, std::int64_t stride, int n,
                   std::int32_t* out);
  // Quantized integers, sign-extended.
  void (*load_q)(Dtype, const void* base, std::int64_t offset, std::int64_t stride, int n,
                 std::int32_t* out);

  // stream: bypass the caches, for outputs that are larger than they are.
  void (*store_f32)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                    const float* in, bool stream);
  void (*store_f64)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                    const double* in, bool stream);
  // Low bytes of quantized integers; for packed dtypes stride is 1 and offset and n are even.
  void (*store_q)(Dtype, void* base, std::int64_t offset, std::int64_t stride, int n,
                  const std::uint8_t* in, bool stream);
};

const BlockOps& block_ops();

// Same names for both compute types.
inline void load_block(const BlockOps& ops, Dtype t, const void* b, std::int64_t o, std::int64_t s,
                       int n, float* out) {
  ops.load_f32(t, b, o, s, n, out);
}
inline void load_block(const BlockOps& ops, Dtype t, const void* b, std::int64_t o, std::int64_t s,
                       int n, double* out) {
  ops.load_f64(t, b, o, s, n, out);
}
inline void store_block(const BlockOps& ops, Dtype t, void* b, std::int64_t o, std::int64_t s,
                        int n, const float* in, bool stream) {
  ops.store_f32(t, b, o, s, n, in, stream);
}
inline void store_block(const BlockOps& ops, Dtype t, void* b, std::int64_t o, std::int64_t s,
                        int n, const double* in, bool stream) {
  ops.store_f64(t, b, o, s, n, in, stream);
}

}  // namespace planck
