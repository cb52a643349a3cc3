#include "tools/planck/ops/on_tensors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <fstream>

#include "planck/backend/device_backend.h"
#include "planck/core/exception.h"
#include "tools/planck/print/table.h"

namespace planck::cli {

extern template struct OnTensors<Cpu>;
PLANCK_IF_CUDA(extern template struct OnTensors<Cuda>;)

namespace {

// What the system can still give this process; the most there is where it does not say.
std::uint64_t available_memory() {
  std::uint64_t bytes = UINT64_MAX;
  std::ifstream file("/proc/meminfo");
  std::string key;
  std::uint64_t kilobytes = 0;
  while (file >> key >> kilobytes) {
    if (key == "MemAvailable:") bytes = kilobytes * 1024;
    file.ignore(100, '\n');
  }
  for (const auto limit : {RLIMIT_AS, RLIMIT_DATA})
    if (rlimit most{}; getrlimit(limit, &most) == 0 && most.rlim_cur != RLIM_INFINITY)
      bytes = std::min<std::uint64_t>(bytes, most.rlim_cur);
  return bytes;
}

}  // namespace

Result<void> check_memory(std::string_view op, std::string_view what, Dtype dtype,
                          const Shape& shape) {
  if (auto ok = check_shape(shape, op); !ok) return ok;
  const std::uint64_t bytes = bytes_for(dtype, numel(shape)), there = available_memory();
  if (bytes <= there) return {};
  return fail(ErrorCode::out_of_memory,
              fmt::format("{}: {} of shape {} and dtype {} takes {}, this machine has {} free", op,
                          what, to_string(shape), name(dtype), size_text(bytes), size_text(there)));
}

Result<std::vector<HostTensor>> run_on_tensors(const TensorRequest& request, const Stream& stream) {
  try {
    return with_backend_of(
        stream, [&]<class B>(std::type_identity<B>) { return OnTensors<B>::run(request, stream); });
  } catch (const Exception& e) {
    return tl::unexpected(e.error());
  }
}

}  // namespace planck::cli
