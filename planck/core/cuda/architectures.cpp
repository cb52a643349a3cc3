// What a library was compiled for, read as text, and which of it a GPU runs.
#include "planck/core/cuda/architectures.h"

#include <algorithm>
#include <atomic>
#include <charconv>

#include "planck/core/cuda/runtime.h"

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

int code_for(std::string_view architectures, int compute_capability) {
  int real = 0, ptx = 0;
  for (const std::string_view one : each_architecture(architectures)) {
    int made_for = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), made_for);
    if (error != std::errc()) return compute_capability;  // native, all: for what is there
    const std::string_view rest = one.substr(static_cast<std::size_t>(end - one.data()));
    const bool same_major = compute_capability / 10 == made_for / 10;
    if (rest.starts_with("a")
            ? compute_capability != made_for
            : compute_capability < made_for || (rest.starts_with("f") && !same_major))
      continue;
    if (same_major && !rest.ends_with("-virtual")) real = std::max(real, made_for);
    if (!rest.ends_with("-real")) ptx = std::max(ptx, made_for);
  }
  return real != 0 ? real : ptx;
}

int code_of(int ordinal) {
  constexpr int kMost = 64;
  static std::atomic<int> found[kMost];  // 0: not asked yet
  if (ordinal < 0 || ordinal >= kMost) return 0;
  int code = found[ordinal].load(std::memory_order_relaxed);
  if (code == 0) {
    const auto capability = compute_capability(ordinal);
    code = capability ? code_for(architectures(), *capability) : 0;
    found[ordinal].store(code, std::memory_order_relaxed);
  }
  return code;
}

}  // namespace planck::cuda
