// Test cases of the softmax family: shapes, axes and values that all its kernels must survive.
#include "planck/verify/row_cases.h"

namespace planck::verify {

namespace {

bool is_entropy(std::string_view op) { return op.starts_with("cross_entropy"); }
bool is_backward(std::string_view op) { return op.ends_with("_backward"); }

void add_entropy(Case& c, Dtype element, const Shape& shape, Fill fill, std::uint64_t seed) {
  const std::int64_t classes = shape[shape.rank() - 1];
  const std::int64_t rows = classes == 0 ? shape[0] : numel(shape) / classes;
  c.inputs.push_back({.name = "x", .dtype = element, .shape = {rows, classes}, .fill = fill});
  c.inputs.push_back({.name = "targets",
                      .dtype = seed % 2 == 0 ? Dtype::i64 : Dtype::i32,
                      .shape = {rows},
                      .fill = seed % 3 == 0 ? Fill::stray_integers : Fill::integers,
                      .range = {0, classes > 0 ? classes - 1 : 0}});
  if (seed % 3 != 1 && classes > 1) c.attributes["ignore_index"] = std::to_string(1);
  const bool wide = seed % 4 >= 2;
  if (wide) c.attributes["wide_loss"] = "true";
  if (!is_backward(c.op)) return;
  c.inputs.push_back({.name = "lse", .dtype = compute_dtype(element), .shape = {rows}});
  c.inputs.push_back({.name = "dloss",
                      .dtype = wide ? compute_dtype(element) : element,
                      .shape = {rows},
                      .fill = fill});
}

Case make_case(const OpInfo& info, Dtype element, const Shape& shape, Fill fill,
               std::uint64_t seed) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  if (is_entropy(c.op)) {
    add_entropy(c, element, shape, fill, seed);
  } else {
    c.attributes["axis"] =
        std::to_string(seed % 2 == 0 ? -1 : static_cast<std::int64_t>(seed / 2) % shape.rank());
    if (is_backward(c.op)) {
      c.inputs.push_back({.name = "y", .dtype = element, .shape = shape, .fill = fill});
      c.inputs.push_back({.name = "dy", .dtype = element, .shape = shape, .fill = fill});
    } else {
      c.inputs.push_back({.name = "x", .dtype = element, .shape = shape, .fill = fill});
    }
  }
  return c;
}

constexpr RowFamily kFamily{.category = OpCategory::softmax, .make = make_case};

}  // namespace

std::vector<Case> softmax_cases(ListSize size) { return row_cases(kFamily, size); }

std::optional<Case> softmax_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  return row_example(kFamily, op, dtypes, shape);
}

std::optional<Case> softmax_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                    std::uint64_t seed) {
  return row_hostile(kFamily, op, dtypes, shape, seed);
}

}  // namespace planck::verify
