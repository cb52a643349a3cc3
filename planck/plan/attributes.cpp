#include "planck/plan/attributes.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

namespace planck {

namespace {

// The numbers between separators, at most kMaxRank; none where a part is no whole number, or where
// both separators occur.
std::optional<Extents> parse_list(std::string_view text) {
  Extents list;
  if (text.empty()) return list;
  const char separator = text.find(',') == text.npos ? 'x' : ',';
  while (true) {
    const std::size_t cut = text.find(separator);
    const auto value = parse_whole(text.substr(0, cut));
    if (!value || list.rank() == kMaxRank) return std::nullopt;
    list.push_back(*value);
    if (cut == text.npos) return list;
    text.remove_prefix(cut + 1);
  }
}

}  // namespace

std::optional<std::int64_t> parse_whole(std::string_view text) {
  std::int64_t value = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [at, status] = std::from_chars(begin, end, value);
  if (status != std::errc() || at != end) return std::nullopt;
  const std::string_view digits = text.substr(text.front() == '-' ? 1 : 0);
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  if (digits != text && value == 0) return std::nullopt;  // -0
  return value;
}

std::optional<double> parse_number(std::string_view text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.front() < '0' || digits.front() > '9') return std::nullopt;
  if (digits.size() > 1 && digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9')
    return std::nullopt;
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [at, status] = std::from_chars(text.data(), end, value);
  if (status != std::errc() || at != end) return std::nullopt;
  return value;
}

std::string AttributeReader::text(std::string_view attribute) const {
  if (const auto it = attributes_.find(attribute); it != attributes_.end()) return it->second;
  for (const AttributeInfo& a : op_.attributes)
    if (a.name == attribute) return std::string(a.default_value);
  return "";
}

tl::unexpected<Error> AttributeReader::wrong(std::string_view attribute,
                                             std::string_view expected) const {
  if (text(attribute).empty() && attributes_.find(attribute) == attributes_.end())
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: {} is not set, must be {}", op_.name, attribute, expected));
  return fail(ErrorCode::invalid_problem,
              fmt::format("{}: {}={} is not {}", op_.name, attribute, text(attribute), expected));
}

tl::unexpected<Error> AttributeReader::no_axis(std::string_view attribute, std::int64_t axis,
                                               int rank) const {
  return fail(ErrorCode::invalid_problem,
              fmt::format("{}: {} {} {}, the shape has {} axes", op_.name, attribute,
                          attribute == "axes" ? "are" : "is", axis, rank));
}

Result<std::int64_t> AttributeReader::integer(std::string_view attribute) const {
  if (const auto value = parse_whole(text(attribute))) return *value;
  return wrong(attribute, "a whole number");
}

Result<double> AttributeReader::number(std::string_view attribute) const {
  if (const auto value = parse_number(text(attribute))) return *value;
  return wrong(attribute, "a number");
}

Result<bool> AttributeReader::boolean(std::string_view attribute) const {
  const std::string value = text(attribute);
  if (value == "true") return true;
  if (value == "false") return false;
  return wrong(attribute, "true or false");
}

Result<Dtype> AttributeReader::dtype(std::string_view attribute) const {
  if (const auto t = parse_dtype(text(attribute))) return *t;
  std::string known;
  for (Dtype t : kAllDtypes) known += fmt::format("{}{}", known.empty() ? "" : ", ", name(t));
  return wrong(attribute, "a dtype: " + known);
}

Result<int> AttributeReader::axis(std::string_view attribute, int rank) const {
  const auto value = integer(attribute);
  if (!value) return tl::unexpected(value.error());
  if (*value < -rank || *value >= rank) return no_axis(attribute, *value, rank);
  return static_cast<int>(*value < 0 ? *value + rank : *value);
}

Result<unsigned> AttributeReader::axes(std::string_view attribute, int rank) const {
  if (text(attribute) == "all") return (1u << rank) - 1;
  const auto values = list(attribute, "all, nor axes as 0,2 or -1");
  if (!values) return tl::unexpected(values.error());
  unsigned mask = 0;
  for (const std::int64_t value : *values) {
    if (value < -rank || value >= rank) return no_axis(attribute, value, rank);
    const unsigned bit = 1u << (value < 0 ? value + rank : value);
    if (mask & bit) return wrong(attribute, fmt::format("a list of axes: {} comes twice", value));
    mask |= bit;
  }
  return mask;
}

Result<Extents> AttributeReader::list(std::string_view attribute, std::string_view expected) const {
  if (const auto values = parse_list(text(attribute))) return *values;
  return wrong(attribute, expected);
}

Result<std::array<std::int64_t, 2>> AttributeReader::pair(std::string_view attribute) const {
  const auto values = parse_list(text(attribute));
  if (!values || values->rank() < 1 || values->rank() > 2)
    return wrong(attribute, "a whole number, nor two as 3x2 or 3,2");
  return std::array{(*values)[0], (*values)[values->rank() - 1]};
}

}  // namespace planck
