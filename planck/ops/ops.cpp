#include "planck/ops/ops.h"

#include "planck/ops/families.inc"  // generated: the list in CMakeLists.txt

namespace planck {

#define PLANCK_DECLARE(family) std::vector<OpEntry> family##_ops();
PLANCK_FAMILIES(PLANCK_DECLARE)
#undef PLANCK_DECLARE

std::span<const OpFamily> op_families() {
#define PLANCK_FAMILY(family) {#family, family##_ops()},
  static const std::vector<OpFamily>& families =
      *new std::vector<OpFamily>{PLANCK_FAMILIES(PLANCK_FAMILY)};
#undef PLANCK_FAMILY
  return families;
}

std::span<const OpEntry> all_ops() {
  static const std::vector<OpEntry>& entries = *[] {
    auto* all = new std::vector<OpEntry>;
    for (const OpFamily& family : op_families())
      all->insert(all->end(), family.ops.begin(), family.ops.end());
    return all;
  }();
  return entries;
}

}  // namespace planck
