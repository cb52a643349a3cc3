#include "planck/verify/gradient.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planck/verify/tensors/placed_run.h"

namespace planck::verify {

namespace {

// Outputs by name, on the CPU with the kernel that select() prefers.
Result<NamedTensors> evaluate(std::span<const OpEntry> ops, const Case& c,
                              const NamedTensors& inputs) {
  const Stream stream = Stream::cpu(1);
  auto problem = parse_problem(ops, c);
  if (!problem) return tl::unexpected(problem.error());
  auto plan = (*problem)->select(stream);
  if (!plan) return tl::unexpected(plan.error());
  const Subject subject{&c, problem->get(), plan->get(), (*problem)->specs()};
  Outcome outcome = execute(subject, stream, inputs, {.what = "gradient", .layouts = {}});
  if (!outcome.fault.empty()) return fail(ErrorCode::invalid_problem, outcome.fault);
  NamedTensors outputs;
  for (std::size_t i = 0; i < subject.operands(); ++i)
    if (subject.role(i) == Role::output && subject.specs[i].used)
      outputs.emplace(subject.info().operands[i].name, std::move(outcome.outputs[i]));
  return outputs;
}

double dot(const HostTensor& a, const HostTensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.count(); ++i) sum += a.number(i) * b.number(i);
  return sum;
}

// The backward's inputs: the cotangent and those of the forward's that it asks for by name.
Case backward_case(std::span<const OpEntry> ops, const GradientCheck& check,
                   const HostTensor& cotangent) {
  Case backward{.op = check.backward_op,
                .attributes = check.backward_attributes,
                .inputs = {},
                .output_layouts = {}};
  const OpEntry* entry = find_op(ops, check.backward_op);
  if (entry == nullptr) return backward;
  for (const OperandInfo& operand : entry->info->operands) {
    if (operand.role != Role::input) continue;
    if (operand.name == check.cotangent)
      backward.inputs.push_back(
          {.name = std::string(operand.name), .dtype = cotangent.dtype, .shape = cotangent.shape});
    for (const CaseInput& in : check.forward.inputs)
      if (in.name == operand.name) backward.inputs.push_back(in);
  }
  return backward;
}

}  // namespace

std::string check_gradients(std::span<const OpEntry> ops, const GradientCheck& check) {
  NamedTensors inputs = check.forward.make_inputs();
  const auto forward = evaluate(ops, check.forward, inputs);
  if (!forward) return forward.error().message;
  const auto y = forward->find(check.output);
  if (y == forward->end())
    return fmt::format("{} has no output {}", check.forward.op, check.output);
  HostTensor cotangent(Dtype::f64, y->second.shape);
  fill(cotangent, Fill::normal, check.forward.seed, 1000);

  NamedTensors backward_inputs = inputs;
  backward_inputs.insert_or_assign(check.cotangent, cotangent);
  const auto gradients = evaluate(ops, backward_case(ops, check, cotangent), backward_inputs);
  if (!gradients) return gradients.error().message;

  const auto loss = [&](HostTensor& tensor, std::int64_t i, double value) -> Result<double> {
    const std::uint64_t before = tensor.pattern(i);
    tensor.set_number(i, value);
    auto outputs = evaluate(ops, check.forward, inputs);
    tensor.set_pattern(i, before);
    if (!outputs) return tl::unexpected(outputs.error());
    return dot(cotangent, outputs->find(check.output)->second);
  };
  for (const auto& [input, gradient] : check.pairs) {
    const auto analytic = gradients->find(gradient);
    const auto variable = inputs.find(input);
    if (analytic == gradients->end() || variable == inputs.end())
      return fmt::format("{}: no input {} or no gradient {}", check.backward_op, input, gradient);
    HostTensor& x = variable->second;
    const double h = is_float(x.dtype) ? check.step : 1.0;
    const std::int64_t stride = std::max<std::int64_t>(1, x.count() / check.samples);
    for (std::int64_t i = 0; i < x.count(); i += stride) {
      const double at = x.number(i);
      const auto above = loss(x, i, at + h), below = loss(x, i, at - h);
      if (!above || !below) return (above ? below : above).error().message;
      const double numeric = (*above - *below) / (2 * h), stated = analytic->second.number(i);
      const double scale = std::max({std::abs(numeric), std::abs(stated), check.floor});
      if (!(std::abs(numeric - stated) <= check.tolerance * scale))
        return fmt::format("{}: {}[{}] is {:.12g}, finite differences give {:.12g}",
                           check.backward_op, gradient, i, stated, numeric);
    }
  }
  return "";
}

}  // namespace planck::verify
