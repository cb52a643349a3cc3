#include "planck/plan/op.h"

#include <fmt/format.h>

#include <cstdlib>

namespace planck {

namespace {

Result<void> check_one(const OpInfo& op, const OperandInfo& info, const OperandSpec& spec,
                       const View& v) {
  const auto invalid = [&](std::string text) {
    return fail(ErrorCode::invalid_problem, fmt::format("{}: {} {}", op.name, info.name, text));
  };
  if (!spec.accepts(v.dtype))
    return invalid(fmt::format("is {}, must be {}{}{}", name(v.dtype), name(spec.dtype),
                               spec.other_dtype ? " or " : "",
                               spec.other_dtype ? name(*spec.other_dtype) : ""));
  if (v.strides.rank() != v.shape.rank())
    return invalid(fmt::format("has {} strides for {} extents", v.strides.rank(), v.shape.rank()));
  if (spec.count_only) {
    if (numel(v.shape) != numel(spec.shape))
      return invalid(fmt::format("has {} elements, {}", numel(v.shape), spec.count_rule));
    if (auto strides = reshaped_strides(v, spec.shape); !strides)
      return fail(ErrorCode::misaligned_operand,
                  fmt::format("{}: {}: {}", op.name, info.name, strides.error().message));
  } else if (v.shape != spec.shape) {
    return invalid(fmt::format("has shape {}, the descriptor says {}", to_string(v.shape),
                               to_string(spec.shape)));
  }
  if (numel(v.shape) == 0) return {};
  if (v.data == nullptr)
    return invalid(fmt::format("is a null pointer, shape {} is not empty", to_string(v.shape)));
  if (const auto address = reinterpret_cast<std::uintptr_t>(v.data);
      address % storage_bytes(v.dtype) != 0)
    return fail(ErrorCode::misaligned_operand,
                fmt::format("{}: {} is at an address that is not a multiple of {} bytes", op.name,
                            info.name, storage_bytes(v.dtype)));
  if (info.role != Role::output) return {};
  if (may_overlap_itself(v.shape, v.strides))
    return invalid(fmt::format("is an output whose strides {} reach an element of shape {} twice",
                               to_string(v.strides), to_string(v.shape)));
  if (is_packed(v.dtype)) {  // two elements share a byte: they must be neighbours along one axis
    bool packed_axis = false, odd_stride = false;
    for (int d = 0; d < v.shape.rank(); ++d) {
      if (v.shape[d] == 1) continue;
      const bool packs = v.strides[d] == 1 && v.shape[d] % 2 == 0;
      packed_axis |= packs;
      odd_stride |= !packs && v.strides[d] % 2 != 0;
    }
    if (!packed_axis || odd_stride)
      return fail(
          ErrorCode::misaligned_operand,
          fmt::format("{}: {} is packed {}: one axis must have stride 1 and an even extent and all "
                      "other strides "
                      "must be even, shape {} has strides {}",
                      op.name, info.name, name(v.dtype), to_string(v.shape), to_string(v.strides)));
  }
  return {};
}

bool same_elements(const View& a, const View& b) {
  return a.data == b.data && bits(a.dtype) == bits(b.dtype) && a.shape == b.shape &&
         a.strides == b.strides;
}

// Whether no element belongs to both: their ranges do not meet, or they step through memory alike,
// in windows that do not, as the halves of rows do (a sufficient test: false may be a false alarm).
bool share_nothing(const View& a, const View& b) {
  const ByteRange x = byte_range(a), y = byte_range(b);
  if (x.begin == x.end || y.begin == y.end || x.end <= y.begin || y.end <= x.begin) return true;
  if (is_packed(a.dtype) || is_packed(b.dtype) || storage_bytes(b.dtype) != storage_bytes(a.dtype))
    return false;
  const auto size = static_cast<std::int64_t>(storage_bytes(a.dtype));
  const std::int64_t bytes = y.begin - x.begin;
  if (bytes % size != 0) return false;
  for (int d = 0; d < a.shape.rank(); ++d) {
    const std::int64_t step = std::abs(a.strides[d]);
    if (a.shape[d] == 1 || step == 0) continue;
    // What either reaches without whole steps, from the lowest element on.
    const auto reach = [&](const View& v) {
      std::int64_t sum = 0;
      for (int k = 0; k < v.shape.rank(); ++k)
        if (v.strides[k] % step != 0) sum += (v.shape[k] - 1) * std::abs(v.strides[k]);
      return sum;
    };
    const std::int64_t apart = ((bytes / size) % step + step) % step;
    if (reach(a) < apart && apart + reach(b) < step) return true;
  }
  return false;
}

}  // namespace

Result<void> check_operands(const OpInfo& op, std::span<const OperandSpec> specs,
                            const Operands& operands) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    const OperandInfo& info = op.operands[i];
    if (!specs[i].used) continue;
    if (!operands[i].present) {
      if (info.optional && !specs[i].required) continue;
      return fail(ErrorCode::invalid_problem, fmt::format("{}: {} is missing", op.name, info.name));
    }
    if (auto ok = check_one(op, info, specs[i], operands[i]); !ok) return ok;
  }
  // An output may be the very same view as an input, where the op works in place, and nothing else
  // may share its memory.
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].role != Role::output || !specs[i].used || !operands[i].present) continue;
    for (std::size_t j = 0; j < op.operands.size(); ++j) {
      if (j == i || !specs[j].used || !operands[j].present) continue;
      if (share_nothing(operands[i], operands[j])) continue;
      if (op.operands[j].role == Role::input && same_elements(operands[i], operands[j])) {
        if (!op.in_place)
          return fail(ErrorCode::invalid_problem,
                      fmt::format("{}: output {} cannot replace {}: the op does not work in place",
                                  op.name, op.operands[i].name, op.operands[j].name));
        if (specs[i].count_only == specs[j].count_only) continue;
        return fail(ErrorCode::invalid_problem,
                    fmt::format("{}: output {} is one value per group, it cannot replace {}",
                                op.name, op.operands[i].name, op.operands[j].name));
      }
      return fail(ErrorCode::invalid_problem,
                  fmt::format("{}: output {} overlaps {} without being the same view", op.name,
                              op.operands[i].name, op.operands[j].name));
    }
  }
  return {};
}

}  // namespace planck
