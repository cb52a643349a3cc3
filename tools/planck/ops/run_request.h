// What the user of `planck run` asked for, read from text. Errors are one line each and name the
// option.
#pragma once

#include <string>
#include <vector>

#include "planck/plan/registry.h"

namespace planck::cli {

// "axis=0" → {"axis", "0"}.
[[nodiscard]] Result<Attributes> parse_settings(const std::vector<std::string>& settings);

// kernel=NAME, at_least=none|run_to_run|cross_device, max_workspace=BYTES. The kernel's name stays
// in `settings`.
[[nodiscard]] Result<PlanPreference> parse_preference(const std::vector<std::string>& settings);

}  // namespace planck::cli
