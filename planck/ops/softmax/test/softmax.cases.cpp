// Test cases of the softmax family: shapes, axes and values that all its kernels must survive.
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

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
  if (!is_backward(c.op)) return;
  c.inputs.push_back({.name = "lse", .dtype = compute_dtype(element), .shape = {rows}});
  c.inputs.push_back({.name = "dloss", .dtype = element, .shape = {rows}, .fill = fill});
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

const Shape kShapes[] = {{1},        {5},       {3, 7},    {7, 1},     {2, 3, 4},
                         {33, 65},   {4, 1025}, {9, 512},  {5, 33, 3}, {2, 4100},
                         {1, 17000}, {600, 8},  {3, 8192}, {130, 31},  {2, 2, 3, 2, 1, 2, 3, 2},
                         {0, 4},     {3, 0}};
const Shape kLargeShapes[] = {{1100, 130}, {40, 5000}, {3, 33000}};

}  // namespace

std::vector<Case> softmax_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::softmax) continue;
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

std::optional<Case> softmax_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::softmax) return std::nullopt;
  const Shape s = shape.rank() == 0 ? Shape{1} : shape;
  return make_case(*entry->info, dtypes.element, s, Fill::normal, 4);
}

std::optional<Case> softmax_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                    std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::softmax) return std::nullopt;
  return make_case(*entry->info, dtypes.element, shape, Fill::adversarial, seed);
}

}  // namespace planck::verify
