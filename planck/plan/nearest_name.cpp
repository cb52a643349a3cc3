#include "planck/plan/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace planck {

namespace {

constexpr std::size_t kLongest = 64;  // what is longer was not mistyped

// Damerau's distance, of neighbours exchanged once.
std::size_t changes(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view meant, std::span<const std::string_view> names) {
  if (meant.empty() || meant.size() > kLongest) return "";
  std::string_view best;
  std::size_t least = meant.size() / 3 + 1;
  for (const std::string_view name : names) {
    const std::size_t n = changes(meant, name);
    if (n >= least) continue;
    least = n;
    best = name;
  }
  return best;
}

std::string did_you_mean(std::string_view meant, std::span<const std::string_view> names) {
  const std::string_view near = nearest_name(meant, names);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", near);
}

}  // namespace planck
