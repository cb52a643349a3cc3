// Walks without divisions (host/walk.h) against those that divide.
#include "planck/ops/conv/host/walk.h"

#include <gtest/gtest.h>

namespace planck {
namespace {

using conv_detail::WalkedPlaces;
using conv_detail::WindowWalk;

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
