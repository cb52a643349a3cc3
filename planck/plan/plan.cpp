#include "planck/plan/plan.h"

#include <fmt/format.h>

#include "planck/core/cpu/target.h"
#include "planck/core/cuda/runtime.h"

namespace planck::plan_detail {

std::string lacks(int capability, Device device) {
  if (capability == 0) return "";
  const std::string made_for = fmt::format("{}.{}", capability / 10, capability % 10);
  const int there = cuda::compute_capability(device.ordinal).value_or(0);
  if (there != capability)
    return fmt::format("is made for compute capability {}, the device has {}.{}", made_for,
                       there / 10, there % 10);
  if (cuda::architectures().find(fmt::format("{}a", capability)) == std::string_view::npos)
    return fmt::format("is made for compute capability {}a, this build has code for {}", made_for,
                       cuda::architectures());
  return "";
}

std::string unavailable(std::string_view kernel, DeviceKind device, int capability,
                        const Stream& stream, const PlanPreference& preference) {
  if (preference.kernel && *preference.kernel != kernel)
    return fmt::format("not the kernel asked for ({})", *preference.kernel);
  if (device != stream.device().kind)
    return fmt::format("does not run on {}", to_string(stream.device()));
  if (device == DeviceKind::cuda && !cuda::built()) return "this build has no CUDA";
  return lacks(capability, stream.device());
}

Error none_selected(const OpInfo& op, const Stream& stream,
                    std::span<const std::pair<std::string_view, std::string>> reasons) {
  std::string text = fmt::format("{}: no kernel on {}", op.name, to_string(stream.device()));
  const char* separator = ": ";
  for (const auto& [kernel, reason] : reasons) {
    text += fmt::format("{}{} {}", separator, kernel, reason);
    separator = "; ";
  }
  return Error{ErrorCode::unsupported, std::move(text)};
}

Result<void> check_run(const OpInfo& op, Device selected, const Stream& stream, std::size_t need,
                       Workspace workspace) {
  if (!(stream.device() == selected))
    return fail(ErrorCode::invalid_problem,
                fmt::format("{}: the plan was selected for {}, the stream is on {}", op.name,
                            to_string(selected), to_string(stream.device())));
  if (workspace.bytes < need)
    return fail(ErrorCode::workspace_too_small,
                fmt::format("{}: workspace has {} bytes, the plan needs {}", op.name,
                            workspace.bytes, need));
  if (need > 0 && (workspace.data == nullptr ||
                   reinterpret_cast<std::uintptr_t>(workspace.data) % kWorkspaceAlignment != 0))
    return fail(
        ErrorCode::misaligned_operand,
        fmt::format("{}: workspace must be aligned to {} bytes", op.name, kWorkspaceAlignment));
  return {};
}

std::string_view arch_name(Device device) {
  if (device.kind == DeviceKind::cpu) return cpu_target_name();
  switch (cuda::compute_capability(device.ordinal).value_or(0)) {
    case 80:
      return "sm_80";
    case 86:
      return "sm_86";
    case 89:
      return "sm_89";
    case 90:
      return "sm_90";
    case 100:
      return "sm_100";
    case 120:
      return "sm_120";
    default:
      return "cuda";
  }
}

}  // namespace planck::plan_detail
