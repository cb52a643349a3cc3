#include "planck/verify/case_lists.h"

namespace planck::verify {

std::vector<Case> all_cases(ListSize size) {
  std::vector<Case> all;
  for (auto& family : {quantize_cases(size)}) all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::optional<Case> example_case(std::string_view op, DtypePair dtypes, const Shape& shape) {
  return quantize_example(op, dtypes, shape);
}

std::optional<Case> hostile_case(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  return quantize_hostile(op, dtypes, shape, seed);
}

}  // namespace planck::verify
