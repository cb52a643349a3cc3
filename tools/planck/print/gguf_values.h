// What a field of a GGUF file says, for people and machines: numbers, truth values and texts as
// they are; of an array its type, how many values it has, and the first of them. Memory does not
// depend on how many that are.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "planck/io/gguf/gguf_header.h"
#include "planck/io/safetensors_header.h"

namespace planck::cli {

namespace detail {

inline constexpr const char* kGgufTypes[] = {"u8",   "i8",   "u16",   "i16", "u32", "i32", "f32",
                                             "bool", "text", "array", "u64", "i64", "f64"};
inline constexpr std::uint32_t kGgufText = 8, kGgufArray = 9;
inline constexpr std::uint64_t kGgufShown = 8;  // values of an array

// Takes a value off the front of bytes that parse_gguf has accepted.
template <class T>
T take(std::string_view& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  bytes.remove_prefix(sizeof(T));
  return value;
}

inline nlohmann::ordered_json take_gguf_value(std::uint32_t type, std::string_view& bytes) {
  switch (type) {
    case 0:
      return take<std::uint8_t>(bytes);
    case 1:
      return take<std::int8_t>(bytes);
    case 2:
      return take<std::uint16_t>(bytes);
    case 3:
      return take<std::int16_t>(bytes);
    case 4:
      return take<std::uint32_t>(bytes);
    case 5:
      return take<std::int32_t>(bytes);
    case 6: {  // 1e-05, which is this f32, and not 9.999999747378752e-06
      const auto value = take<float>(bytes);
      return std::isfinite(value) ? std::stod(fmt::format("{}", value)) : double{value};
    }
    case 7:
      return take<std::uint8_t>(bytes) != 0;
    case 10:
      return take<std::uint64_t>(bytes);
    case 11:
      return take<std::int64_t>(bytes);
    case 12:
      return take<double>(bytes);
    case kGgufText: {
      const auto length = take<std::uint64_t>(bytes);
      const std::string text(bytes.substr(0, length));
      bytes.remove_prefix(text.size());
      return text;
    }
    default:
      break;
  }
  const auto inner = take<std::uint32_t>(bytes);
  const auto count = take<std::uint64_t>(bytes);
  auto first = nlohmann::ordered_json::array();
  for (std::uint64_t i = 0; i < std::min(count, kGgufShown) && inner != kGgufArray; ++i)
    first.push_back(take_gguf_value(inner, bytes));
  return {{"type", kGgufTypes[inner]}, {"count", count}, {"first", std::move(first)}};
}

}  // namespace detail

// An array is an object of its type, count and first values.
inline nlohmann::ordered_json gguf_json(const GgufField& field) {
  std::string_view bytes = field.value;
  return detail::take_gguf_value(field.type, bytes);
}

// In one line: 32, "llama", [32000 × text: "<unk>", "<s>", …].
inline std::string gguf_text(const GgufField& field) {
  const auto one = [](const nlohmann::ordered_json& value) {
    if (value.is_string()) return in_quotes(value.get<std::string>());
    if (value.is_number_float()) return fmt::format("{}", value.get<double>());
    return value.dump();
  };
  const auto value = gguf_json(field);
  if (!value.is_object()) return one(value);
  std::string text = fmt::format("[{} × {}", value["count"].get<std::uint64_t>(),
                                 value["type"].get<std::string>());
  const auto& first = value["first"];
  for (std::size_t i = 0; i < first.size(); ++i) text += (i == 0 ? ": " : ", ") + one(first[i]);
  return text + (first.size() < value["count"].get<std::uint64_t>() ? ", …]" : "]");
}

}  // namespace planck::cli
