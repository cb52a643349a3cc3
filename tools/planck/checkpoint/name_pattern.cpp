#include "tools/planck/checkpoint/name_pattern.h"

#include <fmt/format.h>

#include <array>

namespace planck::cli {

Result<NamePattern> NamePattern::compile(const std::string& text) {
  auto fresh = std::make_unique<regex_t>();
  if (const int code = regcomp(fresh.get(), text.c_str(), REG_EXTENDED); code != 0) {
    std::array<char, 200> why{};
    regerror(code, fresh.get(), why.data(), why.size());
    return fail(ErrorCode::invalid_problem,
                fmt::format("{} is not a regular expression: {}", text, why.data()));
  }
  NamePattern pattern;
  pattern.compiled_ = std::shared_ptr<regex_t>(fresh.release(), Free{});
  return pattern;
}

bool NamePattern::found_in(std::string_view name) const {
  regmatch_t range{0, static_cast<regoff_t>(name.size())};  // REG_STARTEND: a name may hold a NUL
  return regexec(compiled_.get(), name.data(), 1, &range, REG_STARTEND) == 0;
}

}  // namespace planck::cli
