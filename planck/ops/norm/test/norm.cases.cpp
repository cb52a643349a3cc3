// Test cases of the norm family: shapes, axes and values that all its kernels must survive.
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

Case make_case(const OpInfo& info, Dtype element, const Shape& shape, Fill fill,
               std::uint64_t seed) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  const bool backward = c.op.ends_with("_backward"), layer = c.op.starts_with("layer");
  const int axes = shape.rank() > 1 && seed % 3 == 0 ? 2 : 1;
  c.attributes["axes"] = std::to_string(axes);
  const Dtype compute = compute_dtype(element);
  Shape row, outer;
  for (int d = 0; d < shape.rank(); ++d)
    (d < shape.rank() - axes ? outer : row).push_back(shape[d]);
  const auto add = [&](std::string name, Dtype t, const Shape& s, Fill how) {
    c.inputs.push_back({.name = std::move(name), .dtype = t, .shape = s, .fill = how});
  };
  add("x", element, shape, fill);
  if (backward) {
    add("dy", element, shape, fill);
    if (layer) add("mean", compute, outer, Fill::uniform);
    add("rstd", compute, outer, Fill::scale);
    if (layer && seed % 2 == 0) c.attributes["bias"] = "true";
  }
  if (seed % 4 != 1) add("weight", element, row, Fill::normal);
  if (!backward && layer && seed % 4 < 2) add("bias", element, row, Fill::normal);
  if (!backward && seed % 5 == 0) c.attributes["eps"] = "0.25";
  return c;
}

const Shape kShapes[] = {{1},        {5},       {3, 7},    {7, 1},     {2, 3, 4},
                         {33, 65},   {4, 1025}, {9, 512},  {5, 33, 3}, {2, 4100},
                         {1, 17000}, {600, 8},  {3, 8192}, {130, 31},  {2, 2, 3, 2, 1, 2, 3, 2},
                         {0, 4},     {3, 0}};
const Shape kLargeShapes[] = {{1100, 130}, {40, 5000}, {3, 33000}};

}  // namespace

std::vector<Case> norm_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 427;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::normalization) continue;
    constexpr Fill kFills[] = {Fill::normal, Fill::adversarial, Fill::uniform};
    const auto add = [&](Dtype element, const Shape& shape) {
      cases.push_back(make_case(*entry.info, element, shape, kFills[seed / 2 % 3], seed));
      ++seed;
    };
    for (int round = 0; round < (size == ListSize::lengthy ? 4 : 1); ++round)
      for (const Shape& shape : kShapes)
        for (const DtypePair& t : entry.dtypes) add(t.element, shape);
    for (const Shape& shape : kLargeShapes) add(entry.dtypes[seed % 4].element, shape);
  }
  return cases;
}

std::optional<Case> norm_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::normalization) return std::nullopt;
  const Shape s = shape.rank() == 0 ? Shape{1} : shape;
  return make_case(*entry->info, dtypes.element, s, Fill::normal, 4);
}

std::optional<Case> norm_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::normalization) return std::nullopt;
  return make_case(*entry->info, dtypes.element, shape, Fill::adversarial, seed);
}

}  // namespace planck::verify
