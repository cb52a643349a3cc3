#include "planck/data/digits.h"

#include <fmt/format.h>

#include <charconv>

namespace planck {

namespace {

constexpr int kSide = 8, kPixels = kSide * kSide, kBrightest = 16, kClasses = 10;

}  // namespace

Result<ImageSet> load_digits() { return parse_digits(digits_csv()); }

Result<ImageSet> parse_digits(std::string_view csv) {
  ImageSet set;
  set.height = set.width = kSide;
  set.classes = kClasses;
  const char* at = csv.data();
  const char* const end = at + csv.size();
  while (at != end) {
    const auto refuse = [line = set.count + 1](const std::string& why) {
      return fail(ErrorCode::io, fmt::format("digits.csv: line {}: {}", line, why));
    };
    for (int i = 0; i <= kPixels; ++i) {
      int value = 0;
      const auto [next, error] = std::from_chars(at, end, value);
      if (error != std::errc())
        return refuse(fmt::format("number {} cannot be read, a line has {}", i + 1, kPixels + 1));
      const int most = i < kPixels ? kBrightest : kClasses - 1;
      if (value < 0 || value > most)
        return refuse(fmt::format("number {} is {}, must be 0 to {}", i + 1, value, most));
      const char separator = i < kPixels ? ',' : '\n';
      if (next == end || *next != separator)
        return refuse(fmt::format("number {} is not followed by {}", i + 1,
                                  i < kPixels ? "a comma" : "the line's end"));
      at = next + 1;
      if (i < kPixels)
        set.pixels.push_back(static_cast<float>(value) / kBrightest);
      else
        set.labels.push_back(value);
    }
    ++set.count;
  }
  if (set.count == 0) return fail(ErrorCode::io, "digits.csv: holds no line");
  return set;
}

}  // namespace planck
