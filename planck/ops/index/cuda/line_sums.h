// What cuda:lines takes: a line of items and a line of out for one block.
#pragma once

namespace planck::index_device {

inline constexpr int kMostDeviceLine = 2048;

}  // namespace planck::index_device
