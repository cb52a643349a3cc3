// Cases of families whose ops work on rows of one tensor: the shapes that softmax and the norms
// share. A family says how one case is made.
#pragma once

#include "planck/verify/case_lists.h"

namespace planck::verify {

struct RowFamily {
  OpCategory category;
  Case (*make)(const OpInfo&, Dtype element, const Shape&, Fill, std::uint64_t seed);
  std::uint64_t first_seed = 1;
};

std::vector<Case> row_cases(const RowFamily& family, ListSize size);
std::optional<Case> row_example(const RowFamily& family, std::string_view op, DtypePair dtypes,
                                const Shape& shape);
std::optional<Case> row_hostile(const RowFamily& family, std::string_view op, DtypePair dtypes,
                                const Shape& shape, std::uint64_t seed);

}  // namespace planck::verify
