// Elementwise work on the CPU over operands of any strides, in portions.
//
// The nest follows the output's memory. Three ways of cutting it, none of which changes a result:
//   line   portions of consecutive positions
//   panel  a range of columns of the innermost axis over many rows: what depends on the column
//          alone is made once
//   tile   where an input is contiguous along another axis than the output: tiles of rows × 128
//          columns are brought over line by line and transposed in the cache
#pragma once

#include <algorithm>

#include "planck/loops/cpu/positions.h"
#include "planck/loops/parallel.h"

namespace planck {

// Elements that are worth a task of their own.
inline constexpr std::int64_t kTaskElements = 1 << 16;

// A portion: positions [begin, begin + n) of the nest, and as many in each of the rows that follow.
struct PortionAt {
  std::int64_t begin;
  int n, rows = 1;
  int row = -1;  // the first one's number, in a panel or tile
};

class Map {
 public:
  static constexpr int kTileColumns = 128;
  static constexpr int kTileBytes = 1 << 18, kMostTileRows = 1024;

  // `output` gives the order; `columns` is an operand that is worth panels when it varies along the
  // innermost axis alone; `transposable` marks inputs that may be tiled, of `element_bytes` at
  // most; `pairs`: two neighbours of the output share a byte, so no portion ends between them.
  Map(const Nest& nest, int output, int columns, unsigned transposable, std::size_t element_bytes,
      bool pairs)
      : nest_(nest),
        tile_rows_(
            std::min(kMostTileRows, kTileBytes / kTileColumns / static_cast<int>(element_bytes))) {
    sort_by(nest_, output);
    collapse(nest_);
    choose_mode(output, columns, transposable, pairs);
  }

  const Nest& nest() const { return nest_; }
  std::int64_t total() const { return nest_.total(); }
  bool in_panels() const { return mode_ == Mode::panel; }
  bool in_tiles() const { return mode_ == Mode::tile; }
  bool tiled(int operand) const { return (tiled_ >> operand) & 1u; }

  // If every operand with one entry per element is dense, nothing is gathered, and lines may be
  // longer than a portion.
  void use_long_lines() { line_ = kTaskElements; }

  // One operand as kernels see it. In panels, what to prefetch lies some rows further on.
  MapOperand operand(int k, void* base, Dtype dtype) const {
    MapOperand o{base, dtype, walk_of(nest_, k)};
    if (mode_ == Mode::line) return o;
    o.row = stride(k, nest_.rank - 2) * bits(dtype) / 8;
    o.ahead = o.row * std::max<std::int64_t>(1, o.ahead / (kPortion * bits(dtype) / 8));
    return o;
  }
  std::int64_t stride(int k, int axis) const {
    return nest_.stride[static_cast<std::size_t>(k)][static_cast<std::size_t>(axis)];
  }
  // The offset of position p in operand k.
  std::int64_t offset_at(int k, std::int64_t p) const {
    std::int64_t offset = nest_.offset[static_cast<std::size_t>(k)];
    for (int axis = nest_.rank; axis-- > 0;) {
      const std::int64_t extent = nest_.extent[static_cast<std::size_t>(axis)];
      offset += p % extent * stride(k, axis);
      p /= extent;
    }
    return offset;
  }

  // Calls work(state, PortionAt) for every portion, make_state() once per task, and begin(state,
  // first position, rows, columns) before the portions of a panel or tile: if it returns true, all
  // rows go into one call of work.
  template <class MakeState, class Begin, class Work>
  void run(const Stream& stream, MakeState&& make_state, Begin&& begin, Work&& work) const {
    const std::int64_t total = nest_.total();
    if (total == 0) return;
    if (mode_ == Mode::line) {
      parallel_for(stream, (total + kTaskElements - 1) / kTaskElements, [&](std::int64_t task) {
        auto state = make_state();
        const std::int64_t end = std::min(total, (task + 1) * kTaskElements);
        for (std::int64_t p = task * kTaskElements; p < end; p += line_)
          work(state, PortionAt{p, static_cast<int>(std::min(line_, end - p))});
      });
      return;
    }
    // Long panels, if that leaves enough of them: groups are prepared once per panel.
    const int panel_rows = total >= (std::int64_t{1} << 24) ? 256 : 64;
    const int part_rows = mode_ == Mode::tile ? tile_rows_ : panel_rows;
    each_part(stream, part_rows, make_state,
              [&](auto& state, std::int64_t first, int rows, int columns) {
                const std::int64_t width = nest_.extent[static_cast<std::size_t>(nest_.rank - 1)];
                const int together = begin(state, first, rows, columns) ? rows : 1;
                for (int r = 0; r < rows; r += together)
                  work(state, PortionAt{first + r * width, columns, together, r});
              });
  }

  // Calls f(state, first position, rows, columns) for every panel or tile, of at most `rows` rows,
  // each with a new make_state().
  template <class MakeState, class F>
  void each_part(const Stream& stream, std::int64_t rows, MakeState&& make_state, F&& f) const {
    const bool tile = mode_ == Mode::tile;
    const auto last = static_cast<std::size_t>(nest_.rank - 1);
    const std::int64_t width = nest_.extent[last], height = nest_.extent[last - 1];
    const std::int64_t total = nest_.total(), columns = tile ? kTileColumns : kPortion;
    const std::int64_t across = (width + columns - 1) / columns, down = (height + rows - 1) / rows;
    const std::int64_t planes = total / (width * height);
    parallel_for(stream, planes * down * across, [&](std::int64_t task) {
      const std::int64_t c0 = task % across * columns, r0 = task / across % down * rows;
      const std::int64_t plane = task / across / down;
      auto state = make_state();
      f(state, (plane * height + r0) * width + c0, static_cast<int>(std::min(rows, height - r0)),
        static_cast<int>(std::min(columns, width - c0)));
    });
  }

  // Brings a tile of operand k, whose first position is given, into tile[row][column].
  void load_tile(const MapOperand& operand, int k, std::int64_t first, int rows, int columns,
                 void* tile) const {
    portion_ops().load_tile(operand.dtype, operand.base, offset_at(k, first),
                            stride(k, nest_.rank - 1), rows, columns, tile, kTileColumns);
  }

 private:
  enum class Mode : std::uint8_t { line, panel, tile };
  void choose_mode(int output, int columns, unsigned transposable, bool pairs);
  bool choose_tile(unsigned transposable);

  Nest nest_;
  Mode mode_ = Mode::line;
  int tile_rows_;
  std::int64_t line_ = kPortion;
  unsigned tiled_ = 0;
};

}  // namespace planck
