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

// Families: the three functions of each.
using CaseList = std::vector<Case>(ListSize size);
using ExampleCase = std::optional<Case>(std::string_view op, DtypePair dtypes, const Shape& shape);
using HostileCase = std::optional<Case>(std::string_view op, DtypePair dtypes, const Shape& shape,
                                        std::uint64_t seed);

CaseList quantize_cases, embedding_cases, grid_sample_cases, reduce_cases, matmul_cases,
    elementwise_cases, index_cases, sort_cases, softmax_cases, conv_cases, pool_cases;
ExampleCase quantize_example, embedding_example, grid_sample_example, reduce_example,
    matmul_example, elementwise_example, index_example, sort_example, softmax_example, conv_example,
    pool_example;
HostileCase quantize_hostile, embedding_hostile, grid_sample_hostile, reduce_hostile,
    matmul_hostile, elementwise_hostile, index_hostile, sort_hostile, softmax_hostile, conv_hostile,
    pool_hostile;

}  // namespace planck::verify
