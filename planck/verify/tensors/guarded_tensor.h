// A tensor laid out in a device's memory between red zones, so that a write outside its elements is
// seen.
//
// Gaps of strided layouts and both red zones hold the sentinel byte. Under AddressSanitizer the red
// zones on the host are poisoned as well, so that a read outside is caught too.
#pragma once

#include <string>

#include "planck/core/allocator.h"
#include "planck/verify/tensors/host_tensor.h"
#include "planck/verify/tensors/layout.h"

namespace planck::verify {

inline constexpr std::size_t kRedZoneBytes = 256;

// Bytes of a device's memory between red zones.
class GuardedBytes {
 public:
  GuardedBytes() = default;
  GuardedBytes(GuardedBytes&&) noexcept = default;
  GuardedBytes& operator=(GuardedBytes&&) noexcept = default;
  ~GuardedBytes();

  // The memory starts as a copy of `image`, which includes both red zones.
  static Result<GuardedBytes> make(const Stream& stream, const std::vector<std::byte>& image);
  // `bytes` between red zones, all of them `value`.
  static Result<GuardedBytes> filled(const Stream& stream, std::size_t bytes, std::uint8_t value);
  std::byte* data() const;  // behind the first red zone
  Result<std::vector<std::byte>> download(const Stream& stream) const;
  // Whether both red zones hold nothing but `value`.
  Result<bool> surrounded_by(const Stream& stream, std::uint8_t value) const;

 private:
  void set_poisoned(bool poisoned) const;
  Result<void> fetch(const Stream& stream, std::size_t from, std::size_t bytes, void* to) const;
  Buffer buffer_;
};

class GuardedTensor {
 public:
  // values: null for an output, whose elements then hold the sentinel.
  static Result<GuardedTensor> make(const Stream& stream, Dtype dtype, const Shape& shape,
                                    const Placement& placement, std::uint8_t sentinel,
                                    const HostTensor* values);
  View view() const;
  // After the stream's work is done; what follows looks at what this fetched.
  Result<void> download(const Stream& stream);
  HostTensor values() const;
  std::string changes() const;       // "" where every byte is as it was made
  std::string stray_writes() const;  // "" where every byte outside the elements is as it was made

 private:
  Dtype dtype_ = Dtype::f32;
  Shape shape_;
  Placement placement_;
  GuardedBytes memory_;
  std::vector<std::byte> made_, now_;
};

}  // namespace planck::verify
