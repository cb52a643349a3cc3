// How a result came about: what a reader needs to have it again, and to judge its times.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "planck/core/stream.h"

namespace planck::cli {

struct Provenance {
  std::string version;          // of Planck
  std::string command;          // as it was typed, quoted for a shell, without the program's folder
  std::string date;             // when the command asked, 2026-01-31T12:00:00Z
  std::string cpu;              // as the system calls it; "unknown" where it does not say
  int cores = 0;                // that this process may use
  std::string instruction_set;  // that kernels use: avx512, avx2, baseline
  std::string device, device_name;  // "cuda:0" and what it is called; of the CPU its name again
  int threads = 0, workers = 1;

  // In words and numbers, for a page.
  std::vector<std::pair<std::string, std::string>> facts() const;
  nlohmann::ordered_json json() const;
};

// Of this process, computing there.
Provenance provenance(const Stream& stream, int workers);

}  // namespace planck::cli
