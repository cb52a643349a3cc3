// Test cases of the index family: axes, lengths, indices and masks that its kernels must all
// survive.
#include <algorithm>

#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

enum class Hits : std::uint8_t { uniform, zipf, same, stray, all_bad };
constexpr Hits kAllHits[] = {Hits::uniform, Hits::zipf, Hits::same, Hits::stray, Hits::all_bad};

struct Extent {
  Shape x;
  int axis;
  std::int64_t items;  // along the axis
};

struct Choice {
  Hits hits = Hits::uniform;
  bool hostile = false;   // adversarial elements
  bool ordinary = false;  // an example: an index of x's shape, x given
  std::uint64_t seed = 0;
};

bool is_mask(std::string_view op) { return op.starts_with("mask_") || op == "nonzero"; }
bool scatters(std::string_view op) {
  return op == "scatter" || op == "scatter_add" || op == "index_add";
}

CaseInput element_input(std::string_view name, Dtype dtype, const Shape& shape, bool hostile) {
  CaseInput in{.name = std::string(name), .dtype = dtype, .shape = shape};
  in.fill = !is_float(dtype) ? Fill::integers : hostile ? Fill::adversarial : Fill::normal;
  return in;
}

CaseInput index_input(const Shape& shape, std::int64_t extent, const Choice& choice) {
  CaseInput in{.name = "index",
               .dtype = choice.seed % 2 == 0 ? Dtype::i64 : Dtype::i32,
               .shape = shape,
               .fill = Fill::integers,
               .range = {0, std::max<std::int64_t>(extent - 1, 0)}};
  switch (choice.hits) {
    case Hits::uniform:
      break;
    case Hits::zipf:
      in.fill = Fill::zipf;
      break;
    case Hits::same:
      in.range.low = in.range.high = static_cast<std::int64_t>(choice.seed) % (in.range.high + 1);
      break;
    case Hits::stray:
      in.fill = Fill::stray_integers;
      break;
    case Hits::all_bad:
      in.range = {extent, extent + 100};
      break;
  }
  return in;
}

// Off the axis an index may have fewer elements than x.
Shape index_shape(std::string_view op, const Extent& e, const Choice& choice) {
  if (op == "index_select" || op == "index_add") return {e.items};
  Shape s = e.x;
  if (!choice.ordinary && choice.seed % 4 == 3)
    for (int d = 0; d < s.rank(); ++d)
      if (d != e.axis) s[d] = (s[d] + 1) / 2;
  s[e.axis] = e.items;
  return s;
}

Case make_case(const OpInfo& info, Dtype dtype, const Extent& e, const Choice& choice) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = choice.seed};
  const bool with_x = choice.ordinary || choice.seed % 3 != 2;
  if (is_mask(c.op)) {
    if (c.op == "mask_select" || (c.op == "mask_scatter" && with_x))
      c.inputs.push_back(element_input("x", dtype, e.x, choice.hostile));
    CaseInput mask{.name = "mask", .dtype = Dtype::boolean, .shape = e.x, .fill = Fill::integers};
    if (!choice.ordinary && choice.hits == Hits::same) mask.fill = Fill::ones;
    if (!choice.ordinary && choice.hits == Hits::all_bad) mask.fill = Fill::zeros;
    c.inputs.push_back(mask);
    if (c.op == "mask_scatter")
      c.inputs.push_back(element_input("values", dtype, {numel(e.x)}, choice.hostile));
    return c;
  }
  if (c.op == "one_hot") {
    Shape shape = e.x;
    if (shape.rank() == kMaxRank) shape = {numel(e.x)};
    const std::int64_t classes = choice.ordinary ? 10 : e.items % 11;
    c.attributes["classes"] = std::to_string(classes);
    c.attributes["dtype"] = name(dtype);
    c.inputs.push_back(index_input(shape, classes, choice));
    return c;
  }
  const Shape index = index_shape(c.op, e, choice);
  const bool last = choice.seed % 2 == 1 && e.axis == e.x.rank() - 1;
  c.attributes["axis"] = last ? "-1" : std::to_string(e.axis);
  if (!scatters(c.op) || with_x) c.inputs.push_back(element_input("x", dtype, e.x, choice.hostile));
  c.inputs.push_back(index_input(index, e.x[e.axis], choice));
  if (!scatters(c.op)) return c;
  Shape source = index;
  if (c.op == "index_add") {
    source = e.x;
    source[e.axis] = e.items;
  }
  c.inputs.push_back(element_input("source", dtype, source, choice.hostile));
  if (!with_x) c.attributes["extent"] = std::to_string(e.x[e.axis]);
  return c;
}

