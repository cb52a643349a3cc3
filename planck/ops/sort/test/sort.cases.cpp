// Test cases of the sort family: rows of every length class, ties, NaN, axes.
#include <algorithm>

#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Extent {
  Shape x;
  int axis;
};

// wild: every bit pattern. few: values that occur again and again.
enum class Values : std::uint8_t { ordinary, wild, few, same };
constexpr Values kAllValues[] = {Values::ordinary, Values::wild, Values::few, Values::same};

// Eight values, among them both zeros and two NaN.
void put_ties(const Case& c, NamedTensors& tensors) {
  HostTensor& x = tensors.find("x")->second;
  const double kFew[] = {0.0, -0.0, 1.0, -1.0, 2.0, -1.0, 0.5, 1.0};
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::uint64_t r = x.pattern(i) * 0x9e3779b97f4a7c15u + c.seed;
    x.set_number(i, kFew[r >> 61]);
    if (is_float(x.dtype) && (r >> 50) % 9 == 0)  // a quiet NaN of either sign, with a payload
      x.set_pattern(
          i, (~std::uint64_t{0} >> (64 - bits(x.dtype))) ^ ((r >> 40 & 1) << (bits(x.dtype) - 1)));
  }
}

Case make_case(const OpInfo& info, Dtype dtype, const Extent& e, Values values, bool ordinary,
               std::uint64_t seed) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = seed};
  CaseInput x{.name = "x", .dtype = dtype, .shape = e.x};
  x.fill = is_float(dtype) ? Fill::normal : Fill::integers;
  if (values == Values::wild && is_float(dtype)) x.fill = Fill::adversarial;
  if (values == Values::same) x.fill = Fill::ones;
  if (values == Values::few) c.prepare = {"ties", put_ties};
  c.inputs.push_back(x);
  c.attributes["axis"] = seed % 2 == 1 && e.axis == e.x.rank() - 1 ? "-1" : std::to_string(e.axis);
  const std::int64_t length = e.x[e.axis];
  if (c.op == "topk") {
    const std::int64_t choices[] = {std::min<std::int64_t>(length, 5), length / 8, length, 0,
                                    std::min<std::int64_t>(length, 1)};
    c.attributes["k"] = std::to_string(choices[ordinary ? 0 : seed % 5]);
    if (!ordinary && seed / 5 % 2 == 1) c.attributes["largest"] = "false";
    if (!ordinary && seed % 7 == 3) c.attributes["sorted"] = "false";
  } else if (!ordinary && seed / 2 % 2 == 1) {
    c.attributes["descending"] = "true";
  }
  return c;
}

const Extent kExtents[] = {{{1}, 0},
                           {{0}, 0},
                           {{7}, 0},
                           {{64}, 0},
                           {{129}, 0},
                           {{700}, 0},
                           {{1025}, 0},
                           {{3000}, 0},
                           {{4097}, 0},
                           {{0, 5}, 1},
                           {{5, 0}, 1},
                           {{5, 7}, 0},
                           {{6, 40}, 1},
                           {{130, 9}, 0},
                           {{3, 5000}, 1},
                           {{4100, 3}, 0},
                           {{2, 300, 5}, 1},
                           {{2, 1, 3, 1, 2, 2, 1, 6}, 5},
                           {{2, 1, 3, 1, 2, 2, 1, 6}, 7}};
const Extent kThreadedExtents[] = {
    {{200'000}, 0}, {{400, 300}, 1}, {{20, 6000}, 1}, {{9000, 12}, 0}};

}  // namespace

std::vector<Case> sort_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  std::size_t extent = 0;
  const int rounds = size == ListSize::lengthy ? 8 : 2;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::sort) continue;
    const auto add = [&](Dtype dtype, const Extent& e, Values values) {
      cases.push_back(make_case(*entry.info, dtype, e, values, false, seed));
      ++seed;
    };
    for (int round = 0; round < rounds; ++round)
      for (const DtypePair& dtypes : entry.dtypes)
        for (Values values : kAllValues)
          add(dtypes.element, kExtents[extent++ % std::size(kExtents)], values);
    for (const Extent& e : kExtents)
      add(entry.dtypes[seed % entry.dtypes.size()].element, e,
          kAllValues[seed % std::size(kAllValues)]);
    for (const Extent& e : kThreadedExtents)
      for (int turn = 0; turn < (size == ListSize::lengthy ? 6 : 1); ++turn)
        add(entry.dtypes[seed % entry.dtypes.size()].element, e, kAllValues[seed % 3]);
  }
  return cases;
}

std::optional<Case> sort_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::sort) return std::nullopt;
  const Shape x = shape.rank() == 0 ? Shape{1} : shape;
  return make_case(*entry->info, dtypes.element, {x, x.rank() - 1}, Values::ordinary, true, 0);
}

std::optional<Case> sort_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                 std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::sort) return std::nullopt;
  return make_case(*entry->info, dtypes.element, {shape, static_cast<int>(seed % 2)},
                   kAllValues[seed % 3], false, seed);
}

}  // namespace planck::verify
