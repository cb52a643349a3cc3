#include "planck/ops/ops.h"

#include "planck/ops/families.inc"  // generated: the list in CMakeLists.txt

namespace planck {

#define PLANCK_DECLARE(family) std::vector<OpEntry> family##_ops();
PLANCK_FAMILIES(PLANCK_DECLARE)
#undef PLANCK_DECLARE

std::span<const OpEntry> all_ops() {
  static const std::vector<OpEntry>& entries = *[] {
    auto* all = new std::vector<OpEntry>;
    const auto add = [all](const std::vector<OpEntry>& family) {
      all->insert(all->end(), family.begin(), family.end());
    };
#define PLANCK_ADD(family) add(family##_ops());
    PLANCK_FAMILIES(PLANCK_ADD)
#undef PLANCK_ADD
    return all;
  }();
  return entries;
}

}  // namespace planck