const Extent kExtents[] = {{{1}, 0, 1},
                           {{1}, 0, 0},
                           {{0}, 0, 4},
                           {{5}, 0, 13},
                           {{3}, 0, 700},
                           {{300}, 0, 257},
                           {{6000}, 0, 300},
                           {{40}, 0, 5000},
                           {{5, 7}, 0, 9},
                           {{5, 7}, 1, 200},
                           {{4, 0}, 1, 3},
                           {{0, 4}, 1, 3},
                           {{3, 0}, 0, 6},
                           {{17, 31}, 1, 31},
                           {{33, 130}, 0, 20},
                           {{1, 64}, 1, 4500},
                           {{7, 5, 3}, 1, 100},
                           {{3, 16, 8}, 1, 24},
                           {{2, 3, 5, 7}, 2, 11},
                           {{2, 3, 5, 4}, 1, 70},
                           {{2, 1, 3, 1, 2, 2, 1, 6}, 5, 3},
                           {{2, 1, 3, 2, 2, 3, 2, 2}, 7, 4}};
// Large enough for several threads, with rows that several share.
const Extent kThreadedExtents[] = {{{90'000}, 0, 80'000},
                                   {{3}, 0, 150'000},
                                   {{300, 500}, 1, 400},
                                   {{5000, 20}, 0, 9000},
                                   {{11, 5000, 3}, 1, 6000}};

}  // namespace

std::vector<Case> index_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  std::size_t extent = 0;
  const int rounds = size == ListSize::lengthy ? 6 : 1;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::index) continue;
    const auto add = [&](Dtype dtype, const Extent& e, Hits hits) {
      cases.push_back(
          make_case(*entry.info, dtype, e, {.hits = hits, .hostile = seed % 5 == 0, .seed = seed}));
      ++seed;
    };
    for (int round = 0; round < rounds; ++round)
      for (const DtypePair& dtypes : entry.dtypes)
        for (Hits hits : kAllHits)
          add(dtypes.element, kExtents[extent++ % std::size(kExtents)], hits);
    for (const Extent& e : kExtents)
      for (int turn = 0; turn < 2; ++turn)
        add(entry.dtypes[seed % entry.dtypes.size()].element, e,
            kAllHits[seed % std::size(kAllHits)]);
    const std::size_t large = size == ListSize::lengthy ? 4 : 1;
    for (std::size_t k = 0; k < large; ++k)
      for (const Extent& e : kThreadedExtents)
        add(entry.dtypes[seed % entry.dtypes.size()].element, e, kAllHits[seed % 4]);
  }
  return cases;
}

namespace {

Extent extent_of(const Shape& shape, std::uint64_t seed) {
  const Shape x = shape.rank() == 0 ? Shape{1} : shape;
  const int axis = static_cast<int>(seed % static_cast<std::uint64_t>(x.rank()));
  return {x, axis, x[axis]};
}

}  // namespace

std::optional<Case> index_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::index) return std::nullopt;
  return make_case(*entry->info, dtypes.element, extent_of(shape, 0), {.ordinary = true});
}

std::optional<Case> index_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                  std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::index) return std::nullopt;
  return make_case(*entry->info, dtypes.element, extent_of(shape, seed),
                   {.hits = kAllHits[seed % 4], .hostile = seed % 2 == 0, .seed = seed});
}

}  // namespace planck::verify
