// Elementwise work on the CPU over operands of any strides, in blocks.
//
// The nest follows the output's memory. Three ways of cutting it, none of which changes a result:
//   line   blocks of consecutive positions
//   panel  a range of columns of the innermost axis over many rows: what depends on the column
//          alone is made once
//   tile   where an input is contiguous along another axis than the output: tiles of rows × 512
//          columns are brought over line by line and transposed in the cache
#pragma once

#include <algorithm>

#include "planck/loops/parallel.h"
#include "planck/loops/positions.h"

namespace planck {

// Elements that are worth a task of their own.
inline constexpr std::int64_t kTaskElements = 1 << 16;

// A block: positions [begin, begin + n) of the nest.
struct BlockAt {
  std::int64_t begin;
  int n;
  std::int64_t column;  // panel: blocks of the same column have the same groups; −1 elsewhere
  int row;              // tile: which row of it; −1 elsewhere
};

class Map {
 public:
  static constexpr int kTileColumns = 512;
  template <class C>
  static constexpr int kTileRows = 256 / static_cast<int>(sizeof(C));  // 128 KiB a tile

  // `output` gives the order; `columns` is an operand that is worth panels when it varies along the
  // innermost axis alone; `transposable` marks float inputs that may be tiled, computed in C;
  // `pairs`: two neighbours of the output share a byte, so no block ends between them.
  template <class C>
  Map(const Nest& nest, int output, int columns, unsigned transposable, bool pairs,
      std::type_identity<C>)
      : nest_(nest), tile_rows_(kTileRows<C>) {
    sort_by(nest_, output);
    collapse(nest_);
    choose_mode(output, columns, transposable, pairs);
  }

  const Nest& nest() const { return nest_; }
  std::int64_t total() const { return nest_.total(); }
  bool tiled(int operand) const { return (tiled_ >> operand) & 1u; }

  // Where every operand that has one entry an element is dense, nothing is gathered, and lines may
  // be longer than a block.
  void use_long_lines() { line_ = kTaskElements; }

  // One operand as kernels see it. In panels, what follows is the next row.
  MapOperand operand(int k, void* base, Dtype dtype) const {
    MapOperand o{base, dtype, walk_of(nest_, k)};
    if (mode_ == Mode::panel) {
      const std::int64_t row =
          nest_.stride[static_cast<std::size_t>(k)][static_cast<std::size_t>(nest_.rank - 2)];
      o.ahead = row * bits(dtype) / 8;
    }
    return o;
  }

  // Calls work(state, BlockAt) for every block; make_state() once a task; begin_tile(state, first
  // position, rows, columns) before the blocks of a tile.
  template <class MakeState, class BeginTile, class Work>
  void run(const Stream& stream, MakeState&& make_state, BeginTile&& begin_tile,
           Work&& work) const {
    const std::int64_t total = nest_.total();
    if (total == 0) return;
    if (mode_ == Mode::line) {
      parallel_for(stream, (total + kTaskElements - 1) / kTaskElements, [&](std::int64_t task) {
        auto state = make_state();
        const std::int64_t end = std::min(total, (task + 1) * kTaskElements);
        for (std::int64_t p = task * kTaskElements; p < end; p += line_)
          work(state, BlockAt{p, static_cast<int>(std::min(line_, end - p)), -1, -1});
      });
      return;
    }
    const bool tile = mode_ == Mode::tile;
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    const std::int64_t width = nest_.extent[last], height = nest_.extent[last - 1];
    const std::int64_t columns = tile ? kTileColumns : kBlock;
    const std::int64_t rows = tile ? tile_rows_ : 64;
    const std::int64_t across = (width + columns - 1) / columns, down = (height + rows - 1) / rows;
    const std::int64_t planes = total / (width * height);
    parallel_for(stream, planes * down * across, [&](std::int64_t task) {
      const std::int64_t c0 = task % across * columns, r0 = task / across % down * rows;
      const std::int64_t plane = task / across / down;
      const int n = static_cast<int>(std::min(columns, width - c0));
      const int count = static_cast<int>(std::min(rows, height - r0));
      const std::int64_t first = (plane * height + r0) * width + c0;
      auto state = make_state();
      for (int r = 0; r < count; ++r) {
        const int in_tile = tile ? r % tile_rows_ : -1;
        if (in_tile == 0) begin_tile(state, first + r * width, std::min(tile_rows_, count - r), n);
        work(state, BlockAt{first + r * width, n, tile ? -1 : c0, in_tile});
      }
    });
  }

  // Brings a tile of operand k into tile[row][column].
  template <class C>
  void load_tile(const MapOperand& operand, int k, std::int64_t first, int rows, int columns,
                 C (*tile)[kTileColumns]) const {
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    const NestStrides& stride = nest_.stride[static_cast<std::size_t>(k)];
    std::int64_t offset = nest_.offset[static_cast<std::size_t>(k)], rest = first;
    for (std::size_t d = last + 1; d-- > 0;) {
      offset += rest % nest_.extent[d] * stride[d];
      rest /= nest_.extent[d];
    }
    if constexpr (std::is_same_v<C, float>)
      block_ops().load_tile_f32(operand.dtype, operand.base, offset, stride[last], rows, columns,
                                tile[0], kTileColumns);
    else
      block_ops().load_tile_f64(operand.dtype, operand.base, offset, stride[last], rows, columns,
                                tile[0], kTileColumns);
  }

 private:
  enum class Mode : std::uint8_t { line, panel, tile };
  void choose_mode(int output, int columns, unsigned transposable, bool pairs);
  bool choose_tile(unsigned transposable);

  Nest nest_;
  Mode mode_ = Mode::line;
  int tile_rows_;
  std::int64_t line_ = kBlock;
  unsigned tiled_ = 0;
};

}  // namespace planck
