// What ceiling.h answers for CUDA in a build without it.
#include "planck/verify/bench/ceiling.h"

namespace planck::verify {

namespace ceiling_detail {
Result<void> move_bytes_cuda(const Stream&, const Traffic&, std::size_t) {
  return fail(ErrorCode::device, "this build has no CUDA");
}
}  // namespace ceiling_detail

Result<void> launch_nothing(const Stream&) {
  return fail(ErrorCode::device, "this build has no CUDA");
}

}  // namespace planck::verify
