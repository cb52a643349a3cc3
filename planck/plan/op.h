// What is known about an op without its types: names, operands, attributes. The command line, the
// docs table, the harness and the benchmarks read it from here.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "planck/core/view.h"
#include "planck/plan/guarantee.h"

namespace planck {

struct OpEntry;  // plan/registry.h: an op with its types erased

enum class Role : std::uint8_t { input, output };

struct OperandInfo {
  std::string_view name;  // as the field of Args
  Role role;
  bool optional = false;
  bool updates = false;  // an output that may be given as an input too: its values before the run
  std::string_view refusal = {};  // an output that counts faults: what one is, for the command line
};

struct AttributeInfo {
  std::string_view name, default_value, help;
};

struct OpInfo {
  std::string_view name;  // "quantize_per_channel"
  OpCategory category;
  std::string_view formula;  // one line
  std::span<const OperandInfo> operands;
  std::span<const AttributeInfo> attributes;
  bool in_place = true;     // an output may be the very same view as an input
  bool broadcasts = false;  // inputs of other shapes are seen in the one that specs() say

  int operand(std::string_view operand_name) const {  // −1: no such operand
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (operands[i].name == operand_name) return static_cast<int>(i);
    return -1;
  }
};

// What is known of an input before it is there.
struct InputSpec {
  Dtype dtype;
  Shape shape;
};

// What a problem expects of one operand.
struct OperandSpec {
  Dtype dtype = Dtype::f32;
  Shape shape;
  bool count_only = false;  // any shape with as many elements will do (scales, zero points)
  std::string count_rule;   // what the count must equal, for the message: "shape[axis=1] is 8"
  bool used = true;         // false: this problem neither reads nor writes it
  bool required = false;    // this problem needs it, although the op calls it optional
  std::optional<Dtype> other_dtype = {};  // as good as `dtype`: i32 indices beside i64 ones

  bool accepts(Dtype t) const { return t == dtype || t == other_dtype; }
};

inline constexpr int kMaxOperands = 10;
using Operands = std::array<View, kMaxOperands>;  // in the order of OpInfo::operands

// Checks operands against specs: presence, dtype, shape, alignment, packing, aliasing. `specs` has
// one entry per operand.
[[nodiscard]] Result<void> check_operands(const OpInfo& op, std::span<const OperandSpec> specs,
                                          const Operands& operands);

}  // namespace planck
