#include "planck/core/stream.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <thread>

#include "planck/core/cuda/architectures.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/stream/end.h"

namespace planck {

namespace {
// Those that this process may run on: mpirun, taskset and containers leave it some of them.
int count_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}
}  // namespace

Stream Stream::cpu(int threads) {
  static const int cores = count_cores();
  return Stream(Device::cpu(), threads > 0 ? threads : cores, nullptr);
}

Result<Stream> Stream::cuda(int ordinal) {
  const int count = cuda::device_count();
  if (ordinal < 0 || ordinal >= count)
    return fail(ErrorCode::device, cuda::built()
                                       ? fmt::format("no CUDA device {}: {} found", ordinal, count)
                                       : std::string("no CUDA device: this build has no CUDA"));
  // Without code for it, every launch would fail.
  const auto capability = cuda::compute_capability(ordinal);
  if (!capability) return tl::unexpected(capability.error());
  if (cuda::code_of(ordinal) == 0)
    return fail(
        ErrorCode::device,
        fmt::format("CUDA device {} has compute capability {}.{}, this build has code for {}",
                    ordinal, *capability / 10, *capability % 10, cuda::architectures()));
  return cuda::create_stream(ordinal).map([&](void* native) {
    return Stream(Device::cuda(ordinal), 1, std::shared_ptr<void>(native, [ordinal](void* s) {
                    // Cached blocks of this stream may be reused from here on.
                    (void)cuda::synchronize(ordinal, s);
                    if (auto* ended = stream_detail::ended.load()) ended(Device::cuda(ordinal), s);
                    cuda::destroy_stream(ordinal, s);
                  }));
  });
}

Stream Stream::borrow_cuda(void* cuda_stream, int ordinal) {
  return Stream(Device::cuda(ordinal), 1, std::shared_ptr<void>(cuda_stream, [](void*) {}));
}

Result<Stream> Stream::on(Device device) {
  if (device.kind == DeviceKind::cpu) return cpu();
  return cuda(device.ordinal);
}

Result<void> Stream::synchronize() const {
  if (device_.kind == DeviceKind::cpu) return {};
  return cuda::synchronize(device_.ordinal, native());
}

}  // namespace planck
