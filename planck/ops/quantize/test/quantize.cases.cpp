// Test cases of the quantize family: shapes, dtypes, values and attributes that its kernels must
// all survive.
#include <algorithm>
#include <array>

#include "planck/math/philox.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

// What an op's name says.
struct OpName {
  explicit OpName(std::string_view op)
      : per_channel(op.find("per_channel") != op.npos),
        per_token(op.find("per_token") != op.npos),
        per_group(op.find("per_group") != op.npos),
        backward(op.ends_with("_backward")),
        fake(op.starts_with("fake_")),
        dynamic(op.starts_with("dynamic_")),
        stores_q(!backward && !fake) {}
  bool per_channel, per_token, per_group, backward, fake, dynamic, stores_q;
};

enum class Values : std::uint8_t { ordinary, hostile_x, hostile_all, ties };

std::int64_t attribute(const Case& c, std::string_view key, std::int64_t otherwise) {
  const auto it = c.attributes.find(key);
  return it == c.attributes.end() ? otherwise : std::stoll(it->second);
}

// The group of element i, from the definition of the granularities.
std::int64_t group_of(const Case& c, const Shape& shape, std::int64_t i) {
  const OpName op(c.op);
  const std::int64_t last = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  if (op.per_token) return i / last;
  if (op.per_group) return i / attribute(c, "group", 128);
  if (!op.per_channel) return 0;
  const auto axis = static_cast<int>(attribute(c, "axis", 0));
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  return i / inner % shape[axis];
}

// One representable number up or down, or not at all; zero stays.
void nudge(HostTensor& t, std::int64_t i, std::uint32_t random) {
  const std::uint64_t p = t.pattern(i);
  const std::uint64_t magnitude = p & ((std::uint64_t{1} << (bits(t.dtype) - 1)) - 1);
  if (magnitude != 0) t.set_pattern(i, p + random % 3 - 1);
}

// x = s · (k + 1/2), exactly or one representable number off: the values that tell one rounding
// from another.
void put_ties(const Case& c, NamedTensors& tensors) {
  const auto x = tensors.find("x"), scale = tensors.find("scale");
  if (x == tensors.end() || scale == tensors.end()) return;
  const PhiloxStream random{c.seed, 77};
  for (std::int64_t i = 0; i < x->second.count(); ++i) {
    const Philox4 r = random.words(static_cast<std::uint64_t>(i));
    const double k = static_cast<double>(static_cast<int>(r.v[0] % 601) - 300);
    x->second.set_number(i, scale->second.number(group_of(c, x->second.shape, i)) * (k + 0.5));
    nudge(x->second, i, r.v[1]);
  }
}

// The first element of a group gives it a scale that is a power of two; the others are ties on its
// grid.
void put_dynamic_ties(const Case& c, NamedTensors& tensors) {
  const auto x = tensors.find("x");
  if (x == tensors.end()) return;
  const auto dtype = parse_dtype(c.attributes.find("dtype")->second).value_or(Dtype::s8);
  const int steps =
      bits(dtype) == 4 ? 7 : 127;  // what a symmetric range spans on either side of its zero point
  const PhiloxStream random{c.seed, 78};
  std::vector<bool> seen(static_cast<std::size_t>(x->second.count()) + 1, false);
  for (std::int64_t i = 0; i < x->second.count(); ++i) {
    const auto group = static_cast<std::size_t>(group_of(c, x->second.shape, i));
    const double unit = (group % 3 == 0) ? 1.0 : (group % 3 == 1) ? 0.125 : 16.0;
    const std::uint32_t r = random.words(static_cast<std::uint64_t>(i)).v[0];
    const int k = static_cast<int>(r % static_cast<std::uint32_t>(2 * steps)) - steps;
    x->second.set_number(i, unit * (seen[group] ? k + 0.5 : steps));
    seen[group] = true;
  }
}

struct Choice {
  Values values = Values::ordinary;
  bool reciprocal = false;
  std::uint64_t seed = 0;
};

bool has_attribute(const OpInfo& info, std::string_view key) {
  return std::any_of(info.attributes.begin(), info.attributes.end(),
                     [&](const auto& a) { return a.name == key; });
}

