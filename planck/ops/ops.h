// Every registered op.
#pragma once

#include <span>

#include "planck/plan/registry.h"

namespace planck {

std::span<const OpEntry> all_ops();

}  // namespace planck
