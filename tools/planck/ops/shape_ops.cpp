#include "tools/planck/ops/shape_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "planck/ops/ops.h"
#include "planck/plan/nearest_name.h"

namespace planck::cli {

namespace {

constexpr OperandInfo kOne[] = {{"x", Role::input}, {"y", Role::output}};
constexpr OperandInfo kMany[] = {
    {"x0", Role::input}, {"x1", Role::input, true}, {"y", Role::output}};
constexpr OperandInfo kPieces[] = {
    {"x", Role::input}, {"y0", Role::output}, {"y1", Role::output, true}};
constexpr OperandInfo kAssigned[] = {
    {"x", Role::input}, {"values", Role::input}, {"y", Role::output}};

constexpr AttributeInfo kAxis = {"axis", "0", "the axis; -1: the last"};
constexpr AttributeInfo kNewAxis = {"axis", "0", "where the new axis is put; -1: last"};
constexpr AttributeInfo kStart = {"start", "0", "the first element; below 0: from the end"};
constexpr AttributeInfo kStop = {"stop", "", "the first that is left out; none unless set"};
constexpr AttributeInfo kStep = {"step", "1", "from one to the next; below 0: backwards"};
constexpr AttributeInfo kReshape[] = {{"shape", "", "extents, as 4x5 or 4,5; one may be -1"}};
constexpr AttributeInfo kPermute[] = {{"axes", "", "of x, in their new order, as 1,0"}};
constexpr AttributeInfo kExpand[] = {{"shape", "", "extents, as 4x5 or 4,5"}};
constexpr AttributeInfo kFlip[] = {{"axes", "all", "that are reversed: 0,2 or -1, or all"}};
constexpr AttributeInfo kSlice[] = {kAxis, kStart, kStop, kStep};
constexpr AttributeInfo kCat[] = {kAxis};
constexpr AttributeInfo kStack[] = {kNewAxis};
constexpr AttributeInfo kSplit[] = {kAxis, {"sizes", "", "of the pieces, as 2,3"}};
constexpr AttributeInfo kPad[] = {
    {"before", "", "elements in front of each axis, as 0,1; below 0: cut away"},
    {"after", "", "elements behind each axis, as 0,1; below 0: cut away"},
    {"value", "0", "of what is added"}};
constexpr AttributeInfo kRepeat[] = {{"counts", "", "times along each axis, as 2,1"}};

constexpr OpCategory kCategory = OpCategory::index;  // elements elsewhere, none computed

constexpr OpInfo kShapeOps[] = {
    {"reshape", kCategory, "y = the elements of x in row-major order, in another shape", kOne,
     kReshape},
    {"permute", kCategory, "y = x with its axes in another order", kOne, kPermute},
    {"expand", kCategory, "y = x, its axes of extent 1 and new leading ones repeated", kOne,
     kExpand},
    {"slice", kCategory, "y = x[start:stop:step] along the axis, as in Python", kOne, kSlice},
    {"slice_assign", kCategory, "y = x with values in place of x[start:stop:step]", kAssigned,
     kSlice},
    {"flip", kCategory, "y = x with the order of elements reversed along the axes", kOne, kFlip},
    {"cat", kCategory, "y = x0, x1, x2, ... one after the other along the axis", kMany, kCat},
    {"stack", kCategory, "y = x0, x1, x2, ... of one shape, along a new axis", kMany, kStack},
    {"split", kCategory, "y0, y1, y2, ... = pieces of x along the axis", kPieces, kSplit},
    {"pad", kCategory, "y = x with elements of a value around it", kOne, kPad},
    {"repeat", kCategory, "y = x, counts[d] times along each axis d", kOne, kRepeat},
};

// No path from a float input to a float output, or a fused gradient without one of its own.
constexpr std::string_view kWithoutGradient[] = {"argmax",
                                                 "argmin",
                                                 "any",
                                                 "all",
                                                 "argsort",
                                                 "nonzero",
                                                 "one_hot",
                                                 "eq",
                                                 "ne",
                                                 "lt",
                                                 "le",
                                                 "gt",
                                                 "ge",
                                                 "logical_and",
                                                 "logical_or",
                                                 "logical_xor",
                                                 "logical_not",
                                                 "bitwise_and",
                                                 "bitwise_or",
                                                 "bitwise_xor",
                                                 "bitwise_not",
                                                 "shift_left",
                                                 "shift_right",
                                                 "fill",
                                                 "arange",
                                                 "random_uniform",
                                                 "random_normal",
                                                 "random_bernoulli",
                                                 "attention_backward",
                                                 "softmax_backward",
                                                 "log_softmax_backward",
                                                 "cross_entropy_backward",
                                                 "layer_norm_backward",
                                                 "rms_norm_backward",
                                                 "grid_sample_backward",
                                                 "embedding_sparse_backward",
                                                 "embedding_bag_backward"};

}  // namespace

std::span<const OpInfo> shape_ops() { return kShapeOps; }

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (const OpEntry& entry : all_ops()) names.push_back(entry.info->name);
  for (const OpInfo& info : kShapeOps) names.push_back(info.name);
  return names;
}

Result<const OpInfo*> find_op_info(std::string_view op) {
  if (const OpEntry* entry = find_op(all_ops(), op)) return entry->info;
  for (const OpInfo& info : kShapeOps)
    if (info.name == op) return &info;
  return fail(ErrorCode::invalid_problem,
              fmt::format("no op is called {}{}; planck ops --names lists them", op,
                          did_you_mean(op, op_names())));
}

bool is_differentiable(const OpInfo& op) {
  const std::string_view name = op.name;
  if (name.starts_with("dynamic_quantize_")) return false;
  if (name.starts_with("quantize_") && !name.ends_with("_backward")) return false;
  return std::find(std::begin(kWithoutGradient), std::end(kWithoutGradient), name) ==
         std::end(kWithoutGradient);
}

}  // namespace planck::cli
