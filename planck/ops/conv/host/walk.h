// How the copy engine of a GPU walks over windows of an image whose channels lie side by side: for
// each tap it brings a block of channels (128 bytes) of as many places as a tile has; what lies in
// the border becomes zeros on the way.
#pragma once

#include <cstdint>
#include <optional>

#include "planck/ops/conv/host/windows.h"

namespace planck::conv_detail {

inline constexpr int kBlockBytes = 128;  // of channels

// Along each axis a place reads `at + place step`, and a tap is `move + tap move_step` further on,
// which is 0 to 255. Axes: down, across.
struct WindowWalk {
  int wide, high;  // places
  int at[2], step[2], move[2], move_step[2];
  int last[2];               // where the last place reads, less the image's extent, plus 1
  int tap_at, tap_steps[2];  // the first tap's number in the kernel, and how it grows
  int taps_across, taps, channels;
  int block, blocks;  // channels of a block, blocks of a tap
  int chunk_places;   // k of a batch, for dweight

  PLANCK_HD std::int64_t depth() const { return std::int64_t{taps} * blocks * block; }

  struct Start {
    int n, h, w;
  };
  PLANCK_HD Start start(int place) const {
    const int line = place / wide, n = line / high;
    return {n, at[0] + (line - n * high) * step[0], at[1] + (place - line * wide) * step[1]};
  }
  // Block b of k, or of columns. Past the last tap: channels that are none.
  struct Block {
    int channel;
    std::uint16_t move_h, move_w;
  };
  PLANCK_HD Block of(int b) const {
    const int tap = b / blocks;
    if (tap >= taps) return {blocks * block, 0, 0};
    const int u = tap / taps_across, v = tap - u * taps_across;
    return {(b - tap * blocks) * block, static_cast<std::uint16_t>(move[0] + u * move_step[0]),
            static_cast<std::uint16_t>(move[1] + v * move_step[1])};
  }
  // Calls visit(channel, move_h, move_w, tap) for all blocks of k, in order.
  template <class Visit>
  PLANCK_HD void each_block(Visit visit) const {
    const int all = taps * blocks;
    int channel = 0, across = 0, h = move[0], w = move[1], line = tap_at, tap = tap_at;
    for (int b = 0; b < all; ++b) {
      visit(channel, static_cast<std::uint16_t>(h), static_cast<std::uint16_t>(w), tap);
      if (channel += block; channel < blocks * block) continue;
      channel = 0, w += move_step[1], tap += tap_steps[1];
      if (++across < taps_across) continue;
      across = 0, w = move[1], h += move_step[0], tap = line += tap_steps[0];
    }
  }
};

// Blocks of k one after the other, without a division for each.
class WalkedBlocks {
 public:
  PLANCK_HD WalkedBlocks(const WindowWalk& walk, int first) : walk_(walk) {
    const int tap = first / walk.blocks, u = tap / walk.taps_across;
    across_ = tap - u * walk.taps_across;
    channel_ = (first - tap * walk.blocks) * walk.block;
    h_ = walk.move[0] + u * walk.move_step[0], w_ = walk.move[1] + across_ * walk.move_step[1];
  }
  PLANCK_HD WindowWalk::Block at() const {
    return {channel_, static_cast<std::uint16_t>(h_), static_cast<std::uint16_t>(w_)};
  }
  PLANCK_HD void next() {
    if (channel_ += walk_.block; channel_ < walk_.blocks * walk_.block) return;
    channel_ = 0, w_ += walk_.move_step[1];
    if (++across_ < walk_.taps_across) return;
    across_ = 0, w_ = walk_.move[1], h_ += walk_.move_step[0];
  }

 private:
  const WindowWalk& walk_;
  int channel_, across_, h_, w_;
};

// Every step-th place, likewise.
class WalkedPlaces {
 public:
  PLANCK_HD WalkedPlaces(const WindowWalk& walk, int step) : walk_(walk) {
    const int lines = step / walk.wide;
    images_ = lines / walk.high, lines_ = lines - images_ * walk.high;
    across_ = step - lines * walk.wide;
  }
  PLANCK_HD void begin(int place) {
    const int line = place / walk_.wide;
    n_ = line / walk_.high, i_ = line - n_ * walk_.high, j_ = place - line * walk_.wide;
  }
  PLANCK_HD WindowWalk::Start at() const {
    return {n_, walk_.at[0] + i_ * walk_.step[0], walk_.at[1] + j_ * walk_.step[1]};
  }
  PLANCK_HD void next() {
    n_ += images_, i_ += lines_, j_ += across_;
    if (j_ >= walk_.wide) j_ -= walk_.wide, ++i_;
    if (i_ >= walk_.high) i_ -= walk_.high, ++n_;
  }

 private:
  const WindowWalk& walk_;
  int images_, lines_, across_;  // of a step
  int n_ = 0, i_ = 0, j_ = 0;
};

// Nothing where the engine has no such walk. block: channels of kBlockBytes; kernel_wide: taps of
// a row of the kernel, some of which a phase of dx skips.
std::optional<WindowWalk> walk_of(const Windows& w, int block, std::int64_t kernel_wide);

}  // namespace planck::conv_detail
