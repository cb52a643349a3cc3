// SHA-256 (FIPS 180-4) of bytes that arrive in pieces: how results are told apart and compared.
//
// The digest is a function of the bytes alone, however they are cut. Not for secrets: it takes no
// care of timing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace planck {

class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  // 64 hexadecimal digits, of all bytes so far; more may follow.
  std::string hex() const;

 private:
  void compress(const std::byte* block);  // 64 bytes

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> pending_{};  // the last total_ % 64 bytes
  std::uint64_t total_ = 0;              // bytes
};

}  // namespace planck
