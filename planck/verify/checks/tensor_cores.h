// A GPU's tensor cores against their contract (math/products/tensor_core.h), output by output, on
// the device itself: the instructions, with accumulators of every kind, and the kernel that is made
// of wgmma, over many blocks of k.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planck/core/stream.h"

namespace planck::verify {

struct TensorCoreOptions {
  Device device = Device::cuda();
  std::int64_t outputs = 0;  // of each dtype and instruction, at least
  std::uint64_t seed = 0;
  // Of lines as they are named below.
  std::function<bool(const std::string& line)> wanted;
  std::function<void(std::size_t done, std::size_t all, std::string_view line)> progress;
};

struct TensorCoreLine {
  std::string name;  // "tensor_core bf16 by wgmma"
  std::int64_t outputs = 0, differing = 0;
};

struct TensorCoreReport {
  std::vector<TensorCoreLine> lines;
  std::vector<std::string> failures;  // with the first inputs that are multiplied otherwise
  std::map<std::string, std::size_t> skipped;  // reason → lines
};

std::vector<std::string> tensor_core_lines();
[[nodiscard]] Result<TensorCoreReport> compare_tensor_cores(const TensorCoreOptions& options);

}  // namespace planck::verify
