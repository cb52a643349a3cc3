#include "planck/io/safetensors_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

namespace planck {

namespace {

using nlohmann::json;
using namespace std::string_view_literals;

constexpr std::string_view kMetadata = "__metadata__";

// Receives the parser's events. Every member that returns false has left its reason in `error`.
class HeaderEvents {
 public:
  SafetensorsHeader header;
  std::string error;

  bool null() { return refuse("null"); }
  bool boolean(bool) { return refuse("a boolean"); }
  bool number_integer(std::int64_t value) {
    return refuse(fmt::format("the negative number {}", value));
  }
  bool number_float(double, const std::string& text) {
    return refuse(fmt::format("the number {}", text.substr(0, 40)));
  }
  bool binary(json::binary_t&) { return refuse("binary"); }

  bool number_unsigned(std::uint64_t value) {
    if (place_ != Place::shape && place_ != Place::offsets) return refuse("a number");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return refuse(fmt::format("the number {}", value));
    if (place_ == Place::shape) {
      if (entry().shape.size() == kMaxSafetensorsRank)
        return stop(
            fmt::format("{}: shape has more than {} extents", where(), kMaxSafetensorsRank));
      entry().shape.push_back(static_cast<std::int64_t>(value));
      return true;
    }
    if (offsets_ == 2) return stop(where() + ": data_offsets has more than 2 numbers, must have 2");
    (offsets_++ == 0 ? entry().begin : entry().end) = value;
    return true;
  }

  bool string(std::string& value) {
    if (place_ == Place::metadata) {
      if (header.metadata.size() == kMaxSafetensorsEntries)
        return stop(fmt::format("{} has more than {} keys", kMetadata, kMaxSafetensorsEntries));
      const auto [at, fresh] = header.metadata.try_emplace(std::move(key_), std::move(value));
      return fresh || stop(fmt::format("{}: key {} occurs twice", kMetadata, in_quotes(at->first)));
    }
    if (place_ != Place::entry || field_ != Field::dtype) return refuse("a string");
    entry().type = find_safetensors_dtype(value);
    return entry().type != nullptr || stop(fmt::format("{}: dtype is {}, not a dtype of the format",
                                                       where(), in_quotes(value)));
  }

  bool start_object(std::size_t) {
    if (place_ == Place::outside) {
      place_ = Place::top;
      return true;
    }
    if (place_ != Place::top) return refuse("an object");
    if (key_ == kMetadata) {
      if (std::exchange(metadata_seen_, true))
        return stop(fmt::format("{} occurs twice", kMetadata));
      place_ = Place::metadata;
      return true;
    }
    if (key_.size() > kMaxSafetensorsName)
      return stop(fmt::format("tensor {}: the name has {} bytes, at most {} are read",
                              in_quotes(key_), key_.size(), kMaxSafetensorsName));
    if (header.entries.size() == kMaxSafetensorsEntries)
      return stop(fmt::format("the file has more than {} tensors", kMaxSafetensorsEntries));
    header.entries.emplace_back().name = std::move(key_);
    place_ = Place::entry;
    seen_ = 0;
    return true;
  }

  bool key(std::string& name) {
    key_ = std::move(name);
    if (place_ != Place::entry) return true;
    constexpr std::string_view kFields[] = {"dtype", "shape", "data_offsets"};
    const auto* at = std::find(std::begin(kFields), std::end(kFields), key_);
    if (at == std::end(kFields))
      return stop(fmt::format("{}: unknown key {}", where(), in_quotes(key_)));
    field_ = static_cast<Field>(at - std::begin(kFields));
    const unsigned bit = 1u << static_cast<int>(field_);
    if (seen_ & bit) return stop(fmt::format("{}: {} occurs twice", where(), key_));
    seen_ |= bit;
    return true;
  }

  bool end_object() {
    if (place_ == Place::entry && seen_ != 7) {
      const auto missing = !(seen_ & 1) ? "dtype"sv : !(seen_ & 2) ? "shape"sv : "data_offsets"sv;
      return stop(fmt::format("{}: {} is missing", where(), missing));
    }
    place_ = place_ == Place::top ? Place::outside : Place::top;
    return true;
  }

