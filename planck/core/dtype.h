// Element types: the enumeration, the C++ type of each, and what both have in common.
//
// s4 and u4 are packed two to a byte, the even index in the low nibble. Their C++ types stand for
// one such byte; shapes and strides of their views count logical elements.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "planck/core/half.h"

namespace planck {

enum class Dtype : std::uint8_t { f64, f32, f16, bf16, i64, i32, s8, u8, boolean, s4, u4 };

inline constexpr std::array<Dtype, 11> kAllDtypes = {
    Dtype::f64, Dtype::f32, Dtype::f16,     Dtype::bf16, Dtype::i64, Dtype::i32,
    Dtype::s8,  Dtype::u8,  Dtype::boolean, Dtype::s4,   Dtype::u4};

// Two packed 4-bit integers: the even index in the low nibble.
struct s4 {
  std::uint8_t pair;
};
struct u4 {
  std::uint8_t pair;
};

constexpr std::string_view name(Dtype t) {
  constexpr std::string_view kNames[] = {"f64", "f32", "f16",  "bf16", "i64", "i32",
                                         "s8",  "u8",  "bool", "s4",   "u4"};
  return kNames[static_cast<int>(t)];
}

constexpr std::optional<Dtype> parse_dtype(std::string_view text) {
  for (Dtype t : kAllDtypes)
    if (name(t) == text) return t;
  return std::nullopt;
}

constexpr int bits(Dtype t) {
  constexpr int kBits[] = {64, 32, 16, 16, 64, 32, 8, 8, 8, 4, 4};
  return kBits[static_cast<int>(t)];
}

constexpr bool is_packed(Dtype t) { return bits(t) < 8; }
constexpr bool is_float(Dtype t) {
  return t == Dtype::f64 || t == Dtype::f32 || t == Dtype::f16 || t == Dtype::bf16;
}
constexpr bool is_quantized(Dtype t) {
  return t == Dtype::s8 || t == Dtype::u8 || t == Dtype::s4 || t == Dtype::u4;
}

// Bytes that `elements` densely stored values take.
constexpr std::size_t bytes_for(Dtype t, std::int64_t elements) {
  return is_packed(t) ? (static_cast<std::size_t>(elements) + 1) / 2
                      : static_cast<std::size_t>(elements) * static_cast<std::size_t>(bits(t) / 8);
}

// Bytes of the smallest addressable unit: an element, or a pair of packed ones.
constexpr std::size_t storage_bytes(Dtype t) {
  return is_packed(t) ? 1 : static_cast<std::size_t>(bits(t) / 8);
}

// What arithmetic is done in: f64 for f64, f32 for all narrower floats.
constexpr Dtype compute_dtype(Dtype t) { return t == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

struct IntRange {
  std::int32_t lowest, highest;
};
constexpr IntRange int_range(Dtype t) {
  switch (t) {
    case Dtype::s8:
      return {-128, 127};
    case Dtype::u8:
      return {0, 255};
    case Dtype::s4:
      return {-8, 7};
    case Dtype::u4:
      return {0, 15};
    default:
      return {INT32_MIN, INT32_MAX};
  }
}

template <class T>
struct DtypeOf;  // the Dtype of a C++ element type
template <>
struct DtypeOf<double> {
  static constexpr Dtype value = Dtype::f64;
};
template <>
struct DtypeOf<float> {
  static constexpr Dtype value = Dtype::f32;
};
template <>
struct DtypeOf<f16> {
  static constexpr Dtype value = Dtype::f16;
};
template <>
struct DtypeOf<bf16> {
  static constexpr Dtype value = Dtype::bf16;
};
template <>
struct DtypeOf<std::int64_t> {
  static constexpr Dtype value = Dtype::i64;
};
template <>
struct DtypeOf<std::int32_t> {
  static constexpr Dtype value = Dtype::i32;
};
template <>
struct DtypeOf<std::int8_t> {
  static constexpr Dtype value = Dtype::s8;
};
template <>
struct DtypeOf<std::uint8_t> {
  static constexpr Dtype value = Dtype::u8;
};
template <>
struct DtypeOf<bool> {
  static constexpr Dtype value = Dtype::boolean;
};
template <>
struct DtypeOf<s4> {
  static constexpr Dtype value = Dtype::s4;
};
template <>
struct DtypeOf<u4> {
  static constexpr Dtype value = Dtype::u4;
};

template <class T>
inline constexpr Dtype dtype_of = DtypeOf<std::remove_const_t<T>>::value;

template <class T>
concept Float = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, f16> ||
    std::same_as<T, bf16>;

template <class T>
concept QuantizedInt = std::same_as<T, std::int8_t> || std::same_as<T, std::uint8_t> ||
    std::same_as<T, s4> || std::same_as<T, u4>;

// Calls f(std::type_identity<T>{}) with the C++ type of a floating dtype.
template <class F>
auto visit_float(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f64:
      return f(std::type_identity<double>{});
    case Dtype::f16:
      return f(std::type_identity<f16>{});
    case Dtype::bf16:
      return f(std::type_identity<bf16>{});
    default:
      return f(std::type_identity<float>{});
  }
}

}  // namespace planck
