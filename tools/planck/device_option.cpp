#include "tools/planck/device_option.h"

#include <fmt/format.h>

#include <charconv>

namespace planck::cli {

void DeviceOption::add_to(CLI::App& command) {
  command.add_option("--device", device, "Where to compute: cpu, cuda or cuda:N")
      ->capture_default_str();
  command
      .add_option("--threads", threads, "CPU threads; 0: one for each core. Never changes a result")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

Result<Stream> DeviceOption::stream() const {
  if (device == "cpu") return Stream::cpu(threads);
  if (device == "cuda") return Stream::cuda(0);
  if (device.starts_with("cuda:")) {
    int ordinal = 0;
    const char* end = device.data() + device.size();
    if (const auto [at, status] = std::from_chars(device.data() + 5, end, ordinal);
        status == std::errc() && at == end)
      return Stream::cuda(ordinal);
  }
  return fail(ErrorCode::invalid_problem,
              fmt::format("--device is {}, must be cpu, cuda or cuda:N", device));
}

}  // namespace planck::cli
