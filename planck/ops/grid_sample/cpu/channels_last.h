// Channels-last copies of parts of a tensor, in the compute type, and back.
//
// Sampling reads all channels of a few scattered elements: rows that are dense in memory are read
// whole, and every loop runs over channels. A tensor that is channels-last already, in the compute
// type, is used where it is.
#pragma once

#include "planck/core/view.h"
#include "planck/loops/nest.h"
#include "planck/ops/grid_sample/cpu/sample_loops.h"

namespace planck {

// A tensor [N, C, …] as positions (row-major, of one image) and channels.
struct Planes {
  void* base;
  Dtype dtype;
  Walk walk;  // over positions
  std::int64_t batch_stride, channel_stride;
  std::int64_t channels;
  std::int64_t stride[3];  // along depth, height, width
  std::int64_t lowest;     // the lowest position of an image, from its first: 0 or negative
  bool large;              // than the caches: written past them
};
// spatial: the extents along depth, height, width; a 2-D tensor has depth 1.
Planes planes_of(const View& v, const std::int64_t (&spatial)[3]);

// Length of a channels-last row in elements: rows start at whole vectors where they are long.
std::int64_t row_length(std::int64_t channels);

// Positions [begin, begin + count) of image n as rows of row_length(channels); the rest of a row is
// zero.
template <class C>
void load_rows(const Planes& from, std::int64_t n, std::int64_t begin, std::int64_t count, C* rows);

// A tile of rows in the first-level cache: rows are so far apart that they do not compete for the
// same few cache lines.
constexpr int tile_stride(int channels) {
  return channels <= kFewLines ? kFewLines : (channels + kLines - 1) / kLines * kLines + kLines;
}
inline constexpr int kTileElements = kTilePoints * tile_stride(kChannelBlock);

// Channels [c0, c0 + channels) of positions [begin, begin + count) from a tile; count <=
// kTilePoints.
template <class C>
void store_rows(const Planes& to, std::int64_t n, std::int64_t begin, int count, std::int64_t c0,
                int channels, const C* tile);
// The same, added to what is there, for positions that are marked; the others are left alone.
template <class C>
void add_rows(const Planes& to, std::int64_t n, std::int64_t begin, int count, std::int64_t c0,
              int channels, const C* tile, const bool* marked);

}  // namespace planck
