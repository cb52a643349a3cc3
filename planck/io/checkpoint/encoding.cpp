#include "planck/io/checkpoint/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planck/io/checkpoint/narrow_floats.h"
#include "planck/io/gguf/decode_blocks.h"
#include "planck/io/safetensors_header.h"

namespace planck {

namespace {

constexpr std::array<TensorEncoding, 48> kEncodings = {{
    {"F64", 1, 8, Dtype::f64, nullptr, 28, true},
    {"F32", 1, 4, Dtype::f32, nullptr, 0, true},
    {"F16", 1, 2, Dtype::f16, nullptr, 1, true},
    {"BF16", 1, 2, Dtype::bf16, nullptr, 30, true},
    {"I64", 1, 8, Dtype::i64, nullptr, 27, true},
    {"I32", 1, 4, Dtype::i32, nullptr, 26, true},
    {"I16", 1, 2, {}, nullptr, 25, true},
    {"I8", 1, 1, Dtype::s8, nullptr, 24, true},
    {"U64", 1, 8, {}, nullptr, -1, true},
    {"U32", 1, 4, {}, nullptr, -1, true},
    {"U16", 1, 2, {}, nullptr, -1, true},
    {"U8", 1, 1, Dtype::u8, nullptr, -1, true},
    {"BOOL", 1, 1, Dtype::boolean, nullptr, -1, true},
    {"C64", 1, 8, {}, nullptr, -1, true},
    {"F8_E4M3", 1, 1, {}, decode_f8_e4m3, -1, true},
    {"F8_E5M2", 1, 1, {}, decode_f8_e5m2, -1, true},
    {"F8_E8M0", 1, 1, {}, decode_f8_e8m0, -1, true},
    {"F8_E4M3FNUZ", 1, 1, {}, decode_f8_e4m3fnuz, -1, true},
    {"F8_E5M2FNUZ", 1, 1, {}, decode_f8_e5m2fnuz, -1, true},
    {"F6_E2M3", 4, 3, {}, nullptr, -1, true},
    {"F6_E3M2", 4, 3, {}, nullptr, -1, true},
    {"F4", 2, 1, {}, decode_f4_e2m1, -1, true},
    {"Q4_0", 32, 18, {}, decode_q4_0, 2, false},
    {"Q4_1", 32, 20, {}, decode_q4_1, 3, false},
    {"Q5_0", 32, 22, {}, decode_q5_0, 6, false},
    {"Q5_1", 32, 24, {}, decode_q5_1, 7, false},
    {"Q8_0", 32, 34, {}, decode_q8_0, 8, false},
    {"Q8_1", 32, 40, {}, nullptr, 9, false},
    {"Q2_K", 256, 84, {}, decode_q2_k, 10, false},
    {"Q3_K", 256, 110, {}, decode_q3_k, 11, false},
    {"Q4_K", 256, 144, {}, decode_q4_k, 12, false},
    {"Q5_K", 256, 176, {}, decode_q5_k, 13, false},
    {"Q6_K", 256, 210, {}, decode_q6_k, 14, false},
    {"Q8_K", 256, 292, {}, nullptr, 15, false},
    {"IQ2_XXS", 256, 66, {}, nullptr, 16, false},
    {"IQ2_XS", 256, 74, {}, nullptr, 17, false},
    {"IQ3_XXS", 256, 98, {}, nullptr, 18, false},
    {"IQ1_S", 256, 50, {}, nullptr, 19, false},
    {"IQ4_NL", 32, 18, {}, decode_iq4_nl, 20, false},
    {"IQ3_S", 256, 110, {}, nullptr, 21, false},
    {"IQ2_S", 256, 82, {}, nullptr, 22, false},
    {"IQ4_XS", 256, 136, {}, nullptr, 23, false},
    {"IQ1_M", 256, 56, {}, nullptr, 29, false},
    {"TQ1_0", 256, 54, {}, nullptr, 34, false},
    {"TQ2_0", 256, 66, {}, nullptr, 35, false},
    {"MXFP4", 32, 17, {}, decode_mxfp4, 39, false},
    {"NVFP4", 64, 36, {}, nullptr, 40, false},
    {"Q1_0", 128, 18, {}, nullptr, 41, false},
}};

template <class Is>
const TensorEncoding* first(Is is) {
  for (const TensorEncoding& e : all_encodings())
    if (is(e)) return &e;
  return nullptr;
}

}  // namespace

std::span<const TensorEncoding> all_encodings() { return kEncodings; }

const TensorEncoding* find_encoding(std::string_view text) {
  return first([&](const TensorEncoding& e) { return e.text == text; });
}
const TensorEncoding* find_gguf_encoding(std::uint32_t type) {
  return first([&](const TensorEncoding& e) {
    return e.gguf >= 0 && static_cast<std::uint32_t>(e.gguf) == type;
  });
}
const TensorEncoding& encoding_of(Dtype dtype) {
  return *first([&](const TensorEncoding& e) { return e.dtype == dtype; });
}

Result<std::uint64_t> encoded_bytes(const TensorEncoding& encoding,
                                    std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      return fail(ErrorCode::io,
                  fmt::format("shape {} has a negative extent, {}", shape_text(shape), extent));
    if (__builtin_mul_overflow(count, extent, &count))
      return fail(ErrorCode::io,
                  fmt::format("shape {} has more elements than fit in int64", shape_text(shape)));
  }
  const std::int64_t row = shape.empty() ? 1 : shape.back();
  if (encoding.elements > 4 ? row % encoding.elements != 0 : count % encoding.elements != 0)
    return fail(ErrorCode::io,
                fmt::format("shape {} of {} has rows of {}, not whole blocks of {}",
                            shape_text(shape), encoding.text, row, encoding.elements));
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count / encoding.elements, std::int64_t{encoding.bytes}, &bytes))
    return fail(ErrorCode::io, fmt::format("shape {} of {} has more bytes than fit in int64",
                                           shape_text(shape), encoding.text));
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace planck
