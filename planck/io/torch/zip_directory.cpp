#include "planck/io/torch/zip_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "planck/io/safetensors_header.h"

namespace planck {

namespace {

constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocator64Mark = 0x07064b50,
                        kEntryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kEntryBytes = 46,
                        kLocalBytes = 30, kLongestComment = 65535;

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

// A number of the file; the caller has checked that it lies inside.
template <class T>
T number_at(std::span<const std::byte> file, std::uint64_t at) {
  T value{};
  std::memcpy(&value, file.data() + at, sizeof(T));
  return value;
}

bool holds(std::span<const std::byte> file, std::uint64_t at, std::uint64_t bytes) {
  return at <= file.size() && bytes <= file.size() - at;
}

struct Directory {
  std::uint64_t count = 0, bytes = 0, begin = 0;
};

// The record at the end, behind which there may be a comment.
std::optional<std::uint64_t> find_end(std::span<const std::byte> file) {
  if (file.size() < kEndBytes) return std::nullopt;
  const std::uint64_t last = file.size() - kEndBytes;
  const std::uint64_t first = last > kLongestComment ? last - kLongestComment : 0;
  for (std::uint64_t at = last + 1; at-- > first;)
    if (number_at<std::uint32_t>(file, at) == kEndMark) return at;
  return std::nullopt;
}

Result<Directory> find_directory(std::span<const std::byte> file) {
  const auto end = find_end(file);
  if (!end) return refuse("is not a ZIP archive: it has no end record");
  Directory d{number_at<std::uint16_t>(file, *end + 10), number_at<std::uint32_t>(file, *end + 12),
              number_at<std::uint32_t>(file, *end + 16)};
  const bool wide = d.count == 0xffff || d.bytes == 0xffffffff || d.begin == 0xffffffff;
  if (wide && *end >= kLocatorBytes &&
      number_at<std::uint32_t>(file, *end - kLocatorBytes) == kLocator64Mark) {
    const auto at = number_at<std::uint64_t>(file, *end - kLocatorBytes + 8);
    if (!holds(file, at, kEnd64Bytes) || number_at<std::uint32_t>(file, at) != kEnd64Mark)
      return refuse(fmt::format("ZIP: the ZIP64 end record is not at byte {}", at));
    d = {number_at<std::uint64_t>(file, at + 32), number_at<std::uint64_t>(file, at + 40),
         number_at<std::uint64_t>(file, at + 48)};
  }
  if (!holds(file, d.begin, d.bytes))
    return refuse(fmt::format("ZIP: the directory has {} bytes at byte {}, the file has {}",
                              d.bytes, d.begin, file.size()));
  if (d.count > d.bytes / kEntryBytes)
    return refuse(fmt::format("ZIP: {} members in a directory of {} bytes", d.count, d.bytes));
  return d;
}

// Sizes of 0xffffffff are in the extra field 1, in the order in which they are needed.
void widen(std::span<const std::byte> extra, std::uint64_t& full, std::uint64_t& stored,
           std::uint64_t& local) {
  while (extra.size() >= 4) {
    const auto id = number_at<std::uint16_t>(extra, 0), bytes = number_at<std::uint16_t>(extra, 2);
    if (bytes > extra.size() - 4) return;
    auto field = extra.subspan(4, bytes);
    if (id == 1)
      for (std::uint64_t* value : {&full, &stored, &local})
        if (*value == 0xffffffff && field.size() >= 8) {
          *value = number_at<std::uint64_t>(field, 0);
          field = field.subspan(8);
        }
    extra = extra.subspan(4u + bytes);
  }
}

}  // namespace

Result<ZipDirectory> read_zip(std::span<const std::byte> file) {
  const auto directory = find_directory(file);
  if (!directory) return tl::unexpected(directory.error());
  ZipDirectory members;
  std::uint64_t at = directory->begin;
  const std::uint64_t end = directory->begin + directory->bytes;
  for (std::uint64_t i = 0; i < directory->count; ++i) {
    if (end - at < kEntryBytes || number_at<std::uint32_t>(file, at) != kEntryMark)
      return refuse(
          fmt::format("ZIP: member {} of {} is not at byte {}", i + 1, directory->count, at));
    const auto flags = number_at<std::uint16_t>(file, at + 8);
    const auto method = number_at<std::uint16_t>(file, at + 10);
    std::uint64_t stored = number_at<std::uint32_t>(file, at + 20);
    std::uint64_t full = number_at<std::uint32_t>(file, at + 24);
    const std::uint64_t name_bytes = number_at<std::uint16_t>(file, at + 28);
    const std::uint64_t extra_bytes = number_at<std::uint16_t>(file, at + 30);
    const std::uint64_t comment_bytes = number_at<std::uint16_t>(file, at + 32);
    std::uint64_t local = number_at<std::uint32_t>(file, at + 42);
    const std::uint64_t tail = name_bytes + extra_bytes + comment_bytes;
    if (tail > end - at - kEntryBytes)
      return refuse(
          fmt::format("ZIP: member {} of {} ends behind the directory", i + 1, directory->count));
    const std::string name(reinterpret_cast<const char*>(file.data()) + at + kEntryBytes,
                           name_bytes);
    widen(file.subspan(at + kEntryBytes + name_bytes, extra_bytes), full, stored, local);
    at += kEntryBytes + tail;

    const auto named = [&](std::string why) {
      return refuse(fmt::format("ZIP: member {}: {}", in_quotes(name), why));
    };
    if ((flags & 1) != 0) return named("is encrypted");
    if (method != 0)
      return named(fmt::format("is compressed (method {}), only stored ones are read", method));
    if (full != stored)
      return named(
          fmt::format("has {} bytes and {} stored ones, which must be the same", full, stored));
    if (!holds(file, local, kLocalBytes) || number_at<std::uint32_t>(file, local) != kLocalMark)
      return named(fmt::format("is not at byte {}", local));
    const std::uint64_t begin = local + kLocalBytes + number_at<std::uint16_t>(file, local + 26) +
                                number_at<std::uint16_t>(file, local + 28);
    if (!holds(file, begin, stored))
      return named(
          fmt::format("has {} bytes at byte {}, the file has {}", stored, begin, file.size()));
    if (!members.try_emplace(name, ZipMember{begin, stored}).second)
      return named("the name occurs twice");
  }
  return members;
}

}  // namespace planck
