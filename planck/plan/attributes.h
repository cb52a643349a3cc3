// What a request says of an op, as text, and how each kind of value is written: one grammar for
// every op of the registry.
//
//   whole number   12, -3
//   number         1, -0.5, 1e-5, inf, -inf, nan
//   truth value    true, false
//   dtype          f32, s8, ...
//   axis           0, 1, ... from the front; -1, -2, ... from the end
//   list           4x5 or 4,5: extents, sizes
//   axes           all, or a list of axes: 0,2 or -1
//   pair           3x2 or 3,2; one number is both
//
// Nothing else is read: no sign +, no leading zero, no blank, no number that does not fit. The
// error names op, attribute, value and what is expected.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "planck/core/dtype.h"
#include "planck/core/result.h"
#include "planck/core/shape.h"
#include "planck/plan/op.h"

namespace planck {

using Attributes = std::map<std::string, std::string, std::less<>>;

// None where the text is anything but one such number.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text);
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

// Reads one attribute, with the default of its AttributeInfo.
class AttributeReader {
 public:
  AttributeReader(const OpInfo& op, const Attributes& attributes)
      : op_(op), attributes_(attributes) {}

  std::string text(std::string_view attribute) const;
  Result<std::int64_t> integer(std::string_view attribute) const;
  Result<double> number(std::string_view attribute) const;
  Result<bool> boolean(std::string_view attribute) const;
  Result<Dtype> dtype(std::string_view attribute) const;
  // Of a tensor of that rank, counted from the front.
  Result<int> axis(std::string_view attribute, int rank) const;
  // A bit for each axis; `all` has one for each of the rank.
  Result<unsigned> axes(std::string_view attribute, int rank) const;
  // Up to 8 whole numbers; an empty text has none. `expected`: "N,C,H,W", for the error.
  Result<Extents> list(std::string_view attribute, std::string_view expected) const;
  Result<std::array<std::int64_t, 2>> pair(std::string_view attribute) const;

 private:
  tl::unexpected<Error> wrong(std::string_view attribute, std::string_view expected) const;
  tl::unexpected<Error> no_axis(std::string_view attribute, std::int64_t axis, int rank) const;
  const OpInfo& op_;
  const Attributes& attributes_;
};

}  // namespace planck
