#include "planck/verify/row_cases.h"

#include "planck/ops/ops.h"

namespace planck::verify {

namespace {

const Shape kShapes[] = {{1},        {5},       {3, 7},    {7, 1},     {2, 3, 4},
                         {33, 65},   {4, 1025}, {9, 512},  {5, 33, 3}, {2, 4100},
                         {1, 17000}, {600, 8},  {3, 8192}, {130, 31},  {2, 2, 3, 2, 1, 2, 3, 2},
                         {0, 4},     {3, 0}};
const Shape kLargeShapes[] = {{1100, 130}, {40, 5000}, {3, 33000}};

}  // namespace

std::vector<Case> row_cases(const RowFamily& family, ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = family.first_seed;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != family.category) continue;
    constexpr Fill kFills[] = {Fill::normal, Fill::adversarial, Fill::uniform};
    const auto add = [&](Dtype element, const Shape& shape) {
      cases.push_back(family.make(*entry.info, element, shape, kFills[seed / 2 % 3], seed));
      ++seed;
    };
    for (int round = 0; round < (size == ListSize::lengthy ? 4 : 1); ++round)
      for (const Shape& shape : kShapes)
        for (const DtypePair& t : entry.dtypes) add(t.element, shape);
    for (const Shape& shape : kLargeShapes) add(entry.dtypes[seed % 4].element, shape);
  }
  return cases;
}

std::optional<Case> row_example(const RowFamily& family, std::string_view op, DtypePair dtypes,
                                const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != family.category) return std::nullopt;
  const Shape s = shape.rank() == 0 ? Shape{1} : shape;
  return family.make(*entry->info, dtypes.element, s, Fill::normal, 4);
}

std::optional<Case> row_hostile(const RowFamily& family, std::string_view op, DtypePair dtypes,
                                const Shape& shape, std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != family.category) return std::nullopt;
  return family.make(*entry->info, dtypes.element, shape, Fill::adversarial, seed);
}

}  // namespace planck::verify
