// Every registered op, by family.
#pragma once

#include <span>

#include "planck/plan/registry.h"

namespace planck {

struct OpFamily {
  std::string_view name;  // that of its folder
  std::vector<OpEntry> ops;
};

std::span<const OpFamily> op_families();
std::span<const OpEntry> all_ops();  // of all families, in their order

}  // namespace planck
