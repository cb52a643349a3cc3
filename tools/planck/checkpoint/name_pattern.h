// A POSIX extended regular expression, searched for in the names of tensors.
//
// Of the system rather than of the C++ library, whose matcher recurses once for each character: a
// name from a file may be megabytes long.
#pragma once

#include <regex.h>

#include <memory>
#include <string>
#include <string_view>

#include "planck/core/result.h"

namespace planck::cli {

class NamePattern {
 public:
  // The error says what is wrong with the expression.
  [[nodiscard]] static Result<NamePattern> compile(const std::string& text);
  bool found_in(std::string_view name) const;

 private:
  struct Free {
    void operator()(regex_t* r) const {
      regfree(r);
      delete r;
    }
  };
  std::shared_ptr<regex_t> compiled_;  // never written to: copies share it
};

}  // namespace planck::cli
