// How a tensor is cut into units: pieces of memory that are read, quantized and written at a time.
//
// View a row-major tensor as [outer, channels, inner], where the group of element i is
// (i / inner) % channels. A unit is a box of that view whose elements lie in one piece: several
// outer indices with all channels, or some channels of one outer index, or a part of one channel.
// The cut depends on the shape alone, so that neither threads nor devices change a result.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/planck/checkpoint/quantized_checkpoint.h"

namespace planck::cli {

struct GroupLayout {
  std::int64_t outer = 1, channels = 1, inner = 1;

  std::int64_t elements() const { return outer * channels * inner; }
};
GroupLayout group_layout(const TensorScheme& scheme);

struct Unit {
  std::int64_t outer, channels, inner;  // extents of the box
  std::int64_t first_channel;
  std::int64_t first_element;

  std::int64_t elements() const { return outer * channels * inner; }
};

inline constexpr std::int64_t kUnitElements = 1 << 18;
inline constexpr std::int64_t kChannelsTogether = kUnitElements;  // whose scales are in memory
inline constexpr std::size_t kUnitsTogether = 256;  // that run side by side, of one or many tensors

// About `limit` elements each, more where one group has more and is not divided by `whole_groups`.
// Every unit begins at a multiple of 64 elements, as far as the layout allows, and always at an
// even one where the tensor's last extent is even.
std::vector<Unit> cut(const GroupLayout& layout, std::int64_t limit);
// The units in parts of at most `most` channels, which is no less than a unit has: what is shared
// by the units of a part is known before the next one begins.
std::vector<std::vector<Unit>> by_channels(std::vector<Unit> units, std::int64_t most);
// Whether every group lies in one unit: then a unit knows its scales.
bool holds_whole_groups(const GroupLayout& layout, const std::vector<Unit>& units);

// Of elements without groups: plain pieces.
std::vector<Unit> cut_plain(std::int64_t elements, std::int64_t limit);

}  // namespace planck::cli
