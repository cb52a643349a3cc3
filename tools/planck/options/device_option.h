// --device and --threads, the same for every command that computes.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "planck/core/stream.h"

namespace planck::cli {

struct DeviceOption {
  std::string device = "cpu";
  int threads = 0;

  void add_to(CLI::App& command);
  // "cpu", "cuda" or "cuda:N".
  [[nodiscard]] Result<Stream> stream() const;
};

}  // namespace planck::cli
