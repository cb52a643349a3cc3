// Test cases of the reduce family: shapes, axes and values that its kernels must all survive.
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Extent {
  Shape shape;
  std::string_view axes;
};

Case make_case(const OpInfo& info, Dtype element, const Extent& e, Fill fill, std::uint64_t seed) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  c.attributes["axes"] = std::string(e.axes);
  if (c.op == "cumsum" && seed % 2 == 1) c.attributes["reverse"] = "true";
  if (c.op == "var") c.attributes["correction"] = std::to_string(seed % 4 == 0 ? 0 : seed % 3);
  CaseInput x{.name = "x", .dtype = element, .shape = e.shape, .fill = fill};
  if (!is_float(element)) {
    x.fill = Fill::integers;
    if (element == Dtype::boolean)
      x.range = {seed % 4 == 0 ? 1 : 0, seed % 4 == 1 ? 0 : 1};
    else if (seed % 3 == 0)
      x.range = {-3, 3};  // ties
  }
  c.inputs.push_back(x);
  return c;
}

// Rows, columns, both, neither; around the sizes of blocks, chunks and teams.
const Extent kExtents[] = {
    {{}, "all"},
    {{1}, "all"},
    {{5}, "0"},
    {{7, 3}, "0"},
    {{7, 3}, "1"},
    {{7, 3}, "all"},
    {{2, 3, 4}, "0,2"},
    {{2, 3, 4}, "1"},
    {{33, 65}, "0"},
    {{33, 65}, "1"},
    {{9, 513}, "0"},
    {{4, 1025}, "1"},
    {{1025}, "all"},
    {{3, 5, 7, 2}, "1,3"},
    {{3, 5, 7, 2}, "0,2"},
    {{17, 1, 31}, "1"},
    {{300, 5}, "0"},
    {{5, 300, 9}, "1"},
    {{2, 4100}, "1"},
    {{129, 31}, "0"},
    {{2, 2, 3, 2, 1, 2, 3, 2}, "0,2,4,6"},
    {{2, 2, 3, 2, 1, 2, 3, 2}, "1,3,5,7"},
    {{6, 128}, "1"},
    {{64, 2048}, "0"},
    {{3, 8192}, "1"},
    {{70000}, "all"},
    {{100, 700}, "all"},
    {{5000, 3}, "0"},
    {{1, 40000}, "0"},
    {{40000, 1}, "1"},
};
// Nothing to reduce, or nowhere to put it.
const Extent kEmptyExtents[] = {
    {{0}, "all"}, {{3, 0}, "1"}, {{0, 3}, "0"}, {{0, 3}, "1"}, {{3, 0, 2}, "0,2"}};
// Work for several threads and blocks; chunks of rows and of columns.
const Extent kLargeExtents[] = {{{200000}, "all"}, {{3, 150001}, "1"},   {{3000, 130}, "0"},
                                {{700, 700}, "1"}, {{2, 2100, 70}, "1"}, {{300000, 2}, "0"}};

bool scans(std::string_view op) { return op == "cumsum" || op == "cummax" || op == "cummin"; }
bool one_axis(std::string_view op) { return op == "argmax" || op == "argmin" || scans(op); }
bool needs_element(std::string_view op) {
  return op == "max" || op == "min" || op == "argmax" || op == "argmin";
}

bool fits(std::string_view op, const Extent& e) {
  if (one_axis(op) && e.axes.size() > 1 && e.axes != "all") return false;
  if (scans(op) && e.axes == "all") return false;
  return true;
}
bool holds_nothing(const Extent& e) {
  for (int d = 0; d < e.shape.rank(); ++d)
    if (e.shape[d] == 0 &&
        (e.axes == "all" || e.axes.find(static_cast<char>('0' + d)) != e.axes.npos))
      return true;
  return false;
}

}  // namespace

std::vector<Case> reduce_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::reduction) continue;
    const std::string_view op = entry.info->name;
    const auto add = [&](Dtype element, const Extent& e) {
      if (!fits(op, e) || (needs_element(op) && holds_nothing(e))) return;
      constexpr Fill kFills[] = {Fill::normal, Fill::adversarial, Fill::uniform};
      cases.push_back(make_case(*entry.info, element, e, kFills[seed % 3], seed));
      ++seed;
    };
    std::size_t turn = 0;
    for (const Extent& e : kExtents)
      for (std::size_t k = 0; k < entry.dtypes.size(); ++k)
        if (size == ListSize::lengthy || (turn++ % 2 == 0)) add(entry.dtypes[k].element, e);
    for (const Extent& e : kEmptyExtents) add(entry.dtypes[seed % entry.dtypes.size()].element, e);
    for (const Extent& e : kLargeExtents)
      for (std::size_t k = 0; k < (size == ListSize::lengthy ? entry.dtypes.size() : 1); ++k)
        add(entry.dtypes[(seed + k) % entry.dtypes.size()].element, e);
  }
  return cases;
}

std::optional<Case> reduce_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::reduction) return std::nullopt;
  const bool scan = scans(op);
  const Extent e{shape.rank() == 0 && scan ? Shape{1} : shape, scan ? "0" : "all"};
  return make_case(*entry->info, dtypes.element, e, Fill::normal, 0);
}

std::optional<Case> reduce_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                   std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::reduction) return std::nullopt;
  constexpr std::string_view kAxes[] = {"0", "1", "all"};
  const std::size_t choice = seed % (scans(op) ? 2 : 3);
  const std::string_view axes = shape.rank() < 2 && choice == 1 ? "0" : kAxes[choice];
  return make_case(*entry->info, dtypes.element, {shape, axes}, Fill::adversarial, seed);
}

}  // namespace planck::verify