  bool start_array(std::size_t) {
    if (place_ != Place::entry || field_ == Field::dtype) return refuse("an array");
    place_ = field_ == Field::shape ? Place::shape : Place::offsets;
    offsets_ = 0;
    return true;
  }
  bool end_array() {
    if (place_ == Place::offsets && offsets_ != 2)
      return stop(fmt::format("{}: data_offsets has {} numbers, must have 2", where(), offsets_));
    place_ = Place::entry;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const json::exception& e) {
    // The library's text quotes the token; its last clause alone says what was wrong.
    const std::string_view what = e.what();
    const std::size_t clause = what.rfind("; expected");
    return stop(fmt::format("header is not valid JSON at byte {}{}", position,
                            clause == what.npos ? ""sv : what.substr(clause).substr(0, 60)));
  }

 private:
  enum class Place { outside, top, metadata, entry, shape, offsets };
  enum class Field { dtype, shape, data_offsets };

  SafetensorsEntry& entry() { return header.entries.back(); }
  std::string where() { return fmt::format("tensor {}", in_quotes(entry().name)); }
  bool stop(std::string why) {
    error = std::move(why);
    return false;
  }
  bool refuse(std::string_view found) {
    switch (place_) {
      case Place::outside:
        return stop(fmt::format("header is {}, must be an object", found));
      case Place::top:
        return stop(fmt::format("{} is {}, must be an object",
                                key_ == kMetadata ? key_ : "tensor " + in_quotes(key_), found));
      case Place::metadata:
        return stop(
            fmt::format("{}: key {} is {}, must be a string", kMetadata, in_quotes(key_), found));
      case Place::entry:
        return stop(fmt::format("{}: {} is {}, must be {}", where(), key_, found,
                                field_ == Field::dtype ? "a string" : "an array of whole numbers"));
      default:
        return stop(fmt::format("{}: {} holds {}, must hold whole numbers below 2^63", where(),
                                place_ == Place::shape ? "shape" : "data_offsets", found));
    }
  }

  Place place_ = Place::outside;
  Field field_ = Field::dtype;
  unsigned seen_ = 0;  // fields of the entry, a bit each
  int offsets_ = 0;
  bool metadata_seen_ = false;
  std::string key_;
};

// What is written can be read again.
Result<void> check_counts(const SafetensorsHeader& header) {
  for (const auto& [count, what] :
       {std::pair{header.entries.size(), "tensors"}, {header.metadata.size(), "keys of metadata"}})
    if (count > kMaxSafetensorsEntries)
      return fail(ErrorCode::io, fmt::format("a file has {} {}, at most {} are allowed", count,
                                             what, kMaxSafetensorsEntries));
  return {};
}

Result<void> check_names(const SafetensorsHeader& header) {
  std::vector<std::string_view> names;
  for (const SafetensorsEntry& e : header.entries) names.push_back(e.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return fail(ErrorCode::io, fmt::format("tensor {}: the name occurs twice", in_quotes(*twice)));
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_header_json(std::string_view text) {
  if (text.empty() || text.front() != '{')
    return fail(ErrorCode::io, fmt::format("header begins with {}, must begin with '{{'",
                                           in_quotes(text.substr(0, 1))));
  // The JSON library takes a NUL for the end of its input and would overlook what follows.
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    return fail(ErrorCode::io, fmt::format("header is not valid JSON at byte {}; a NUL", nul));
  HeaderEvents events;
  if (!json::sax_parse(text.begin(), text.end(), &events))
    return fail(ErrorCode::io, std::move(events.error));
  if (auto ok = check_names(events.header); !ok) return tl::unexpected(ok.error());
  return std::move(events.header);
}

Result<std::string> header_json(const SafetensorsHeader& header) {
  if (auto ok = check_counts(header); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_names(header); !ok) return tl::unexpected(ok.error());
  std::string text = "{";
  const auto comma = [&] { return text.back() == '{' ? "" : ","; };
  try {
    if (!header.metadata.empty())
      text += fmt::format("\"{}\":{}", kMetadata, json(header.metadata).dump());
    for (const SafetensorsEntry& e : header.entries) {
      if (e.name == kMetadata)
        return fail(ErrorCode::io,
                    fmt::format("tensor {}: the name is reserved for metadata", in_quotes(e.name)));
      text +=
          fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", comma(),
                      json(e.name).dump(), e.type->text, fmt::join(e.shape, ","), e.begin, e.end);
    }
  } catch (const json::exception&) {  // what dump() makes of a name that is not UTF-8
    return fail(ErrorCode::io, "a tensor's name or the metadata is not valid UTF-8");
  }
  return text + "}";
}

}  // namespace planck
