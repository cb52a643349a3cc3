#include "planck/verify/tensors/guarded_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "planck/core/cuda/runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace planck::verify {

namespace {

std::string first_change(const std::vector<std::byte>& before,
                         const std::vector<std::byte>& after) {
  const auto [a, b] = std::mismatch(before.begin(), before.end(), after.begin());
  if (a == before.end()) return "";
  return fmt::format(
      "byte {} of the buffer changed from 0x{:02x} to 0x{:02x} ({} bytes between two red zones of "
      "{})",
      (a - before.begin()) - static_cast<std::ptrdiff_t>(kRedZoneBytes), std::to_integer<int>(*a),
      std::to_integer<int>(*b), before.size() - 2 * kRedZoneBytes, kRedZoneBytes);
}

}  // namespace

void GuardedBytes::set_poisoned([[maybe_unused]] bool poisoned) const {
#if defined(__SANITIZE_ADDRESS__)
  if (buffer_.data() == nullptr || buffer_.device().kind != DeviceKind::cpu) return;
  auto* begin = static_cast<std::byte*>(buffer_.data());
  if (poisoned) {
    ASAN_POISON_MEMORY_REGION(begin, kRedZoneBytes);
    ASAN_POISON_MEMORY_REGION(begin + buffer_.bytes() - kRedZoneBytes, kRedZoneBytes);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(begin, buffer_.bytes());
  }
#endif
}

GuardedBytes::~GuardedBytes() { set_poisoned(false); }

Result<GuardedBytes> GuardedBytes::make(const Stream& stream, const std::vector<std::byte>& image) {
  auto buffer = allocate(stream, image.size());
  if (!buffer) return tl::unexpected(buffer.error());
  GuardedBytes guarded;
  guarded.buffer_ = std::move(*buffer);
  void* to = guarded.buffer_.data();
  if (stream.device().kind == DeviceKind::cpu) {
    std::memcpy(to, image.data(), image.size());
  } else {
    auto copied = cuda::copy_to_device(stream.device().ordinal, stream.native(), to, image.data(),
                                       image.size());
    if (!copied) return tl::unexpected(copied.error());
  }
  guarded.set_poisoned(true);
  return guarded;
}

Result<GuardedBytes> GuardedBytes::filled(const Stream& stream, std::size_t bytes,
                                          std::uint8_t value) {
  auto buffer = allocate(stream, bytes + 2 * kRedZoneBytes);
  if (!buffer) return tl::unexpected(buffer.error());
  GuardedBytes guarded;
  guarded.buffer_ = std::move(*buffer);
  const Buffer& made = guarded.buffer_;
  if (stream.device().kind == DeviceKind::cpu)
    std::memset(made.data(), value, made.bytes());
  else if (auto ok = cuda::fill(stream.device().ordinal, stream.native(), made.data(), value,
                                made.bytes());
           !ok)
    return tl::unexpected(ok.error());
  guarded.set_poisoned(true);
  return guarded;
}

std::byte* GuardedBytes::data() const {
  return static_cast<std::byte*>(buffer_.data()) + kRedZoneBytes;
}

Result<void> GuardedBytes::fetch(const Stream& stream, std::size_t from, std::size_t bytes,
                                 void* to) const {
  const std::byte* at = static_cast<const std::byte*>(buffer_.data()) + from;
  if (stream.device().kind == DeviceKind::cpu) {
    set_poisoned(false);
    std::memcpy(to, at, bytes);
    set_poisoned(true);
    return {};
  }
  if (auto ok = cuda::copy_to_host(stream.device().ordinal, stream.native(), to, at, bytes); !ok)
    return ok;
  return stream.synchronize();
}

Result<std::vector<std::byte>> GuardedBytes::download(const Stream& stream) const {
  std::vector<std::byte> image(buffer_.bytes());
  if (auto ok = fetch(stream, 0, image.size(), image.data()); !ok)
    return tl::unexpected(ok.error());
  return image;
}

Result<bool> GuardedBytes::surrounded_by(const Stream& stream, std::uint8_t value) const {
  for (const std::size_t from : {std::size_t{0}, buffer_.bytes() - kRedZoneBytes}) {
    std::array<std::byte, kRedZoneBytes> zone;
    if (auto ok = fetch(stream, from, zone.size(), zone.data()); !ok)
      return tl::unexpected(ok.error());
    for (const std::byte b : zone)
      if (b != std::byte{value}) return false;
  }
  return true;
}

Result<GuardedTensor> GuardedTensor::make(const Stream& stream, Dtype dtype, const Shape& shape,
                                          const Placement& placement, std::uint8_t sentinel,
                                          const HostTensor* values) {
  GuardedTensor t;
  t.dtype_ = dtype;
  t.shape_ = shape;
  t.placement_ = placement;
  t.made_.assign(2 * kRedZoneBytes + bytes_for(dtype, placement.span), std::byte{sentinel});
  std::byte* base = t.made_.data() + kRedZoneBytes;
  if (values != nullptr) {
    if (is_contiguous(shape, placement.strides) && placement.offset == 0 && !is_packed(dtype))
      std::copy(values->bytes.begin(), values->bytes.end(), base);
    else
      for_each_element(shape, placement.strides, [&](std::int64_t flat, std::int64_t at) {
        store_pattern(base, dtype, placement.offset + at, values->pattern(flat));
      });
  }
  auto memory = GuardedBytes::make(stream, t.made_);
  if (!memory) return tl::unexpected(memory.error());
  t.memory_ = std::move(*memory);
  return t;
}

View GuardedTensor::view() const {
  const std::int64_t units = is_packed(dtype_) ? placement_.offset / 2 : placement_.offset;
  return {memory_.data() + units * static_cast<std::int64_t>(storage_bytes(dtype_)), dtype_, shape_,
          placement_.strides, true};
}

Result<void> GuardedTensor::download(const Stream& stream) {
  return memory_.download(stream).map(
      [&](std::vector<std::byte>&& image) { now_ = std::move(image); });
}

HostTensor GuardedTensor::values() const {
  HostTensor dense(dtype_, shape_);
  const std::byte* base = now_.data() + kRedZoneBytes;
  if (is_contiguous(shape_, placement_.strides) && placement_.offset == 0 && !is_packed(dtype_))
    std::copy_n(base, dense.bytes.size(), dense.bytes.begin());
  else
    for_each_element(shape_, placement_.strides, [&](std::int64_t flat, std::int64_t at) {
      dense.set_pattern(flat, load_pattern(base, dtype_, placement_.offset + at));
    });
  return dense;
}

std::string GuardedTensor::changes() const { return first_change(made_, now_); }

std::string GuardedTensor::stray_writes() const {
  std::vector<std::byte> expected = made_;
  std::byte* base = expected.data() + kRedZoneBytes;
  const std::byte* from = now_.data() + kRedZoneBytes;
  for_each_element(shape_, placement_.strides, [&](std::int64_t, std::int64_t at) {
    const std::int64_t i = placement_.offset + at;
    store_pattern(base, dtype_, i, load_pattern(from, dtype_, i));
  });
  return first_change(expected, now_);
}

}  // namespace planck::verify
