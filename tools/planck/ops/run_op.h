// One op on the tensors of a file, and its results into another: `planck run`.
#pragma once

#include <string>

#include "planck/core/stream.h"
#include "planck/plan/registry.h"

namespace planck::cli {

struct RunRequest {
  std::string op, in, out;
  Attributes attributes;
  PlanPreference preference;
  bool gradients = false;
};

// What was run: the plan's kernel and promise; none of an op on tensors.
struct RunOutcome {
  std::optional<KernelSku> sku;
  std::size_t workspace = 0;
  std::vector<std::string> outputs;  // "y f32 [2, 3]"
};

[[nodiscard]] Result<RunOutcome> run_op(const RunRequest& request, const Stream& stream);

}  // namespace planck::cli
