#include "planck/io/sha256.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace planck {
namespace {

std::string digest(std::string_view text) {
  Sha256 sha;
  sha.update(std::as_bytes(std::span(text)));
  return sha.hex();
}

// Byte i of the message of n bytes; the digests below are Python's hashlib's.
std::vector<std::byte> message(std::size_t n) {
  std::vector<std::byte> bytes(n);
  for (std::size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>((7 * i + n) & 255);
  return bytes;
}

// The examples of FIPS 180-4 and of NIST's test vectors.
TEST(Sha256, PublishedExamples) {
  EXPECT_EQ(digest(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digest("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digest("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                   "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(digest(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, EveryLengthAroundTheBlocks) {
  const std::pair<std::size_t, const char*> known[] = {
      {1, "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a"},
      {55, "81afe5b788dc2ce138ff83d9b20164db75a94d75d2b2432eea4a0ef605088c72"},
      {56, "2aba54f0ac632420a2b502431408866e40e1d5e430df4cd822642c78ab2eb9c1"},
      {63, "733d3d4ee79ee67145bf73da13588f6f235d37414fc64b14a2f00f1762792f5e"},
      {64, "79322907b3e9d013d7dc2c2f256674dbf733045cde01df3539271c6f5605feb8"},
      {119, "6c87eedf096b345de205b702e5223b73b447a3207791ded3ea007ba15ed6736e"},
      {120, "42500cf6a1e3936d6b9e0bcfe296d654b63255e525487d3634d0b15fde591c4d"},
      {128, "489d55fea9a73af36b6dd0be7b4117d8e5683386d39544e8a44c99a87f368707"},
      {200, "8e3f3819b4f1b1f71c011c6b854c43601f132c3c88b8982b20733d2b1695c593"}};
  for (const auto& [n, expected] : known) {
    Sha256 sha;
    sha.update(message(n));
    EXPECT_EQ(sha.hex(), expected) << n;
  }
  // All lengths from 0 to 200: the digest of their digests.
  Sha256 all;
  for (std::size_t n = 0; n <= 200; ++n) {
    Sha256 sha;
    sha.update(message(n));
    const std::string hex = sha.hex();
    all.update(std::as_bytes(std::span(hex)));
  }
  EXPECT_EQ(all.hex(), "de444fd33c2915b23d3772a4de9aa249a9206ee2f93688a74e332e160c085f41");
}

TEST(Sha256, PiecesDoNotMatter) {
  const auto bytes = message(200);
  const std::string whole = "8e3f3819b4f1b1f71c011c6b854c43601f132c3c88b8982b20733d2b1695c593";
  for (std::size_t first = 0; first <= 200; ++first)
    for (const std::size_t second : {first, (first + 200) / 2, std::size_t{200}}) {
      Sha256 sha;
      const std::span all(bytes);
      sha.update(all.first(first));
      (void)sha.hex();  // looking does not disturb
      sha.update(all.subspan(first, second - first));
      sha.update(all.subspan(second));
      ASSERT_EQ(sha.hex(), whole) << first << ", " << second;
    }
}

}  // namespace
}  // namespace planck
