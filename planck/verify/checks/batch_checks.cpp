// Batch invariance: rows of a result have the bits they have alone.
#include <fmt/format.h>

#include <algorithm>

#include "planck/verify/checks/checks.h"

namespace planck::verify {

namespace {

// Operands of an op that have its rows, and along which axis; below 0 from the end.
struct Rows {
  std::string_view op;
  struct Axis {
    std::string_view operand;
    int axis;
  };
  std::vector<Axis> axes;
};
const Rows* rows_of(std::string_view op) {
  static const std::vector<Rows> kAll = {
      {"matmul", {{"a", -2}, {"c", -2}, {"residual", -2}}},
      {"conv2d", {{"x", 0}, {"y", 0}}},
      {"conv2d_input", {{"dy", 0}, {"dx", 0}}},
      {"attention", {{"q", 0}, {"k", 0}, {"v", 0}, {"mask", 0}, {"y", 0}, {"lse", 0}}},
      {"attention_backward",
       {{"q", 0},
        {"k", 0},
        {"v", 0},
        {"mask", 0},
        {"y", 0},
        {"lse", 0},
        {"dy", 0},
        {"dq", 0},
        {"dk", 0},
        {"dv", 0}}},
  };
  const auto at = std::ranges::find(kAll, op, &Rows::op);
  return at == kAll.end() ? nullptr : &*at;
}

struct Part {
  int axis;
  std::int64_t first, count;
};

HostTensor slice(const HostTensor& whole, const Part& part) {
  Shape shape = whole.shape;
  shape[part.axis] = part.count;
  std::int64_t inner = 1;
  for (int d = part.axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  HostTensor out(whole.dtype, shape);
  const std::int64_t to = part.count * inner, from = whole.shape[part.axis] * inner;
  for (std::int64_t i = 0; i < out.count(); ++i)
    out.set_pattern(i, whole.pattern(i / to * from + part.first * inner + i % to));
  return out;
}

}  // namespace

void check_batch(const KernelCheck& check, std::span<const OpEntry> ops, const Outcome& golden) {
  const Subject& whole = check.subject;
  if (!whole.plan->precision_guarantee().batch_invariant || check.any_empty()) return;
  const Rows* rows = rows_of(whole.info().name);
  if (rows == nullptr) {
    check.expect_none("batch", "promises rows as they are alone, and nobody knows its rows");
    return;
  }
  const auto part_of = [&](std::string_view operand, const Shape& shape) -> std::optional<Part> {
    for (const Rows::Axis& a : rows->axes)
      if (a.operand == operand) {
        const int axis = a.axis < 0 ? a.axis + shape.rank() : a.axis;
        return Part{axis, shape[axis] / 3, (shape[axis] + 1) / 2};
      }
    return std::nullopt;
  };
  Case c = *whole.test_case;
  NamedTensors inputs = check.inputs;
  for (CaseInput& input : c.inputs)
    if (const auto part = part_of(input.name, input.shape)) {
      if (part->count == 0 || part->count == input.shape[part->axis])
        return;  // nothing to leave out
      inputs.at(input.name) = slice(check.inputs.at(input.name), *part);
      input.shape[part->axis] = part->count;
    }
  const auto problem = parse_problem(ops, c);
  if (!problem) {
    check.expect_none("batch", problem.error().message);
    return;
  }
  const auto plan = (*problem)->select(check.streams.front(), {.at_least = Reproducibility::none,
                                                               .kernel = whole.plan->sku().kernel});
  if (!plan) return;  // a kernel may refuse the smaller problem
  const Subject some{&c, problem->get(), plan->get(), (*problem)->specs()};
  const Outcome alone =
      execute(some, check.streams.back(), inputs, {.what = "some rows alone", .layouts = {}});
  if (!check.expect_none("some rows alone", alone.fault)) return;
  Outcome expected = golden;
  for (std::size_t i = 0; i < expected.outputs.size(); ++i)
    if (HostTensor& output = expected.outputs[i]; !output.bytes.empty())
      if (const auto part = part_of(whole.info().operands[i].name, output.shape))
        output = slice(output, *part);
  check.expect_none("some rows alone", outputs_difference(some, expected, alone));
}

}  // namespace planck::verify
