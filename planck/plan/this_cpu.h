// Refusals that are about this machine's CPU, whatever the problem.
//
// Lists of all kernels (planck ops, docs/ops.md) show such rows too, so that they are the same on
// every machine.
#pragma once

#include <string>
#include <string_view>

namespace planck {

inline constexpr std::string_view kNotOnThisCpu = ", which this CPU or system does not offer";

// "needs AMX for s8, which …"
inline std::string needs_of_cpu(std::string_view what) {
  return "needs " + std::string(what) + std::string(kNotOnThisCpu);
}
inline bool is_about_this_cpu(std::string_view refusal) { return refusal.ends_with(kNotOnThisCpu); }

}  // namespace planck
