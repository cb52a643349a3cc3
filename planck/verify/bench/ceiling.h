// The ceiling of a streaming kernel: bare loops that read the bytes of its inputs and write the
// bytes of its outputs, with the same mix of reads and writes, the same threads, and nothing
// computed.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "planck/core/stream.h"

namespace planck::verify {

struct Bytes {
  void* data;  // aligned to 64 bytes
  std::size_t count;
};
struct Traffic {
  std::vector<Bytes> reads, writes;
};

// Which loop is fastest depends on the machine: benchmarks try all and keep the best.
std::span<const std::string_view> ceiling_variants(DeviceKind device);
[[nodiscard]] Result<void> move_bytes(const Stream& stream, const Traffic& traffic,
                                      std::size_t variant);

// Launches a kernel that does nothing: the least that any run() on the stream can cost. CUDA only.
[[nodiscard]] Result<void> launch_nothing(const Stream& stream);

namespace ceiling_detail {
Result<void> move_bytes_cuda(const Stream& stream, const Traffic& traffic, std::size_t variant);
}

}  // namespace planck::verify
