// Memory in which the elements of tensors stay while their scales are found, so that files are read
// once. Of one size, whatever the size of a tensor: larger ones are read again.
#pragma once

#include <cstddef>
#include <memory>

namespace planck::cli {

class KeptFloats {
 public:
  static constexpr std::size_t kBytes = std::size_t{1} << 26;

  // Null: this much is not free. Memory is taken from the system at the first call, and used from
  // its start.
  std::byte* take(std::size_t bytes);
  void clear() { used_ = 0; }
  static bool can_hold(std::size_t bytes) { return bytes <= kBytes; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t used_ = 0;
};

}  // namespace planck::cli
