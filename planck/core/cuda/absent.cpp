// What planck/core/cuda/runtime.h answers in a program without planck::cuda, whose definitions take
// the place of these weak ones.
#include "planck/core/cuda/runtime.h"

namespace planck::cuda {

namespace {
tl::unexpected<Error> absent() { return fail(ErrorCode::device, "this build has no CUDA"); }
}  // namespace

[[gnu::weak]] bool built() { return false; }
[[gnu::weak]] std::string_view architectures() { return ""; }
[[gnu::weak]] int device_count() { return 0; }
[[gnu::weak]] Result<std::string> device_name(int) { return absent(); }
[[gnu::weak]] Result<int> compute_capability(int) { return absent(); }
[[gnu::weak]] Result<int> make_current(int) { return absent(); }
[[gnu::weak]] Result<void*> allocate(int, std::size_t) { return absent(); }
[[gnu::weak]] void release(int, void*) {}
[[gnu::weak]] Result<void*> allocate_pinned(std::size_t) { return absent(); }
[[gnu::weak]] void release_pinned(void*) {}
[[gnu::weak]] Result<void*> create_stream(int) { return absent(); }
[[gnu::weak]] void destroy_stream(int, void*) {}
[[gnu::weak]] Result<void> synchronize(int, void*) { return absent(); }
[[gnu::weak]] Result<void> follow(int, void*, void*) { return absent(); }
[[gnu::weak]] Result<void> copy_to_device(int, void*, void*, const void*, std::size_t) {
  return absent();
}
[[gnu::weak]] Result<void> copy_to_host(int, void*, void*, const void*, std::size_t) {
  return absent();
}
[[gnu::weak]] Result<void> copy_on_device(int, void*, void*, const void*, std::size_t) {
  return absent();
}
[[gnu::weak]] Result<void> fill(int, void*, void*, std::uint8_t, std::size_t) { return absent(); }
[[gnu::weak]] Result<void> begin_capture(int, void*) { return absent(); }
[[gnu::weak]] Result<void*> end_capture(int, void*) { return absent(); }
[[gnu::weak]] Result<void> wait(void*) { return absent(); }
[[gnu::weak]] Result<Captured> end_capture(int, void*, const std::vector<void*>&) {
  return absent();
}
[[gnu::weak]] Result<void> replay(int, void*, void*) { return absent(); }
[[gnu::weak]] Result<std::vector<void*>> capture_front(int, void*) { return absent(); }
[[gnu::weak]] Result<void> set_capture_front(int, void*, std::vector<void*>) { return absent(); }
[[gnu::weak]] void destroy_graph(void*) {}
[[gnu::weak]] Result<void*> create_event(int) { return absent(); }
[[gnu::weak]] void destroy_event(void*) {}
[[gnu::weak]] Result<void> record(int, void*, void*) { return absent(); }
[[gnu::weak]] bool reached(void*) { return true; }
[[gnu::weak]] Result<double> seconds_between(void*, void*) { return absent(); }
[[gnu::weak]] Result<void> spin(int, void*, std::uint64_t) { return absent(); }

}  // namespace planck::cuda
