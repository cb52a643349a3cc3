#include "planck/plan/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "planck/plan/nearest_name.h"
#include "planck/plan/request.h"

namespace planck {

const OpEntry* find_op(std::span<const OpEntry> entries, std::string_view op) {
  for (const OpEntry& entry : entries)
    if (entry.info->name == op) return &entry;
  return nullptr;
}

std::vector<DtypePair> elements_of(std::span<const Dtype> dtypes) {
  std::vector<DtypePair> pairs;
  for (Dtype t : dtypes) pairs.push_back({t, std::nullopt});
  return pairs;
}

std::vector<DtypePair> float_elements() {
  constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16};
  return elements_of(kFloats);
}

namespace {

bool can_be_given(const OperandInfo& operand) {
  return operand.role == Role::input || operand.updates;
}

std::string listed(std::span<const std::string_view> names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<void> check_attributes(const OpInfo& op, const Attributes& attributes) {
  std::vector<std::string_view> names;
  for (const AttributeInfo& a : op.attributes) names.push_back(a.name);
  for (const auto& [key, value] : attributes)
    if (std::find(names.begin(), names.end(), key) == names.end())
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: no attribute is called {}{}; it has: {}", op.name, key,
                              did_you_mean(key, names), listed(names)));
  return {};
}

Result<void> check_inputs(const OpInfo& op, const InputSpecs& inputs) {
  std::vector<std::string_view> names;
  for (const OperandInfo& operand : op.operands)
    if (can_be_given(operand)) names.push_back(operand.name);
  for (const auto& [key, spec] : inputs)
    if (std::find(names.begin(), names.end(), key) == names.end())
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: no input is called {}{}; it has: {}", op.name, key,
                              did_you_mean(key, names), listed(names)));
  for (const OperandInfo& operand : op.operands)
    if (operand.role == Role::input && !operand.optional &&
        inputs.find(operand.name) == inputs.end())
      return fail(ErrorCode::invalid_problem, fmt::format("{}: input {} is missing; it has: {}",
                                                          op.name, operand.name, listed(names)));
  return {};
}

Result<std::unique_ptr<AnyProblem>> parse_problem(std::span<const OpEntry> entries,
                                                  std::string_view op, const Attributes& attributes,
                                                  const InputSpecs& inputs) {
  const OpEntry* entry = find_op(entries, op);
  if (entry == nullptr)
    return fail(ErrorCode::invalid_problem, fmt::format("no op is called {}", op));
  if (auto ok = check_attributes(*entry->info, attributes); !ok) return tl::unexpected(ok.error());
  if (auto ok = check_inputs(*entry->info, inputs); !ok) return tl::unexpected(ok.error());
  return entry->parse(*entry->info, attributes, inputs);
}

}  // namespace planck
