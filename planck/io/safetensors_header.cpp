#include "planck/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planck/io/printable.h"
#include "planck/io/safetensors_json.h"

namespace planck {

namespace {

constexpr std::array<SafetensorsDtype, 22> kDtypes = {{
    {"F64", 64, Dtype::f64},   {"I64", 64, Dtype::i64},
    {"U64", 64, {}},           {"C64", 64, {}},
    {"F32", 32, Dtype::f32},   {"I32", 32, Dtype::i32},
    {"U32", 32, {}},           {"F16", 16, Dtype::f16},
    {"BF16", 16, Dtype::bf16}, {"I16", 16, {}},
    {"U16", 16, {}},           {"I8", 8, Dtype::s8},
    {"U8", 8, Dtype::u8},      {"BOOL", 8, Dtype::boolean},
    {"F8_E4M3", 8, {}},        {"F8_E5M2", 8, {}},
    {"F8_E8M0", 8, {}},        {"F8_E4M3FNUZ", 8, {}},
    {"F8_E5M2FNUZ", 8, {}},    {"F6_E2M3", 6, {}},
    {"F6_E3M2", 6, {}},        {"F4", 4, {}},
}};

// The ranges, in order of their bytes, must tile [0, data_bytes).
Result<void> check_tiling(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes) {
  std::uint64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.begin < at)
      return fail(ErrorCode::io,
                  fmt::format("tensor {}: begins at byte {}, the tensor before it ends at {}",
                              in_quotes(e.name), e.begin, at));
    if (e.begin > at)
      return fail(ErrorCode::io, fmt::format("tensor {}: begins at byte {}, a hole after byte {}",
                                             in_quotes(e.name), e.begin, at));
    if (e.end > data_bytes)
      return fail(ErrorCode::io,
                  fmt::format("tensor {}: ends at byte {}, the file holds {} bytes of data",
                              in_quotes(e.name), e.end, data_bytes));
    at = e.end;
  }
  if (at != data_bytes)
    return fail(
        ErrorCode::io,
        fmt::format("tensors end at byte {}, the file holds {} bytes of data", at, data_bytes));
  return {};
}

}  // namespace

const SafetensorsDtype* find_safetensors_dtype(std::string_view text) {
  const auto it = std::find_if(kDtypes.begin(), kDtypes.end(),
                               [&](const SafetensorsDtype& t) { return t.text == text; });
  return it == kDtypes.end() ? nullptr : &*it;
}

std::string_view safetensors_dtype(Dtype dtype) {
  if (is_packed(dtype)) return "U8";
  return std::find_if(kDtypes.begin(), kDtypes.end(),
                      [&](const SafetensorsDtype& t) { return t.dtype == dtype; })
      ->text;
}

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto it = std::find_if(entries.begin(), entries.end(),
                               [&](const SafetensorsEntry& e) { return e.name == name; });
  return it == entries.end() ? nullptr : &*it;
}

std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 80;
  std::size_t cut = std::min(name.size(), kLongest);
  while (cut < name.size() && cut > 0 && (static_cast<unsigned char>(name[cut]) & 0xc0) == 0x80)
    --cut;  // not inside a UTF-8 sequence
  return fmt::format("\"{}{}\"", printable(name.substr(0, cut)), cut < name.size() ? "…" : "");
}

std::string shape_text(std::span<const std::int64_t> shape) {
  constexpr std::size_t kMost = 16;
  if (shape.size() > kMost)
    return fmt::format("[{}, … {} extents]", fmt::join(shape.first(kMost), ", "), shape.size());
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::uint64_t> safetensors_bytes(const SafetensorsDtype& type,
                                        std::span<const std::int64_t> shape) {
  std::int64_t bits = type.bits;
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      return fail(ErrorCode::io,
                  fmt::format("shape {} has a negative extent, {}", shape_text(shape), extent));
    if (__builtin_mul_overflow(bits, extent, &bits))
      return fail(ErrorCode::io, fmt::format("shape {} of {} has more bits than fit in int64",
                                             shape_text(shape), type.text));
  }
  if (bits % 8 != 0)
    return fail(ErrorCode::io,
                fmt::format("shape {} of {} has {} bits, not a whole number of bytes",
                            shape_text(shape), type.text, bits));
  return static_cast<std::uint64_t>(bits / 8);
}

Result<SafetensorsHeader> parse_header(std::span<const std::byte> file) {
  if (file.empty())
    return fail(ErrorCode::io, "the file is empty, a safetensors file has 8 bytes at least");
  if (file.size() < 8)
    return fail(
        ErrorCode::io,
        fmt::format("the file has {} bytes, a safetensors file has 8 at least", file.size()));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i)
    length = length << 8 | std::to_integer<std::uint64_t>(file[static_cast<std::size_t>(i)]);
  if (length > kMaxSafetensorsHeader)
    return fail(ErrorCode::io, fmt::format("header length is {}, at most {} are allowed", length,
                                           kMaxSafetensorsHeader));
  if (length > file.size() - 8)
    return fail(ErrorCode::io, fmt::format("header length is {}, the file has {} bytes after it",
                                           length, file.size() - 8));
  if (length < 2)
    return fail(ErrorCode::io, fmt::format("header length is {}, \"{{}}\" needs 2", length));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);

  auto header = parse_header_json(text);
  if (!header) return header;
  header->data_begin = 8 + length;
  for (const SafetensorsEntry& e : header->entries) {
    const auto named = [&](std::string why) {
      return fail(ErrorCode::io, fmt::format("tensor {}: {}", in_quotes(e.name), why));
    };
    if (e.end < e.begin)
      return named(fmt::format("data_offsets end at {}, before they begin at {}", e.end, e.begin));
    const auto need = safetensors_bytes(*e.type, e.shape);
    if (!need) return named(need.error().message);
    if (e.bytes() != *need)
      return named(fmt::format("data_offsets hold {} bytes, {} of shape {} needs {}", e.bytes(),
                               e.type->text, shape_text(e.shape), *need));
  }
  std::stable_sort(header->entries.begin(), header->entries.end(),
                   [](const auto& a, const auto& b) {
                     return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
                   });
  if (auto ok = check_tiling(header->entries, file.size() - header->data_begin); !ok)
    return tl::unexpected(ok.error());
  return header;
}

Result<std::string> layout_header(SafetensorsHeader& header) {
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return a.type->bits != b.type->bits ? a.type->bits > b.type->bits : a.name < b.name;
  });
  std::uint64_t at = 0;
  for (SafetensorsEntry& e : header.entries) {
    const auto need = safetensors_bytes(*e.type, e.shape);
    if (!need)
      return fail(ErrorCode::io,
                  fmt::format("tensor {}: {}", in_quotes(e.name), need.error().message));
    e.begin = at;
    if (__builtin_add_overflow(at, *need, &at))
      return fail(ErrorCode::io, fmt::format("tensor {}: all tensors together exceed 2^64 bytes",
                                             in_quotes(e.name)));
    e.end = at;
  }
  auto json = header_json(header);
  if (!json) return json;
  json->append((8 - json->size() % 8) % 8, ' ');
  if (json->size() > kMaxSafetensorsHeader)
    return fail(ErrorCode::io, fmt::format("header length is {}, at most {} are allowed",
                                           json->size(), kMaxSafetensorsHeader));
  header.data_begin = 8 + json->size();
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>(json->size() >> (8 * i) & 0xff);
  return bytes + *json;
}

}  // namespace planck
