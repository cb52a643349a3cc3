// Nccl in a build without NCCL: it says so.
#include "planck/dist/transport/nccl.h"

#include <exception>

namespace planck::dist {

struct Nccl::Watch {};

bool Nccl::built() { return false; }
Result<std::unique_ptr<Nccl>> Nccl::join(Communicator&, const Stream&) {
  return fail(ErrorCode::unsupported, "this build has no NCCL: it needs nvcc and nccl.h");
}
Nccl::~Nccl() = default;
void Nccl::exchange(std::span<const Outgoing>, std::span<const Incoming>, const Arrived&) {}
void Nccl::broadcast(void*, std::size_t, int) {}
void Nccl::wait() {}
void Nccl::barrier() {}
void Nccl::abort(std::string_view line) {
  host_.abort(line);
  std::terminate();  // not reached
}
std::unique_ptr<Communicator> Nccl::duplicate() { return nullptr; }

}  // namespace planck::dist
