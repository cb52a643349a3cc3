#include "planck/verify/tensors/host_tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace planck::verify {

std::uint64_t load_pattern(const std::byte* base, Dtype dtype, std::int64_t index) {
  if (is_packed(dtype)) {
    const auto pair = std::to_integer<unsigned>(base[index >> 1]);
    return (index & 1) ? pair >> 4 : pair & 15u;
  }
  std::uint64_t bits = 0;
  const std::size_t size = storage_bytes(dtype);
  std::memcpy(&bits, base + index * static_cast<std::int64_t>(size), size);
  return bits;
}

void store_pattern(std::byte* base, Dtype dtype, std::int64_t index, std::uint64_t bits) {
  if (is_packed(dtype)) {
    std::byte& pair = base[index >> 1];
    const auto nibble = static_cast<std::byte>(bits & 15u);
    pair =
        (index & 1) ? (pair & std::byte{0x0f}) | (nibble << 4) : (pair & std::byte{0xf0}) | nibble;
    return;
  }
  const std::size_t size = storage_bytes(dtype);
  std::memcpy(base + index * static_cast<std::int64_t>(size), &bits, size);
}

std::uint64_t HostTensor::pattern(std::int64_t i) const {
  return load_pattern(bytes.data(), dtype, i);
}
void HostTensor::set_pattern(std::int64_t i, std::uint64_t bits) {
  store_pattern(bytes.data(), dtype, i, bits);
}

double HostTensor::number(std::int64_t i) const {
  const std::uint64_t p = pattern(i);
  switch (dtype) {
    case Dtype::f64:
      return std::bit_cast<double>(p);
    case Dtype::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(p)));
    case Dtype::f16:
      return static_cast<double>(f16::from_bits(static_cast<std::uint16_t>(p)));
    case Dtype::bf16:
      return static_cast<double>(bf16::from_bits(static_cast<std::uint16_t>(p)));
    case Dtype::i64:
      return static_cast<double>(static_cast<std::int64_t>(p));
    case Dtype::i32:
      return static_cast<double>(static_cast<std::int32_t>(p));
    case Dtype::s8:
      return static_cast<double>(static_cast<std::int8_t>(p));
    case Dtype::s4:
      return static_cast<double>(p >= 8 ? static_cast<int>(p) - 16 : static_cast<int>(p));
    case Dtype::u8:
    case Dtype::boolean:
    case Dtype::u4:
      return static_cast<double>(p);
  }
  return 0;
}

void HostTensor::set_number(std::int64_t i, double value) {
  switch (dtype) {
    case Dtype::f64:
      return set_pattern(i, std::bit_cast<std::uint64_t>(value));
    case Dtype::f32:
      return set_pattern(i, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
    case Dtype::f16:
      return set_pattern(i, f16(value).bits);
    case Dtype::bf16:
      return set_pattern(i, bf16(value).bits);
    default:
      return set_pattern(i, static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
}

std::string bit_difference(const HostTensor& expected, const HostTensor& actual) {
  if (expected.dtype != actual.dtype || expected.shape != actual.shape)
    return fmt::format("is {} {}, expected {} {}", name(actual.dtype), to_string(actual.shape),
                       name(expected.dtype), to_string(expected.shape));
  if (expected.bytes == actual.bytes) return "";
  std::int64_t first = -1, differing = 0;
  for (std::int64_t i = 0; i < expected.count(); ++i) {
    if (expected.pattern(i) == actual.pattern(i)) continue;
    if (first < 0) first = i;
    ++differing;
  }
  if (first < 0) return "";
  return fmt::format("[{}] is {:g} (0x{:x}), expected {:g} (0x{:x}); {} of {} elements differ",
                     first, actual.number(first), actual.pattern(first), expected.number(first),
                     expected.pattern(first), differing, expected.count());
}

}  // namespace planck::verify
