// Memory a plan may write while it runs, on the stream's device. Its contents mean nothing before
// and after.
#pragma once

#include <cstddef>

namespace planck {

inline constexpr std::size_t kWorkspaceAlignment = 64;

struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace planck