// Ranges: the dtype's own, one step narrower, a single value, one that leaves 0 out.
void set_range(Case& c, Dtype quantized, bool dynamic, std::uint64_t seed) {
  const auto [lowest, highest] = int_range(quantized);
  const auto set = [&](std::int32_t low, std::int32_t high) {
    c.attributes["q_min"] = std::to_string(low);
    c.attributes["q_max"] = std::to_string(high);
  };
  switch (seed % 7) {
    case 2:
      return set(lowest + 1, highest);
    case 4:
      return dynamic ? set(lowest, highest - 1) : set(3, 3);
    case 5:
      return dynamic ? set(0, 6) : set(2, 5);
    default:
      return;
  }
}

// A divisor of the extent, another one for another seed.
std::int64_t some_divisor(std::int64_t extent, std::uint64_t seed) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t d = 1; d <= extent; ++d)
    if (extent % d == 0) divisors.push_back(d);
  return divisors.empty() ? 1 : divisors[seed % divisors.size()];
}

Shape groups_of(const Case& c, const Shape& shape) {
  const OpName op(c.op);
  Shape groups;
  if (op.per_channel) groups.push_back(shape[static_cast<int>(attribute(c, "axis", 0))]);
  if (op.per_token || op.per_group)
    for (int d = 0; d + 1 < shape.rank(); ++d) groups.push_back(shape[d]);
  if (op.per_group) groups.push_back(shape[shape.rank() - 1] / attribute(c, "group", 128));
  return groups;
}

// An operand with one element per group may have any shape of that count.
Shape reshaped(const Shape& groups, std::uint64_t seed) {
  if (seed % 3 != 1 || groups.rank() == kMaxRank) return groups;
  Shape longer;
  longer.push_back(1);
  for (std::int64_t e : groups) longer.push_back(e);
  return longer;
}

CaseInput make_input(const Case& c, std::string_view operand, DtypePair dtypes, const Shape& shape,
                     const Choice& choice) {
  const Dtype quantized = dtypes.aux.value_or(Dtype::s8);
  const bool hostile = choice.values == Values::hostile_x || choice.values == Values::hostile_all;
  CaseInput in{.name = std::string(operand), .dtype = dtypes.element, .shape = shape};
  if (operand == "q") {
    in.dtype = quantized;
    in.fill = Fill::integers;
  } else if (operand == "x" || operand == "dy") {
    in.fill = hostile ? Fill::adversarial : Fill::normal;
  } else {
    in.shape = reshaped(groups_of(c, shape), choice.seed);
    const bool extreme = choice.values == Values::hostile_all;
    if (operand == "scale") {
      in.fill = extreme ? Fill::extreme_scale : Fill::scale;
    } else {
      in.dtype = Dtype::i32;
      in.fill = extreme ? Fill::extreme_zero_point : Fill::integers;
      in.range = {int_range(quantized).lowest, int_range(quantized).highest};
    }
  }
  return in;
}

Case make_case(const OpInfo& info, DtypePair dtypes, Shape shape, const Choice& choice) {
  Case c{.op = std::string(info.name),
         .attributes = {},
         .inputs = {},
         .output_layouts = {},
         .seed = choice.seed};
  const OpName op(c.op);
  const Dtype quantized = dtypes.aux.value_or(Dtype::s8);
  if (shape.rank() == 0 && (op.per_channel || op.per_token || op.per_group)) shape = {1};
  if (op.stores_q && is_packed(quantized)) {
    if (shape.rank() == 0) shape = {2};
    shape[shape.rank() - 1] += shape[shape.rank() - 1] % 2;
  }
  c.attributes["dtype"] = planck::name(quantized);
  if (has_attribute(info, "q_min")) set_range(c, quantized, op.dynamic, choice.seed);
  if (has_attribute(info, "math") && choice.reciprocal) c.attributes["math"] = "reciprocal";
  if (has_attribute(info, "learnable"))
    c.attributes["learnable"] = choice.seed % 4 == 3 ? "false" : "true";
  if (has_attribute(info, "symmetric") && choice.seed % 2 == 1) c.attributes["symmetric"] = "false";
  if (op.per_channel)
    c.attributes["axis"] = std::to_string(choice.seed % static_cast<std::uint64_t>(shape.rank()));
  if (op.per_group)
    c.attributes["group"] = std::to_string(some_divisor(shape[shape.rank() - 1], choice.seed));
  if (choice.values == Values::ties && op.dynamic) {
    for (const char* key : {"q_min", "q_max", "symmetric"}) c.attributes.erase(key);
    c.prepare = {"ties", put_dynamic_ties};
  } else if (choice.values == Values::ties && !c.op.starts_with("dequantize")) {
    c.prepare = {"ties", put_ties};
  }
  for (const OperandInfo& operand : info.operands)
    if (operand.role == Role::input)
      c.inputs.push_back(make_input(c, operand.name, dtypes, shape, choice));
  return c;
}

