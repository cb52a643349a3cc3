// What planck/core/cuda_runtime.h answers in a build without CUDA.
#include "planck/core/cuda_runtime.h"

namespace planck::cuda {

namespace {
tl::unexpected<Error> absent() { return fail(ErrorCode::device, "this build has no CUDA"); }
}  // namespace

bool built() { return false; }
int device_count() { return 0; }
Result<std::string> device_name(int) { return absent(); }
Result<int> compute_capability(int) { return absent(); }
Result<void*> allocate(int, std::size_t) { return absent(); }
void release(int, void*) {}
Result<void*> create_stream(int) { return absent(); }
void destroy_stream(int, void*) {}
Result<void> synchronize(int, void*) { return absent(); }
Result<void> copy_to_device(int, void*, void*, const void*, std::size_t) { return absent(); }
Result<void> copy_to_host(int, void*, void*, const void*, std::size_t) { return absent(); }
Result<void> copy_on_device(int, void*, void*, const void*, std::size_t) { return absent(); }
Result<void> fill(int, void*, void*, std::uint8_t, std::size_t) { return absent(); }
Result<void> begin_capture(int, void*) { return absent(); }
Result<void*> end_capture(int, void*) { return absent(); }
Result<void> replay(int, void*, void*) { return absent(); }
void destroy_graph(void*) {}
Result<void*> create_event(int) { return absent(); }
void destroy_event(void*) {}
Result<void> record(int, void*, void*) { return absent(); }
Result<double> seconds_between(void*, void*) { return absent(); }
Result<void> spin(int, void*, std::uint64_t) { return absent(); }

}  // namespace planck::cuda
