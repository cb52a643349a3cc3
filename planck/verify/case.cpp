#include "planck/verify/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace planck::verify {

namespace {
std::string dashed(const Shape& shape) {
  return shape.rank() == 0 ? "scalar"
                           : fmt::format("{}", fmt::join(shape.begin(), shape.end(), "x"));
}
}  // namespace

std::string Case::id() const {
  std::vector<std::string> settings, operands;
  for (const auto& [key, value] : attributes) settings.push_back(key + "=" + value);
  for (const CaseInput& in : inputs) {
    operands.push_back(fmt::format("{}={}.{}.{}", in.name, planck::name(in.dtype), dashed(in.shape),
                                   name(in.fill)));
    if (in.layout != Layout::contiguous) operands.back() += fmt::format(".{}", name(in.layout));
  }
  for (const auto& [output, layout] : output_layouts)
    operands.push_back(fmt::format("{}={}", output, name(layout)));
  if (prepare.apply != nullptr) operands.emplace_back(prepare.name);
  return fmt::format("{}:{}:{}:{}", op, fmt::join(settings, ","), fmt::join(operands, ","), seed);
}

NamedTensors Case::make_inputs() const {
  NamedTensors tensors;
  std::uint64_t position = 0;
  for (const CaseInput& in : inputs) {
    HostTensor t(in.dtype, in.shape);
    fill(t, in.fill, seed, position++, in.range);
    tensors.emplace(in.name, std::move(t));
  }
  if (prepare.apply != nullptr) prepare.apply(*this, tensors);
  return tensors;
}

Result<std::unique_ptr<AnyProblem>> parse_problem(std::span<const OpEntry> ops, const Case& c) {
  InputSpecs specs;
  for (const CaseInput& in : c.inputs) specs[in.name] = {in.dtype, in.shape};
  return planck::parse_problem(ops, c.op, c.attributes, specs);
}

}  // namespace planck::verify
