#include "planck/plan/registry.h"

#include <fmt/format.h>

#include <charconv>

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

Result<std::unique_ptr<AnyProblem>> parse_problem(std::span<const OpEntry> entries,
                                                  std::string_view op, const Attributes& attributes,
                                                  const InputSpecs& inputs) {
  const OpEntry* entry = find_op(entries, op);
  if (entry == nullptr)
    return fail(ErrorCode::invalid_problem, fmt::format("no op is called {}", op));
  const OpInfo& info = *entry->info;
  for (const auto& [key, value] : attributes) {
    bool known = false;
    std::string all;
    for (const AttributeInfo& a : info.attributes) {
      known |= a.name == key;
      all += fmt::format("{}{}", all.empty() ? "" : ", ", a.name);
    }
    if (!known)
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: no attribute is called {}; it has: {}", op, key,
                              all.empty() ? "none" : all));
  }
  std::string wanted;
  const auto can_be_given = [](const OperandInfo& o) { return o.role == Role::input || o.updates; };
  for (const OperandInfo& operand : info.operands)
    if (can_be_given(operand))
      wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", operand.name);
  for (const auto& [key, spec] : inputs)
    if (const int i = info.operand(key);
        i < 0 || !can_be_given(info.operands[static_cast<std::size_t>(i)]))
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: no input is called {}; it has: {}", op, key, wanted));
  for (const OperandInfo& operand : info.operands)
    if (operand.role == Role::input && !operand.optional &&
        inputs.find(operand.name) == inputs.end())
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: input {} is missing; it has: {}", op, operand.name, wanted));
  return entry->parse(info, attributes, inputs);
}

std::string AttributeReader::text(std::string_view attribute) const {
  if (const auto it = attributes_.find(attribute); it != attributes_.end()) return it->second;
  for (const AttributeInfo& a : op_.attributes)
    if (a.name == attribute) return std::string(a.default_value);
  return "";
}

Error AttributeReader::wrong(std::string_view attribute, std::string_view value,
                             std::string_view expected) const {
  return {ErrorCode::invalid_problem,
          fmt::format("{}: {}={} is not {}", op_.name, attribute, value, expected)};
}

Result<std::int64_t> AttributeReader::integer(std::string_view attribute) const {
  const std::string value = text(attribute);
  std::int64_t number = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (status != std::errc() || end != value.data() + value.size())
    return tl::unexpected(wrong(attribute, value, "a whole number"));
  return number;
}

Result<bool> AttributeReader::boolean(std::string_view attribute) const {
  const std::string value = text(attribute);
  if (value == "true") return true;
  if (value == "false") return false;
  return tl::unexpected(wrong(attribute, value, "true or false"));
}

Result<Dtype> AttributeReader::dtype(std::string_view attribute) const {
  const std::string value = text(attribute);
  if (const auto t = parse_dtype(value)) return *t;
  return tl::unexpected(wrong(attribute, value, "a dtype"));
}

}  // namespace planck
