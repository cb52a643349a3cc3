#include "tools/planck/checkpoint/size_option.h"

#include <fmt/format.h>

#include <algorithm>

#include "planck/io/safetensors_header.h"
#include "planck/plan/attributes.h"

namespace planck::cli {

Result<std::uint64_t> parse_size(const std::string& text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse_whole(std::string_view(text).substr(0, digits));
  std::string unit = text.substr(digits);
  if (unit.ends_with("B")) unit.pop_back();
  std::uint64_t factor = 1;
  bool known = unit.empty();
  constexpr std::string_view kPrefixes = "KMGT";
  for (std::size_t i = 0; i < kPrefixes.size() && !known; ++i) {
    const std::string prefix(1, kPrefixes[i]);
    for (const bool binary : {false, true})
      if (unit == prefix + (binary ? "i" : "")) {
        known = true;
        for (std::size_t k = 0; k <= i; ++k) factor *= binary ? 1024 : 1000;
      }
  }
  std::int64_t bytes = 0;
  if (!number || !known || *number == 0 || __builtin_mul_overflow(*number, factor, &bytes))
    return fail(ErrorCode::invalid_problem,
                fmt::format("{} is not a size such as 5GB, 500MB or 2GiB", in_quotes(text)));
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace planck::cli
