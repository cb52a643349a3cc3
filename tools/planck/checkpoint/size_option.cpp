#include "tools/planck/checkpoint/size_option.h"

#include <fmt/format.h>

#include <charconv>

#include "planck/io/safetensors_header.h"

namespace planck::cli {

Result<std::uint64_t> parse_size(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
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
  if (error != std::errc{} || !known || number == 0 ||
      __builtin_mul_overflow(number, factor, &bytes))
    return fail(ErrorCode::invalid_problem,
                fmt::format("{} is not a size such as 5GB, 500MB or 2GiB", in_quotes(text)));
  return static_cast<std::uint64_t>(bytes);
}

}  // namespace planck::cli
