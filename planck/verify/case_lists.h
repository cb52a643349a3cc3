// The case lists of all families: what the conformance tests, `planck verify` and `planck ops` go
// through.
//
// A family writes its own in ops/<family>/<family>.cases.cpp and adds one line to case_lists.cpp.
#pragma once

#include <optional>
#include <vector>

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

// Families.
std::vector<Case> quantize_cases(ListSize size);
std::optional<Case> quantize_example(std::string_view op, DtypePair dtypes, const Shape& shape);
std::optional<Case> quantize_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                     std::uint64_t seed);
std::vector<Case> embedding_cases(ListSize size);
std::optional<Case> embedding_example(std::string_view op, DtypePair dtypes, const Shape& shape);
std::optional<Case> embedding_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                      std::uint64_t seed);
std::vector<Case> grid_sample_cases(ListSize size);
std::optional<Case> grid_sample_example(std::string_view op, DtypePair dtypes, const Shape& shape);
std::optional<Case> grid_sample_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                        std::uint64_t seed);

std::vector<Case> softmax_cases(ListSize size);  // and the norms
std::optional<Case> softmax_example(std::string_view op, DtypePair dtypes, const Shape& shape);
std::optional<Case> softmax_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                    std::uint64_t seed);
std::vector<Case> reduce_cases(ListSize size);
std::optional<Case> reduce_example(std::string_view op, DtypePair dtypes, const Shape& shape);
std::optional<Case> reduce_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                   std::uint64_t seed);

}  // namespace planck::verify
