// Division by a number that is fixed for a launch: a multiplication and a shift instead of some
// twenty instructions. Exact for numerators below 2^31.
#pragma once

#include <cstdint>

namespace planck {

struct Divisor {
  std::uint32_t value = 1, magic = 1, shift = 0;

  Divisor() = default;
  // 1 <= d < 2^31. magic = floor(2^32 · (2^shift − d) / d) + 1 with shift = ceil(log2 d).
  explicit Divisor(std::uint32_t d) : value(d), magic(0), shift(0) {
    while ((std::uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - d) << 32) / d +
                                       std::uint64_t{1});
  }

  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return (__umulhi(n, magic) + n) >> shift;
  }
  __device__ __forceinline__ std::uint32_t remainder(std::uint32_t n) const {
    return n - quotient(n) * value;
  }
};

inline constexpr std::int64_t kDivisorLimit = std::int64_t{1} << 31;

}  // namespace planck
