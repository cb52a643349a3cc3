// Where memory lives and kernels run.
#pragma once

#include <cstdint>
#include <string>

namespace planck {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int ordinal = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int ordinal = 0) { return {DeviceKind::cuda, ordinal}; }
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

inline std::string to_string(Device d) {
  return d.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(d.ordinal);
}

}  // namespace planck
