#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Family {
  CaseList* cases;
  ExampleCase* example;
  HostileCase* hostile;
};

constexpr Family kFamilies[] = {
    {quantize_cases, quantize_example, quantize_hostile},
    {embedding_cases, embedding_example, embedding_hostile},
    {grid_sample_cases, grid_sample_example, grid_sample_hostile},
    {reduce_cases, reduce_example, reduce_hostile},
    {matmul_cases, matmul_example, matmul_hostile},
    {conv_cases, conv_example, conv_hostile},
    {elementwise_cases, elementwise_example, elementwise_hostile},
    {index_cases, index_example, index_hostile},
    {sort_cases, sort_example, sort_hostile},
    {softmax_cases, softmax_example, softmax_hostile},  // and the norms
    {pool_cases, pool_example, pool_hostile},
};

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
