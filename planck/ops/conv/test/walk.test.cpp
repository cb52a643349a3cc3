// Walks without divisions (host/walk.h) against those that divide.
#include "planck/ops/conv/host/walk.h"

#include <gtest/gtest.h>

namespace planck {
namespace {

using conv_detail::WalkedBlocks;
using conv_detail::WalkedPlaces;
using conv_detail::WindowWalk;

TEST(ConvWalk, BlocksFollowOneAnother) {
  for (int taps_down : {1, 2, 3})
    for (int taps_across : {1, 3, 5})
      for (int blocks : {1, 2, 3}) {
        WindowWalk walk{};
        walk.taps_across = taps_across, walk.taps = taps_down * taps_across;
        walk.block = 64, walk.blocks = blocks;
        walk.move[0] = 6, walk.move[1] = 0, walk.move_step[0] = -3, walk.move_step[1] = 2;
        for (int first = 0; first < walk.taps * blocks; ++first) {
          WalkedBlocks walked(walk, first);
          for (int b = first; b < walk.taps * blocks; ++b, walked.next()) {
            const WindowWalk::Block is = walked.at(), should = walk.of(b);
            EXPECT_EQ(is.channel, should.channel) << first << " " << b;
            EXPECT_EQ(is.move_h, should.move_h) << first << " " << b;
            EXPECT_EQ(is.move_w, should.move_w) << first << " " << b;
          }
        }
      }
}

TEST(ConvWalk, PlacesFollowOneAnother) {
  for (int wide : {1, 2, 7, 56, 64, 100})
    for (int high : {1, 3, 7, 56})
      for (int step : {1, 64, 65}) {
        WindowWalk walk{};
        walk.wide = wide, walk.high = high;
        walk.at[0] = -1, walk.at[1] = -2, walk.step[0] = 2, walk.step[1] = 3;
        WalkedPlaces walked(walk, step);
        for (int first : {0, 1, 63, 576}) {
          walked.begin(first);
          for (int s = 0; s < 300; ++s, walked.next()) {
            const WindowWalk::Start is = walked.at(), should = walk.start(first + s * step);
            EXPECT_EQ(is.n, should.n) << wide << " " << high << " " << step << " " << s;
            EXPECT_EQ(is.h, should.h) << wide << " " << high << " " << step << " " << s;
            EXPECT_EQ(is.w, should.w) << wide << " " << high << " " << step << " " << s;
          }
        }
      }
}

}  // namespace
}  // namespace planck
