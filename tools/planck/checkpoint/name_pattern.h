// A regular expression, searched for in names, in time linear in the name's length.
//
//   abc  .  [a-z_]  [^0-9]  [[:digit:]]  \d  \w  \s  \.  ^  $
//   a|b  (ab)  a*  a+  a?  a{2}  a{2,5}  a{2,}
//
// As POSIX has them; no back reference. All states the expression can be in are followed at once,
// so that no name, and a file may hold one of a megabyte, takes long to refuse. Characters are
// bytes.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planck/core/result.h"

namespace planck::cli {

class NamePattern {
 public:
  // The error says what is wrong with the expression.
  [[nodiscard]] static Result<NamePattern> compile(const std::string& text);
  bool found_in(std::string_view name) const;

  struct Step {
    enum class Kind : std::uint8_t { byte, begin, end, split, found } kind;
    std::uint32_t next = 0, other = 0;  // split: both are followed
    std::bitset<256> bytes = {};
  };

 private:
  std::vector<Step> steps_;
  std::uint32_t start_ = 0;
};

}  // namespace planck::cli
