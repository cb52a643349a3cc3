// Test cases of the embedding family: tables, indices and bags that its kernels must all survive.
#include <algorithm>

#include "planck/math/philox.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

enum class Indices : std::uint8_t { uniform, zipf, same, stray, all_bad, all_padding };
constexpr Indices kAllIndices[] = {Indices::uniform, Indices::zipf,    Indices::same,
                                   Indices::stray,   Indices::all_bad, Indices::all_padding};

struct Extent {
  std::int64_t rows, dim;  // V, D
  Shape indices;
};

struct Choice {
  Indices indices = Indices::uniform;
  bool hostile = false;   // adversarial elements
  bool ordinary = false;  // an example: no padding, nothing optional, good offsets
  std::uint64_t seed = 0;
};

bool is_bag(std::string_view op) { return op.starts_with("embedding_bag"); }
bool is_backward(std::string_view op) { return op.ends_with("_backward"); }

// Cuts of the list at random, some of them equal; for some seeds wrong ones among them. argmax
// points into its bag, mostly.
void put_bags(const Case& c, NamedTensors& tensors) {
  HostTensor& offsets = tensors.find("offsets")->second;
  const std::int64_t count = tensors.find("indices")->second.count();
  const PhiloxStream random{c.seed, 91};
  std::vector<std::int64_t> cuts;
  for (std::int64_t b = 0; b < offsets.count(); ++b) {
    const Philox4 r = random.words(static_cast<std::uint64_t>(b));
    cuts.push_back(r.v[0] % 4 == 0 && b > 0 ? cuts.back()
                                            : static_cast<std::int64_t>(r.v[1]) % (count + 1));
  }
  std::sort(cuts.begin(), cuts.end());
  if (!cuts.empty() && c.seed % 5 != 0) cuts.front() = 0;
  if (!cuts.empty() && c.seed % 3 != 0 && c.attributes.contains("include_last_offset"))
    cuts.back() = std::max(cuts.back(), count);
  const auto argmax = tensors.find("argmax");
  if (argmax != tensors.end()) {
    const std::int64_t dim = argmax->second.shape[1];
    for (std::int64_t i = 0; i < argmax->second.count(); ++i) {
      const auto bag = static_cast<std::size_t>(i / dim);
      const std::int64_t end = bag + 1 < cuts.size() ? cuts[bag + 1] : count;
      const Philox4 r = random.words(static_cast<std::uint64_t>(i) + 1'000'000);
      const std::int64_t size = end - cuts[bag];
      const std::int64_t at = size > 0 ? cuts[bag] + static_cast<std::int64_t>(r.v[0]) % size : -1;
      argmax->second.set_pattern(
          i, static_cast<std::uint64_t>(r.v[1] % 9 == 0 ? static_cast<std::int64_t>(r.v[2]) : at));
    }
  }
  const std::int64_t wrong[] = {-1, count + 1, 0, INT32_MIN, INT32_MAX, count / 2, count};
  for (std::size_t b = 0; b < cuts.size(); ++b) {
    const Philox4 r = random.words(static_cast<std::uint64_t>(b) + 2'000'000);
    const bool spoiled = c.seed % 4 == 3 && r.v[0] % 5 == 0;
    offsets.set_pattern(
        static_cast<std::int64_t>(b),
        static_cast<std::uint64_t>(spoiled ? wrong[r.v[1] % std::size(wrong)] : cuts[b]));
  }
}

CaseInput index_input(const Case& c, const Extent& e, const Choice& choice, std::int64_t padding) {
  CaseInput in{.name = "indices",
               .dtype = choice.seed % 2 == 0 ? Dtype::i64 : Dtype::i32,
               .shape = e.indices,
               .fill = Fill::integers,
               .range = {0, std::max<std::int64_t>(e.rows - 1, 0)}};
  switch (choice.indices) {
    case Indices::uniform:
      break;
    case Indices::zipf:
      in.fill = Fill::zipf;
      break;
    case Indices::same:
      in.range.low = in.range.high = static_cast<std::int64_t>(c.seed) % (in.range.high + 1);
      break;
    case Indices::stray:
      in.fill = Fill::stray_integers;
      break;
    case Indices::all_bad:
      in.range = {e.rows, e.rows + 100};
      break;
    case Indices::all_padding:
      in.range = {padding, padding};
      break;
  }
  return in;
}

