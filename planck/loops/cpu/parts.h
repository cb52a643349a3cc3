// Where in a workspace things lie.
#pragma once

#include <cstddef>
#include <cstdint>

#include "planck/core/workspace.h"

namespace planck {

// Hands out parts of a workspace; without one, only adds up their bytes.
class Parts {
 public:
  explicit Parts(void* workspace = nullptr) : base_(static_cast<std::byte*>(workspace)) {}
  template <class T>
  T* take(std::int64_t count) {
    auto* part = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + bytes_);
    const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ += (size + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
    return part;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

}  // namespace planck
