// Test cases of the elementwise family: every op and dtype, ordinary and hostile values, shapes and
// layouts that its kernels must all survive.
#include <algorithm>

#include "planck/ops/elementwise/elementwise.problem.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

bool is_of_family(std::string_view op) {
  const OpEntry* entry = find_op(all_ops(), op);
  return entry != nullptr && entry->info->category == OpCategory::elementwise;
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (std::int64_t extent : shape) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

// Scalars that make a difference.
void set_scalars(Case& c, Dtype dtype, std::uint64_t seed) {
  const bool whole = !is_float(dtype);
  const auto set = [&](std::string_view key, std::string_view number, std::string_view integer) {
    c.attributes[std::string(key)] = whole ? integer : number;
  };
  if (c.op == "leaky_relu") set("slope", seed % 2 ? "-0.3" : "0.2", "0");
  if (c.op == "clamp" && seed % 4 == 3) set("min", "2.5", "7");  // above the upper bound
  if (c.op == "clamp" && seed % 4 != 2) set("max", "1.5", seed % 2 ? "100000" : "3");
  if (c.op == "clamp" && seed % 4 == 0) set("min", "-0.75", "-100");
  if (c.op == "add_scalar" || c.op == "mul_scalar" || c.op == "div_scalar" || c.op == "rdiv_scalar")
    set("value", seed % 2 ? "-1.7" : "0.1", seed % 2 ? "-3" : "123456789");
  if (c.op == "pow_scalar") {
    constexpr std::string_view kPowers[] = {"2", "-3", "0.5", "-0", "1.7", "inf"};
    c.attributes["value"] = kPowers[seed % std::size(kPowers)];
  }
  if (c.op == "mask_fill" || c.op == "fill") {
    set("value",
        seed % 3 == 0   ? "-inf"
        : seed % 3 == 1 ? "nan"
                        : "0.1",
        seed % 2 == 0 || dtype == Dtype::boolean ? "1"
        : dtype == Dtype::u8                     ? "7"
                                                 : "-7");
  }
  if (c.op == "arange") {
    set("start", "-3.25", "-17");
    set("step", "0.1", "3");
  }
  if (c.op == "random_uniform") set("low", "-2", "0");
  if (c.op == "random_normal") set("std", "3.5", "1");
  if (c.op == "random_bernoulli") set("p", "0.3", "0");
}

Case make_case(const OpInfo& info, DtypePair dtypes, const Shape& shape, bool hostile,
               std::uint64_t seed) {
  Case c;
  c.op = info.name;
  c.seed = seed;
  for (const OperandInfo& operand : info.operands) {
    if (operand.role == Role::output) continue;
    const bool mask =
        operand.name == "condition" || operand.name == "mask" || dtypes.element == Dtype::boolean;
    CaseInput in{.name = std::string(operand.name), .dtype = dtypes.element, .shape = shape};
    if (mask) {
      in.dtype = Dtype::boolean;
      in.fill = Fill::integers;
      in.range = {0, hostile ? 2 : 1};
    } else if (is_float(in.dtype)) {
      in.fill = hostile ? Fill::adversarial : Fill::normal;
    } else {
      in.fill = Fill::integers;
      if (!hostile) in.range = {-5, 5};
      if (!hostile && in.dtype == Dtype::u8) in.range = {0, 9};
    }
    c.inputs.push_back(in);
  }
  if (c.inputs.empty()) {
    c.attributes["shape"] = text_of(shape);
    c.attributes["dtype"] = name(dtypes.element);
  }
  if (c.op == "cast") c.attributes["dtype"] = name(dtypes.aux.value_or(Dtype::f32));
  if (c.op.starts_with("random")) {
    c.attributes["seed"] = std::to_string(1000 + seed);
    c.attributes["offset"] = std::to_string(seed % 3);
  }
  set_scalars(c, dtypes.element, seed);
  return c;
}

}  // namespace

std::optional<Case> elementwise_example(std::string_view op, DtypePair dtypes, const Shape& shape) {
  if (!is_of_family(op)) return std::nullopt;
  return make_case(*find_op(all_ops(), op)->info, dtypes, shape, false, 0);
}

std::optional<Case> elementwise_hostile(std::string_view op, DtypePair dtypes, const Shape& shape,
                                        std::uint64_t seed) {
  if (!is_of_family(op)) return std::nullopt;
  return make_case(*find_op(all_ops(), op)->info, dtypes, shape, true, seed);
}

std::vector<Case> elementwise_cases(ListSize size) {
  // A scalar, odd ends, several chunks, rows to broadcast along, nothing at all, eight axes.
  const std::vector<Shape> shapes = {{},     {1},           {7},      {0, 3},
                                     {5, 9}, {3, 4, 5},     {260, 9}, {1, 2, 1, 3, 1, 2, 1, 2},
                                     {1029}, {2, 3, 1, 67}, {41, 130}};
  std::vector<Case> all;
  std::uint64_t seed = 0;
  for (const OpEntry& entry : all_ops()) {
    if (entry.info->category != OpCategory::elementwise) continue;
    for (const DtypePair& dtypes : entry.dtypes) {
      // Casts are many: one shape each.
      const std::size_t few = entry.info->name == "cast" ? 1 : 2;
      const std::size_t count = size == ListSize::lengthy ? shapes.size() : few;
      for (std::size_t k = 0; k < count; ++k) {
        const Shape& shape = shapes[(seed + k * 5) % shapes.size()];
        all.push_back(make_case(*entry.info, dtypes, shape, k % 2 == 0, seed));
        ++seed;
      }
      if (few == 2) all.push_back(make_case(*entry.info, dtypes, {3001}, true, seed++));
    }
  }
  for (std::string_view op : {"add", "exp", "where", "copy", "random_normal"})
    if (size == ListSize::lengthy)
      for (Dtype t : {Dtype::f32, Dtype::bf16})
        all.push_back(make_case(*find_op(all_ops(), op)->info, {t, std::nullopt}, {1031, 2053},
                                true, seed++));
  return all;
}

}  // namespace planck::verify