void set_bag_attributes(Case& c, const Choice& choice) {
  constexpr std::string_view kModes[] = {"sum", "mean", "max"};
  if (choice.ordinary) return;
  c.attributes["mode"] = kModes[choice.seed % 3];
  if (choice.seed / 3 % 3 == 1) c.attributes["include_last_offset"] = "true";
}

std::int64_t bag_count(const Case& c, std::int64_t entries, const Choice& choice) {
  if (choice.ordinary) return entries / 8 + 1;
  switch (c.seed / 9 % 5) {
    case 0:
      return entries / 3 + 1;
    case 1:
      return 1;
    case 2:
      return std::min<std::int64_t>(2 * entries + 1, 3000);
    case 3:
      return 7;
    default:
      return c.seed % 2 == 0 ? 0 : entries / 10 + 2;
  }
}

Case make_case(const OpInfo& info, Dtype element, const Extent& e, const Choice& choice) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = choice.seed};
  std::int64_t padding = -1;
  if (e.rows > 0 &&
      (choice.indices == Indices::all_padding || (!choice.ordinary && choice.seed % 3 == 1)))
    padding = static_cast<std::int64_t>(choice.seed / 3) % e.rows;
  if (padding >= 0) c.attributes["padding_idx"] = std::to_string(padding);
  const Fill floats = choice.hostile ? Fill::adversarial : Fill::normal;
  const auto add = [&](std::string_view operand, const Shape& shape) {
    c.inputs.push_back(
        {.name = std::string(operand), .dtype = element, .shape = shape, .fill = floats});
  };
  Shape gathered = e.indices;
  gathered.push_back(e.dim);
  std::int64_t bags = 0;
  if (is_bag(c.op)) {
    set_bag_attributes(c, choice);
    bags = bag_count(c, numel(e.indices), choice);
    gathered = {bags, e.dim};
  }
  add(is_backward(c.op) ? "dout" : "weight", is_backward(c.op) ? gathered : Shape{e.rows, e.dim});
  c.inputs.push_back(index_input(c, e, choice, padding));
  const bool accumulates = !choice.ordinary && choice.seed / 2 % 2 == 1;
  if (is_backward(c.op)) c.attributes["num_embeddings"] = std::to_string(e.rows);
  if (is_backward(c.op) && c.op != "embedding_sparse_backward" && accumulates) {
    c.attributes["accumulate"] = "true";
    add("dweight", {e.rows, e.dim});
  }
  if (!is_bag(c.op)) return c;
  c.prepare = {"bags", put_bags};
  const bool last = c.attributes.contains("include_last_offset");
  c.inputs.push_back({.name = "offsets",
                      .dtype = choice.seed / 2 % 2 == 0 ? Dtype::i64 : Dtype::i32,
                      .shape = {bags + (last ? 1 : 0)},
                      .fill = Fill::zeros});
  const auto mode = c.attributes.find("mode");
  const bool sums = mode == c.attributes.end() || mode->second == "sum";
  if (sums && !choice.ordinary && choice.seed / 3 % 2 == 0) {
    add("weights", {numel(e.indices)});
    if (is_backward(c.op) && choice.seed % 4 != 0) add("weight", {e.rows, e.dim});
  }
  if (is_backward(c.op) && mode != c.attributes.end() && mode->second == "max")
    c.inputs.push_back(
        {.name = "argmax", .dtype = Dtype::i64, .shape = {bags, e.dim}, .fill = Fill::zeros});
  return c;
}

