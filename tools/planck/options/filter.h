// --filter: a regular expression over the names of rows or cases.
#pragma once

#include <regex>
#include <string>

#include "planck/core/result.h"

namespace planck::cli {

inline Result<std::regex> parse_filter(const std::string& text) {
  try {
    return std::regex(text, std::regex::optimize);
  } catch (const std::regex_error&) {
    return fail(ErrorCode::invalid_problem, "--filter " + text + " is not a regular expression");
  }
}

// Nothing looked at must not read as all well.
inline Result<void> refuse_nothing(bool nothing, const std::string& text, const char* what) {
  if (!nothing) return {};
  return fail(ErrorCode::invalid_problem,
              "--filter " + text + " matches none of the " + what + "; planck ops lists the ops");
}

}  // namespace planck::cli
