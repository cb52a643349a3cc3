// Whether a GPU's tensor cores compute what math/products/tensor_core.h says: a GPU is asked by
// trials (loops/gemm/trials.h) before a kernel made of such an instruction is chosen for it.
#pragma once

#include <string>

#include "planck/core/dtype.h"
#include "planck/core/macros.h"
#include "planck/core/stream.h"

namespace planck::gemm_device {

// mma.sync of a warp, 16 × 8 outputs; wgmma of four warps, here 64 × 32.
enum class Instruction : std::uint8_t { mma_sync, wgmma };
inline constexpr Instruction kInstructions[] = {Instruction::mma_sync, Instruction::wgmma};
constexpr std::string_view name(Instruction i) {
  return i == Instruction::wgmma ? "wgmma" : "mma.sync";
}

struct Comparison {
  std::int64_t outputs = 0, differing = 0;
  std::int64_t first = -1;  // the first that differs: trial number · Trial::kOutputs + output

  bool operator==(const Comparison&) const = default;
};

// Trials first, first + 1, … of one instruction, compared on the device with the contract in
// integer arithmetic.
struct Trials {
  Dtype element;  // bf16, f16, f32 as TF32
  Instruction instruction;
  std::uint64_t seed;
  std::int64_t first, count;
  float* outputs = nullptr;   // host: what the instruction gave in the first trial, row by row
  std::int64_t spoiled = -1;  // for tests: this output is taken with its last bit inverted
};
PLANCK_CUDA_LIBRARY Result<Comparison> run_trials(const Stream&, const Trials&);

// Two million outputs, on a stream of its own, also while another one of this thread is captured.
PLANCK_CUDA_LIBRARY Result<Comparison> probe(Device, Dtype element, Instruction);

// Why no kernel can be made of the instruction for the device, as this build has it; "" where one
// can.
std::string absent(Device, Instruction);

// The probe, made once for each device, dtype and instruction; safe from any thread.
Result<Comparison> probed(Device, Dtype element, Instruction);
// A kernel table's refusal: "" where the GPU follows. A pointer's read once it was asked.
std::string unfaithful(Device, Dtype element, Instruction);

// For tests: what the probe is taken to have found, until the scope ends.
class AssumedProbe {
 public:
  AssumedProbe(Device, Dtype element, Instruction, const Comparison& found);
  ~AssumedProbe();
  AssumedProbe(const AssumedProbe&) = delete;
  AssumedProbe& operator=(const AssumedProbe&) = delete;

 private:
  int ordinal_;
  Dtype element_;
  Instruction instruction_;
  Comparison found_;
  const Comparison* before_;
};

}  // namespace planck::gemm_device