const Extent kExtents[] = {{1, 1, {1}},       {1, 1, {0}},
                           {0, 3, {4}},       {7, 0, {5}},
                           {5, 3, {}},        {5, 7, {13}},
                           {17, 31, {6, 10}}, {3, 1, {700}},
                           {1, 5, {1500}},    {50, 33, {2, 3, 5, 7}},
                           {300, 64, {257}},  {40, 130, {3, 5, 7}},
                           {2, 1100, {20}},   {1000, 8, {64}},
                           {70000, 2, {300}}, {11, 16, {2, 1, 3, 1, 2, 2, 4}},
                           {4, 9, {3, 0, 2}}, {600, 1, {64}},
                           {3, 24, {4200}}};
// Large enough for several threads, with rows that several share.
const Extent kThreadedExtents[] = {
    {5000, 32, {20000}}, {3, 40, {9000}}, {100000, 3, {40000}}, {1, 5, {70000}}, {2, 1100, {1300}}};

// Written past the caches.
const Extent kLargeExtents[] = {{70'000, 65, {3000}}, {500, 33, {140'000}}};

// Tables that a row-sparse gradient never touches: rows beyond 32 bits.
const Extent kSparseExtents[] = {{(std::int64_t{1} << 33) + 7, 5, {2000}},
                                 {std::int64_t{1} << 40, 3, {40, 13}},
                                 {std::int64_t{1} << 52, 1, {70}}};

// Bags cut a list.
Extent for_op(std::string_view op, Extent e) {
  if (is_bag(op)) e.indices = {numel(e.indices)};
  return e;
}

}  // namespace

std::vector<Case> embedding_cases(ListSize size) {
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  std::size_t extent = 0;
  const int rounds = size == ListSize::lengthy ? 6 : 1;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::embedding) continue;
    const auto add = [&](Dtype element, const Extent& e, Indices indices) {
      const bool possible = e.rows > 0 || indices != Indices::all_padding;
      cases.push_back(make_case(*entry.info, element, for_op(entry.info->name, e),
                                {.indices = possible ? indices : Indices::all_bad,
                                 .hostile = seed % 5 == 0,
                                 .seed = seed}));
      ++seed;
    };
    for (int round = 0; round < rounds; ++round)
      for (const DtypePair& dtypes : entry.dtypes)
        for (Indices indices : kAllIndices)
          for (int turn = 0; turn < 2; ++turn)
            add(dtypes.element, kExtents[extent++ % std::size(kExtents)], indices);
    for (const Extent& e : kExtents)
      add(entry.dtypes[seed % entry.dtypes.size()].element, e,
          kAllIndices[seed % std::size(kAllIndices)]);
    if (entry.info->name == "embedding_sparse_backward")
      for (const Extent& e : kSparseExtents)
        for (Indices indices : {Indices::uniform, Indices::zipf, Indices::same, Indices::stray})
          add(entry.dtypes[seed % entry.dtypes.size()].element, e, indices);
    const std::size_t large = size == ListSize::lengthy ? 4 : 1;
    for (std::size_t k = 0; k < large; ++k)
      for (const Extent& e : kThreadedExtents)
        add(entry.dtypes[seed % entry.dtypes.size()].element, e, kAllIndices[seed % 4]);
    for (const Extent& e : kLargeExtents)
      if (size == ListSize::lengthy) add(Dtype::f32, e, Indices::zipf);
  }
  return cases;
}

std::optional<Case> embedding_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::embedding) return std::nullopt;
  const std::int64_t dim = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  const std::int64_t rows = dim == 0 ? 0 : numel(shape) / dim;
  return make_case(*entry->info, dtypes.element, {rows, dim, {rows}}, {.ordinary = true});
}

std::optional<Case> embedding_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                      std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::embedding) return std::nullopt;
  constexpr Indices kIndices[] = {Indices::stray, Indices::zipf, Indices::same, Indices::uniform};
  const std::int64_t rows = numel(shape) / shape[shape.rank() - 1];
  return make_case(*entry->info, dtypes.element, {rows / 4 + 1, shape[shape.rank() - 1], {rows}},
                   {.indices = kIndices[seed % 4], .hostile = seed % 2 == 0, .seed = seed});
}

}  // namespace planck::verify
