#include "planck/verify/case_lists.h"

namespace planck::verify {

std::vector<Case> all_cases(ListSize size) {
  std::vector<Case> all;
  for (auto& family : {quantize_cases(size), embedding_cases(size), grid_sample_cases(size),
                       reduce_cases(size), softmax_cases(size)})
    all.insert(all.end(), family.begin(), family.end());
  return all;
}

std::optional<Case> example_case(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (auto c = quantize_example(op, dtypes, shape)) return c;
  if (auto c = embedding_example(op, dtypes, shape)) return c;
  if (auto c = reduce_example(op, dtypes, shape)) return c;
  if (auto c = softmax_example(op, dtypes, shape)) return c;
  return grid_sample_example(op, dtypes, shape);
}

std::optional<Case> hostile_case(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  if (auto c = quantize_hostile(op, dtypes, shape, seed)) return c;
  if (auto c = embedding_hostile(op, dtypes, shape, seed)) return c;
  if (auto c = reduce_hostile(op, dtypes, shape, seed)) return c;
  if (auto c = softmax_hostile(op, dtypes, shape, seed)) return c;
  return grid_sample_hostile(op, dtypes, shape, seed);
}

}  // namespace planck::verify
