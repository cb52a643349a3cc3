// What kernel_rounds.h answers in a build without CUDA.
#include "planck/verify/checks/kernel_rounds.h"

namespace planck::verify {

Result<KernelComparison> compare_round(const Stream&, Dtype, std::uint64_t, const KernelRound&) {
  return fail(ErrorCode::device, "this build has no CUDA");
}

}  // namespace planck::verify
