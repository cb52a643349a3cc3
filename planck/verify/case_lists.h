// The case lists of all families: what the conformance tests, `planck verify` and `planck ops` go
// through.
//
// A family writes its own in ops/<family>/test/<family>.cases.cpp.
#pragma once

#include <optional>
#include <vector>

#include "planck/ops/families.inc"
#include "planck/verify/case.h"

namespace planck::verify {

// usual: every op, dtype, formula and kind of values, in seconds. lengthy: large and many more.
enum class ListSize : std::uint8_t { usual, lengthy };

std::vector<Case> all_cases(ListSize size);

// One ordinary case of an op for a pair of dtypes and the shape of its main tensor; nothing for an
// op of another family.
std::optional<Case> example_case(std::string_view op, DtypePair dtypes, const Shape& shape);

// As example_case, with values meant to break things: every bit pattern, extreme scales and zero
// points, exact ties.
std::optional<Case> hostile_case(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed);

// Families: the three functions of each.
using CaseList = std::vector<Case>(ListSize size);
using ExampleCase = std::optional<Case>(std::string_view op, DtypePair dtypes, const Shape& shape);
using HostileCase = std::optional<Case>(std::string_view op, DtypePair dtypes, const Shape& shape,
                                        std::uint64_t seed);

#define PLANCK_DECLARE(family)  \
  CaseList family##_cases;      \
  ExampleCase family##_example; \
  HostileCase family##_hostile;
PLANCK_FAMILIES(PLANCK_DECLARE)
#undef PLANCK_DECLARE

}  // namespace planck::verify
