// The kernel tables of the attention family, one for each meaning of a product, and packed
// sequences: a kernel does one after the other, as if each were alone.

#include "planck/loops/gemm/cuda/follows.h"
#include "planck/ops/attention/attention.math.h"
#include "planck/ops/attention/cpu/kernels.h"
#include "planck/ops/attention/cuda/kernels.h"
#include "planck/plan/kernel_table.h"

namespace planck {

namespace {

// Roundings of a product of n terms: an fma each, or five units of 2^-23 for 16 of them (TF32:
// three for 8, and both factors cut at 2^-10).
double roundings_of(const AttentionProblem& p, std::int64_t n) {
  if (p.math() == ProductMath::chain) return static_cast<double>(n);
  const bool tf32 = p.element_dtype == Dtype::f32;
  const double blocks = static_cast<double>((n + (tf32 ? 7 : 15)) / (tf32 ? 8 : 16));
  return tf32 ? 2 * 3 * blocks + 2 * 16384.0 : 2 * 5 * blocks;
}

// Relative to the largest |v| times 1 + the largest sum of magnitudes of a row's scores (backward:
// see attention.test.cpp): an error of a score moves p and the sum of p by as much. Each block of
// keys adds a factor; where p is rounded to 16 bits, that is half a unit of every term, and ds as
// much in backward.
PrecisionGuarantee guarantee(const AttentionProblem& p) {
  const double scores = roundings_of(p, std::max(p.width(), p.out_width()));
  const std::int64_t most = std::max(p.keys(), p.backward() ? p.queries() * p.in_group() : 0);
  const double blocks = static_cast<double>(most / attention_math::kBlock + 1);
  const double more = (p.options.soft_cap > 0 ? 24 : 0) + (p.options.alibi ? 8 : 0) +
                      (p.options.dropout > 0 ? 4 : 0);
  PrecisionGuarantee g =
      after_roundings(p.element_dtype, 2 * scores + roundings_of(p, most) + 4 * blocks + 16 + more);
  if (p.math() == ProductMath::tensor_core && p.element_dtype != Dtype::f32)
    g.max_ulp += p.backward() ? 4 : 1;
  // A sequence sees nothing of another; but dropout counts them.
  g.batch_invariant = p.options.dropout == 0;
  return g;
}

// Rows `first` to `first` + count of an axis.
void narrow(View& x, int axis, std::int64_t first, std::int64_t count) {
  x.shape[axis] = count;
  if (x.data != nullptr && count > 0)
    x.data = static_cast<std::byte*>(x.data) +
             first * x.strides[axis] * static_cast<std::int64_t>(bytes_for(x.dtype, 1));
}

Operands of_sequence(const AttentionProblem& one, const Operands& all) {
  Operands out = all;
  const auto operands = one.info().operands;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string_view operand = operands[i].name;
    if (operand == "mask" && !one.mask) continue;
    const bool keys = operand == "k" || operand == "v" || operand == "dk" || operand == "dv";
    keys ? narrow(out[i], 2, one.first_key, one.keys())
         : narrow(out[i], 2, one.first_query, one.queries());
    if (operand == "mask") narrow(out[i], 3, one.first_key, one.keys());
  }
  return out;
}

using Run = Result<void> (*)(const Stream&, Workspace, const AttentionProblem&, const Operands&);
template <Run kRun>
Result<void> of_each(const Stream& stream, Workspace room, const AttentionProblem& p,
                     const Operands& operands) {
  if (p.options.query_offsets.empty()) return kRun(stream, room, p, operands);
  for (std::int64_t b = 0; b < p.sequences(); ++b) {
    const AttentionProblem one = p.sequence(b);
    if (one.queries() == 0 && (one.keys() == 0 || !p.backward())) continue;
    if (auto ok = kRun(stream, room, one, of_sequence(one, operands)); !ok) return ok;
  }
  return {};
}

using Room = std::size_t (*)(const AttentionProblem&);
template <Room kRoom>
std::size_t room_of_each(const AttentionProblem& p) {
  if (p.options.query_offsets.empty()) return kRoom(p);
  std::size_t most = 0;
  for (std::int64_t b = 0; b < p.sequences(); ++b) most = std::max(most, kRoom(p.sequence(b)));
  return most;
}

static_assert(attention_math::kBlock == kAttentionBlock);
constexpr Room kCudaRoom = room_of_each<attention_cuda_workspace>,
               kTilesRoom = room_of_each<attention_tiles_workspace>,
               kSlopesRoom = room_of_each<attention_slopes_workspace>,
               kCpuRoom = room_of_each<attention_cpu_workspace>;
constexpr Run kCudaRun = of_each<attention_cuda>, kTilesRun = of_each<attention_tiles>,
              kTwiceRun = of_each<attention_tiles_twice>,
              kWarpgroupsRun = of_each<attention_warpgroups>,
              kWarpsRun = of_each<attention_mma_sync>, kCpuRun = of_each<attention_cpu>;

constexpr Kernel<AttentionProblem> kChain[] = {
    {"cuda:tiles", kCuda, attention_tiles_refusal, kSlopesRoom, guarantee, kTilesRun},
    {"cuda:tiles:twice", kCuda, attention_tiles_twice_refusal, kTilesRoom, guarantee, kTwiceRun},
    {"cuda:rows", kCuda, accept, kCudaRoom, guarantee, kCudaRun},
    {"cpu:fma_chain", kCpu, accept, kCpuRoom, guarantee, kCpuRun},
};
// Whether the part at hand computes what is promised.
using gemm_device::Instruction;
std::string follows(const AttentionProblem& p, Device device) {
  return gemm_device::unfaithful(device, p.element_dtype, Instruction::wgmma);
}
std::string follows_mma_sync(const AttentionProblem& p, Device device) {
  const std::string absent = gemm_device::absent(device, Instruction::mma_sync);
  return absent.empty() ? gemm_device::unfaithful(device, p.element_dtype, Instruction::mma_sync)
                        : absent;
}

constexpr Kernel<AttentionProblem> kTensorCore[] = {
    {"cuda:warpgroups", kCuda, attention_warpgroups_refusal, kTilesRoom, guarantee, kWarpgroupsRun,
     90, follows},
    {"cuda:mma_sync", kCuda, attention_mma_sync_refusal, kTilesRoom, guarantee, kWarpsRun, 0,
     follows_mma_sync},
    {"cuda:rows", kCuda, accept, kCudaRoom, guarantee, kCudaRun},
    {"cpu:integer_lanes", kCpu, accept, kCpuRoom, guarantee, kCpuRun},
};

}  // namespace

std::span<const Kernel<AttentionProblem>> AttentionProblem::kernels() const {
  if (math() == ProductMath::tensor_core) return kTensorCore;
  return kChain;
}

}  // namespace planck
