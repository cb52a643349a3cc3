// Test cases of the norm family: shapes, axes and values that all its kernels must survive.
#include "planck/verify/row_cases.h"

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

constexpr RowFamily kFamily{
    .category = OpCategory::normalization, .make = make_case, .first_seed = 427};

}  // namespace

std::vector<Case> norm_cases(ListSize size) { return row_cases(kFamily, size); }

std::optional<Case> norm_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  return row_example(kFamily, op, dtypes, shape);
}

std::optional<Case> norm_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  return row_hostile(kFamily, op, dtypes, shape, seed);
}

}  // namespace planck::verify
