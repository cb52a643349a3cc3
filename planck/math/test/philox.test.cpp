#include "planck/math/philox.h"

#include <gtest/gtest.h>

namespace planck {
namespace {

void expect_words(const Philox4& got, const Philox4& want) {
  for (int i = 0; i < 4; ++i) EXPECT_EQ(got.v[i], want.v[i]) << "word " << i;
}

// Known answers published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, MatchesRandom123) {
  expect_words(philox({{0, 0, 0, 0}}, 0, 0),
               {{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
  expect_words(philox({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u),
               {{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
  expect_words(
      philox({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0xa4093822u, 0x299f31d0u),
      {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(Philox, StreamPlacesSeedStreamAndPosition) {
  const PhiloxStream s{0x299f31d0a4093822u, 0x0370734413198a2eu};
  expect_words(s.words(0x85a308d3243f6a88u),
               {{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});
}

TEST(Philox, UniformCoversZeroToBelowOne) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_EQ(uniform01(~0u), 0x1.fffffep-1f);
  EXPECT_EQ(uniform01(0x80000000u), 0.5f);
}

}  // namespace
}  // namespace planck
