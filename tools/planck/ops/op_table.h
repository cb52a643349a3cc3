// What `planck ops` shows of every registered op: operands, attributes, and each kernel's dtypes,
// promise and workspace.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planck/ops/ops.h"

namespace planck::cli {

// A kernel for the dtypes of which it promises the same.
struct KernelRow {
  std::string_view kernel;
  DeviceKind device;
  std::string dtypes;  // "f32 f16 bf16 → s8 u8 s4 u4"
  PrecisionGuarantee guarantee;
  std::size_t workspace;                        // bytes, for kExampleShape
  std::vector<std::string_view> architectures;  // that this build has a CUDA kernel for
};

struct OpRow {
  std::string_view family;
  const OpInfo* info;
  std::vector<KernelRow> kernels;  // none: elements are seen elsewhere, or copied
};

inline constexpr Shape kExampleShape = {4096, 4096};

// Those of the registry and of shape_ops(), where `wanted` says so; but for `architectures` the
// same on every machine and in every build.
[[nodiscard]] Result<std::vector<OpRow>> op_table(
    const std::function<bool(std::string_view)>& wanted);

std::string op_markdown(const std::vector<OpRow>& ops);
std::string op_json(const std::vector<OpRow>& ops);
std::string op_text(const std::vector<OpRow>& ops);
std::string op_usage(const OpInfo& info);  // operands and attributes of one op

}  // namespace planck::cli
