// Elementwise work on the CPU over operands of any strides, in blocks.
//
// The nest follows the output's memory. Three ways of cutting it, none of which changes a result:
//   line   blocks of consecutive positions
//   panel  a range of columns of the innermost axis over many rows: what depends on the column
//   alone is made once tile   16 rows × 256 columns, where an operand is contiguous along another
//   axis than the output: its part is
//          brought over line by line and transposed in the cache
#pragma once

#include <algorithm>

#include "planck/core/view.h"
#include "planck/loops/blocks.h"
#include "planck/loops/nest.h"
#include "planck/loops/parallel.h"

namespace planck {

// Outputs past this size are written around the caches.
inline constexpr std::size_t kStreamBytes = std::size_t{8} << 20;
// Elements that are worth a task of their own.
inline constexpr std::int64_t kTaskElements = 1 << 16;

// What a kernel sees of the nest.
struct MapOperand {
  void* base;
  Dtype dtype;
  Walk walk;
};

// A block: positions [begin, begin + n) of the nest.
struct BlockAt {
  std::int64_t begin;
  int n;
  std::int64_t
      column;  // of the innermost axis, in panel mode: same column, same groups; −1 elsewhere
  int row;     // in tile mode: which row of the tile; −1 elsewhere
};

enum class MapMode : std::uint8_t { line, panel, tile };

class Map {
 public:
  static constexpr int kTileRows = 16, kTileColumns = 256, kPanelColumns = kBlock, kPanelRows = 64;

  // Operands in the nest's order. `output` gives the order; `columns` is an operand that is worth
  // panels when it varies along the innermost axis alone (−1: none); `transposable` marks inputs
  // that may be tiled.
  Map(Nest nest, int output, int columns, unsigned transposable) : nest_(nest) {
    sort_by(nest_, output);
    collapse(nest_);
    choose_mode(output, columns, transposable);
  }

  MapMode mode() const { return mode_; }
  const Nest& nest() const { return nest_; }
  std::int64_t total() const { return nest_.total(); }
  bool tiled(int operand) const { return (tiled_ >> operand) & 1u; }

  // Calls work(state, BlockAt) for every block; make_state() once a task; begin_tile(state, first
  // position, rows, columns) before the blocks of a tile.
  template <class MakeState, class BeginTile, class Work>
  void run(const Stream& stream, MakeState&& make_state, BeginTile&& begin_tile,
           Work&& work) const {
    const std::int64_t total = nest_.total();
    if (total == 0) return;
    if (mode_ == MapMode::line) {
      const std::int64_t tasks = (total + kTaskElements - 1) / kTaskElements;
      parallel_for(stream, tasks, [&](std::int64_t task) {
        auto state = make_state();
        const std::int64_t end = std::min(total, (task + 1) * kTaskElements);
        for (std::int64_t p = task * kTaskElements; p < end; p += kBlock)
          work(state,
               BlockAt{p, static_cast<int>(std::min<std::int64_t>(kBlock, end - p)), -1, -1});
      });
      return;
    }
    const bool tile = mode_ == MapMode::tile;
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    const std::int64_t width = nest_.extent[last], height = nest_.extent[last - 1];
    const std::int64_t columns = tile ? kTileColumns : kPanelColumns,
                       rows = tile ? kTileRows : kPanelRows;
    const std::int64_t across = (width + columns - 1) / columns, down = (height + rows - 1) / rows;
    const std::int64_t planes = total / (width * height);
    parallel_for(stream, planes * down * across, [&](std::int64_t task) {
      const std::int64_t c0 = task % across * columns, r0 = task / across % down * rows,
                         plane = task / across / down;
      const int n = static_cast<int>(std::min(columns, width - c0));
      const int count = static_cast<int>(std::min(rows, height - r0));
      const std::int64_t first = (plane * height + r0) * width + c0;
      auto state = make_state();
      if (tile) begin_tile(state, first, count, n);
      for (int r = 0; r < count; ++r)
        work(state, BlockAt{first + r * width, n, tile ? -1 : c0, tile ? r : -1});
    });
  }

  // Brings `count` rows × n columns of a tiled operand into tile[row][column], C being the compute
  // type.
  template <class C>
  void load_tile(const BlockOps& ops, const MapOperand& operand, int k, std::int64_t first,
                 int count, int n, C (*tile)[kTileColumns]) const {
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    const NestStrides& stride = nest_.stride[static_cast<std::size_t>(k)];
    std::int64_t offset = nest_.offset[static_cast<std::size_t>(k)], rest = first;
    for (std::size_t d = last + 1; d-- > 0;) {
      offset += rest % nest_.extent[d] * stride[d];
      rest /= nest_.extent[d];
    }
    C line[kTileRows];
    for (int c = 0; c < n; ++c) {
      load_block(ops, operand.dtype, operand.base, offset + c * stride[last], stride[last - 1],
                 count, line);
      for (int r = 0; r < count; ++r) tile[r][c] = line[r];
    }
  }

 private:
  void choose_mode(int output, int columns, unsigned transposable);

  Nest nest_;
  MapMode mode_ = MapMode::line;
  unsigned tiled_ = 0;
};

}  // namespace planck