const Shape kShapes[] = {{},
                         {0},
                         {3, 0},
                         {0, 4},
                         {1},
                         {1, 1},
                         {2},
                         {7},
                         {13},
                         {31},
                         {64},
                         {257},
                         {1, 7},
                         {7, 1},
                         {5, 7},
                         {17, 31},
                         {6, 10},
                         {33, 130},
                         {64, 64},
                         {3, 5, 7},
                         {4, 1, 9},
                         {2, 0, 4},
                         {5, 8, 12},
                         {2, 3, 5, 7},
                         {1, 2, 3, 1, 5},
                         {2, 1, 3, 2, 2, 3},
                         {2, 1, 3, 1, 2, 2, 4},
                         {2, 1, 3, 1, 2, 2, 1, 6}};

const Shape kThreadedShapes[] = {{263, 1030}, {270000}, {3, 521, 174}, {1030, 263}, {2, 90007}};

}  // namespace

std::vector<Case> quantize_cases(ListSize size) {
  constexpr std::array kValues = {Values::ordinary, Values::hostile_x, Values::hostile_all,
                                  Values::ties};
  std::vector<Case> cases;
  std::uint64_t seed = 1;
  std::size_t shape = 0;
  const int rounds = size == ListSize::lengthy ? 6 : 1;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::quantize) continue;
    const bool maths = has_attribute(*entry.info, "math");
    const auto add = [&](DtypePair dtypes, const Shape& extents, Values values, bool reciprocal) {
      cases.push_back(make_case(*entry.info, dtypes, extents, {values, reciprocal, seed++}));
    };
    for (int round = 0; round < rounds;
         ++round)  // every pair of dtypes with every kind of values and formula
      for (const DtypePair& dtypes : entry.dtypes)
        for (Values values : kValues)
          for (bool reciprocal : {false, true})
            if (maths || !reciprocal)
              add(dtypes, kShapes[shape++ % std::size(kShapes)], values, reciprocal);
    for (const Shape& extents : kShapes) {  // every shape
      const DtypePair& dtypes = entry.dtypes[seed % entry.dtypes.size()];
      add(dtypes, extents, kValues[seed % kValues.size()], false);
    }
    // Large enough for several threads.
    const std::size_t large = size == ListSize::lengthy ? entry.dtypes.size() : 2;
    for (std::size_t k = 0; k < large; ++k) {
      const DtypePair& dtypes = entry.dtypes[(seed * 5 + k) % entry.dtypes.size()];
      add(dtypes, kThreadedShapes[seed % std::size(kThreadedShapes)], kValues[seed % 2],
          maths && k % 2 == 1);
    }
  }
  return cases;
}

std::optional<Case> quantize_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::quantize) return std::nullopt;
  return make_case(*entry->info, dtypes, shape, {});
}

std::optional<Case> quantize_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                     std::uint64_t seed) {
  const OpEntry* entry = find_op(all_ops(), op);
  if (entry == nullptr || entry->info->category != OpCategory::quantize) return std::nullopt;
  constexpr std::array kValues = {Values::hostile_x, Values::ties, Values::hostile_all,
                                  Values::ties};
  return make_case(*entry->info, dtypes, shape,
                   {kValues[seed % kValues.size()], seed / 4 % 2 == 1, seed});
}

}  // namespace planck::verify
