#include "tools/planck/options/device_option.h"

#include <fmt/format.h>

#include <limits>

#include "planck/plan/attributes.h"

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
    const auto ordinal = parse_whole(std::string_view(device).substr(5));
    if (ordinal && *ordinal >= 0 && *ordinal <= std::numeric_limits<int>::max())
      return Stream::cuda(static_cast<int>(*ordinal));
  }
  return fail(ErrorCode::invalid_problem,
              fmt::format("--device is {}, must be cpu, cuda or cuda:N", device));
}

}  // namespace planck::cli
