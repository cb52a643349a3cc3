// -o and --force: where a command writes, and what it must not destroy.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "planck/core/result.h"

namespace planck::cli {

void add_force(CLI::App& command, bool& force);

// Refuses an output that is the input under any name (a link, a hard link, another path), and one
// that exists unless `force`. An empty input compares with nothing.
[[nodiscard]] Result<void> check_output(const std::string& in, const std::string& out, bool force);

}  // namespace planck::cli
