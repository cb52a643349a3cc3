#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Family {
  CaseList* cases;
  ExampleCase* example;
  HostileCase* hostile;
};

#define PLANCK_CASES(family) {family##_cases, family##_example, family##_hostile},
constexpr Family kFamilies[] = {PLANCK_FAMILIES(PLANCK_CASES)};
#undef PLANCK_CASES

}  // namespace

std::vector<Case> all_cases(ListSize size) {
  std::vector<Case> all;
  for (const Family& family : kFamilies) {
    const auto cases = family.cases(size);
    all.insert(all.end(), cases.begin(), cases.end());
  }
  return all;
}

std::optional<Case> example_case(std::string_view op, DtypePair dtypes, const Shape& shape) {
  for (const Family& family : kFamilies)
    if (auto c = family.example(op, dtypes, shape)) return c;
  return std::nullopt;
}

std::optional<Case> hostile_case(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  for (const Family& family : kFamilies)
    if (auto c = family.hostile(op, dtypes, shape, seed)) return c;
  return std::nullopt;
}

}  // namespace planck::verify
