// How the CUDA kernels cut a mask, and what they keep of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace planck::index_device {

inline constexpr int kMaskThreads = 256, kMaskItems = 16;
inline constexpr std::int64_t kMaskTile = std::int64_t{kMaskThreads} * kMaskItems;

// Workspace: chosen elements before each tile, and of all.
struct MaskLayout {
  explicit MaskLayout(std::int64_t elements)
      : tiles((elements + kMaskTile - 1) / kMaskTile),
        bytes(static_cast<std::size_t>(tiles + 1) * sizeof(std::int64_t)) {}
  std::int64_t tiles;
  std::size_t bytes;
};

}  // namespace planck::index_device
