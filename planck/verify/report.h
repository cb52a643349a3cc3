// What a verification found: counts per op, failures as text, and what was skipped and why.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace planck::verify {

struct OpCounts {
  std::size_t cases = 0, kernels = 0, checks = 0, failures = 0;
};

struct Report {
  std::map<std::string, OpCounts, std::less<>> ops;
  std::vector<std::string> failures;           // one text each, with the lines that replay it
  std::map<std::string, std::size_t> skipped;  // reason → checks

  OpCounts total() const {
    OpCounts sum;
    for (const auto& [op, counts] : ops) {
      sum.cases += counts.cases;
      sum.kernels += counts.kernels;
      sum.checks += counts.checks;
      sum.failures += counts.failures;
    }
    return sum;
  }
};

}  // namespace planck::verify
