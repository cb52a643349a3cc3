// What probes have found, for builds without CUDA, too.
#include "planck/loops/gemm/cuda/follows.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "planck/core/cuda/runtime.h"
#include "planck/plan/plan.h"

namespace planck::gemm_device {

namespace {

constexpr int kMostDevices = 64;

int format_of(Dtype element) { return element == Dtype::bf16 ? 0 : element == Dtype::f16 ? 1 : 2; }

// Null until asked.
std::atomic<const Comparison*>& slot(int ordinal, Dtype element, Instruction instruction) {
  static std::atomic<const Comparison*> found[kMostDevices][3][2];
  return found[ordinal][format_of(element)][static_cast<int>(instruction)];
}

}  // namespace

std::string absent(Device device, Instruction instruction) {
  if (!cuda::built()) return "this build has no CUDA";
  if (instruction == Instruction::wgmma) return plan_detail::lacks(90, device);
  const int there = cuda::compute_capability(device.ordinal).value_or(0);
  return there >= 80 ? ""
                     : fmt::format("is of compute capability 8.0 and newer, the device has {}.{}",
                                   there / 10, there % 10);
}

Result<Comparison> probed(Device device, Dtype element, Instruction instruction) {
  if (device.ordinal < 0 || device.ordinal >= kMostDevices)
    return fail(ErrorCode::device, fmt::format("no probe of {}: devices are counted up to {}",
                                               to_string(device), kMostDevices - 1));
  auto& kept = slot(device.ordinal, element, instruction);
  if (const Comparison* found = kept.load(std::memory_order_acquire)) return *found;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (const Comparison* found = kept.load(std::memory_order_acquire)) return *found;
  if (!cuda::built()) return fail(ErrorCode::device, "this build has no CUDA");
  auto found = probe(device, element, instruction);
  // An error, such as memory that ran out, is not what the part computes: asked again next time.
  if (found) kept.store(new Comparison(*found), std::memory_order_release);
  return found;
}

std::string unfaithful(Device device, Dtype element, Instruction instruction) {
  const auto found = probed(device, element, instruction);
  if (found && found->differing == 0) return "";
  if (!found)
    return fmt::format("is made of {}, which could not be compared with its contract: {}",
                       name(instruction), found.error().message);
  return fmt::format(
      "is made of {}, and this GPU's tensor cores do not follow the contract ({}: {} of {} outputs "
      "differ)",
      name(instruction), name(element), found->differing, found->outputs);
}

AssumedProbe::AssumedProbe(Device device, Dtype element, Instruction instruction,
                           const Comparison& found)
    : ordinal_(device.ordinal),
      element_(element),
      instruction_(instruction),
      found_(found),
      before_(slot(ordinal_, element, instruction).exchange(&found_)) {}

AssumedProbe::~AssumedProbe() { slot(ordinal_, element_, instruction_) = before_; }

}  // namespace planck::gemm_device
