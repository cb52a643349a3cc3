// The ops of `planck run` that see or place elements elsewhere. They have no kernel and so no place
// in the registry; docs/tensors.md says what each does.
#pragma once

#include <span>
#include <vector>

#include "planck/plan/registry.h"

namespace planck::cli {

std::span<const OpInfo> shape_ops();

// By name, of the registry or of shape_ops(); the error says which name is near.
[[nodiscard]] Result<const OpInfo*> find_op_info(std::string_view op);
std::vector<std::string_view> op_names();  // of both, in the order of `planck ops`

// Whether `planck run --grad` gives the gradients of its float inputs.
bool is_differentiable(const OpInfo& op);

}  // namespace planck::cli
