// What the CUDA kernels lay out in their workspace, as a function of the problem alone. Plain C++:
// a build without CUDA states the same sizes.
#pragma once

#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck {

// Forward: whether a copy of the input with its channels together may be made.
bool staged_forward(const GridSampleProblem& p);

// Whether the channels of an element lie together, in whole vectors of 16 bytes.
bool has_vector_rows(const View& v);

// ---- backward: points sorted into bins ----
//
// tiled: 2-D bilinear sampling. A bin is a tile of 32 × 8 elements of dinput; a point is in the bin
// of every tile that it adds to (four at most). Each tile has a list of the points that are in it,
// in any order; where one is too short, the points are sorted into bins as without tiles. Otherwise
// a bin is a run of 512 cells, and a point is in one at most.
struct BinLayout {
  static constexpr int kTileWidth = 32, kTileHeight = 8;
  static constexpr int kTileCells = (kTileWidth + 1) * (kTileHeight + 1);
  static constexpr int kCellsOfRun = 512;
  static constexpr int kRound = 512;  // points of a tile's list
  static constexpr int kAlone = 256;  // contributions of an element that one thread sums
  static constexpr int kApart = 8;    // words between counters that many threads add to
  static constexpr std::int64_t kMostPoints = std::int64_t{1} << 30;  // of an image

  bool tiled = false;
  bool staged = false;  // copies of dout and input may be made
  std::int64_t batch = 0, points = 0;
  std::int64_t bins = 0;                   // of an image
  std::int64_t across = 0;                 // tiles along x
  std::int64_t cells[3] = {};              // x, y, z; of an image, without tiles
  std::int64_t copies = 1;                 // bins a point may be in
  std::int64_t segments = 0, segment = 0;  // points of an image, cut for the warps that sort them
  std::int64_t bands = 1, band = 0;        // bins, cut to fit in shared memory

  int bin_cells() const { return tiled ? kTileCells : kCellsOfRun; }

  // Offsets in bytes.
  // Cleared before each run:
  // i32: tiles whose lists are too short; u64 at 8: neighbours; u64 at 16: busy elements
  std::size_t control = 0;
  std::size_t cursors = 0;  // u32[N]
  std::size_t placed = 0;   // u32[N, bins, kApart]: points of a tile; tiled
  std::size_t cleared = 0;  // up to here
  // The rest:
  std::size_t counts = 0;                     // u32[N, segments, bins]
  std::size_t totals = 0;                     // u32[N, bins]
  std::size_t starts = 0;                     // u32[N, bins]
  std::size_t crowded = 0;                    // i64[N · bins]
  std::size_t busy = 0;                       // i64: elements with many contributions
  std::size_t entries = 0;                    // u32[N, copies · points]
  std::size_t sorted = 0;                     // u32[N, copies · points]
  std::size_t cell_starts = 0;                // u32[N, bins, cells of a bin + 1]
  std::size_t lists = 0;                      // u32[N, bins, kRound]; tiled
  std::size_t dout_rows = 0, input_rows = 0;  // copies with the channels together; where staged
  std::size_t bytes = 0;
};
BinLayout bin_layout(const GridSampleProblem& p);

}  // namespace planck
