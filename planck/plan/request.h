// The checks of a request that every op has in common, whichever list it is in.
#pragma once

#include "planck/plan/registry.h"

namespace planck {

// Refuses attributes that the op does not have, and says which name is near.
[[nodiscard]] Result<void> check_attributes(const OpInfo& op, const Attributes& attributes);
// The same of inputs; those that must be there are.
[[nodiscard]] Result<void> check_inputs(const OpInfo& op, const InputSpecs& inputs);

}  // namespace planck
