#include "planck/io/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace planck {

namespace {

struct Decoded {
  std::uint32_t point;
  std::size_t bytes;  // 0: not UTF-8
};

// The code point that begins a text. Overlong forms, surrogates and what lies beyond 10ffff are
// not UTF-8.
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
  if (bytes == 0 || first > 0xf4 || text.size() < bytes) return {first, 0};
  std::uint32_t point = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {first, 0};
    point = point << 6 | (byte(i) & 0x3fu);
  }
  const bool overlong = (bytes == 3 && point < 0x800) || (bytes == 4 && point < 0x10000);
  if (overlong || (point >= 0xd800 && point < 0xe000) || point > 0x10ffff) return {first, 0};
  return {point, bytes};
}

bool steers(std::uint32_t p) {
  const auto within = [p](std::uint32_t first, std::uint32_t last) {
    return p >= first && p <= last;
  };
  return within(0x80, 0x9f) || p == 0x61c || p == 0x180e || p == 0x200b || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2060, 0x206f) || p == 0xfeff ||
         within(0xfff9, 0xfffb) || within(0xe0000, 0xe007f);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto [point, bytes] = decode(text);
    if (bytes == 0 || point < 0x20 || point == 0x7f)
      out += fmt::format("\\x{:02x}", point);
    else if (steers(point))
      out += fmt::format("\\u{:04x}", point);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
  return out;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string shortened(std::string_view text, std::size_t columns) {
  const std::size_t all = columns_of(text);
  if (all <= columns || columns == 0) return std::string(text);
  const std::size_t kept = columns - 1, head = (kept + 1) / 2, tail = kept - head;
  // The byte where code point n begins.
  const auto byte_of = [&](std::size_t n) {
    std::size_t at = 0;
    for (; at < text.size(); ++at)
      if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && n-- == 0) break;
    return at;
  };
  return fmt::format("{}…{}", text.substr(0, byte_of(head)), text.substr(byte_of(all - tail)));
}

}  // namespace planck
