#include "planck/core/cuda/architectures.h"

#include <algorithm>
#include <charconv>

namespace planck::cuda {

std::vector<std::string_view> each_architecture(std::string_view architectures) {
  std::vector<std::string_view> all;
  while (!architectures.empty()) {
    const std::size_t end = std::min(architectures.find(','), architectures.size());
    if (end > 0) all.push_back(architectures.substr(0, end));
    architectures.remove_prefix(std::min(end + 1, architectures.size()));
  }
  return all;
}

bool has_code_for(std::string_view architectures, int compute_capability) {
  const auto runs = [&](std::string_view one) {
    int made_for = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), made_for);
    if (error != std::errc()) return true;  // native, all, all-major: nothing is known
    const std::string_view rest = one.substr(static_cast<std::size_t>(end - one.data()));
    if (rest.starts_with("a")) return compute_capability == made_for;
    const bool same_major = compute_capability / 10 == made_for / 10;
    return compute_capability >= made_for &&
           (same_major || (!rest.starts_with("f") && rest != "-real"));
  };
  const auto all = each_architecture(architectures);
  return std::any_of(all.begin(), all.end(), runs);
}

}  // namespace planck::cuda
