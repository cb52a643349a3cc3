// Quantizes an input that is contiguous along another axis than the output: in place, along its own
// memory. Only the resulting bytes are transposed, a quarter of the floats' size.
//
// Tried, ns per 64 elements of f32 to s8, one thread:
//   tiles of floats transposed, then quantized           29   11 to transpose, 12 to quantize short
//                                                             rows, both in the cache
//   the next tile prefetched or brought over meanwhile   30
//   bytes transposed: 512 rows per tile                  26
//     1,024 rows per tile                                24
//     prefetched 8 KiB ahead                             22
#pragma once

#include "planck/loops/cpu/map.h"
#include "planck/ops/quantize/cpu/groups.h"

namespace planck {

template <class C>
class TransposedQuantize {
 public:
  // Operands of the map.
  struct Numbers {
    int out, x, scale, zero_point;
  };
  TransposedQuantize(const Map& map, const Numbers& numbers) : map_(map), k_(numbers) {}

  // Whether x is tiled, rows of the output begin with whole bytes, and groups differ along the rows
  // of a tile or along its columns, not both.
  bool fits(Dtype out) const {
    if (!map_.in_tiles() || !map_.tiled(k_.x)) return false;
    for (int axis = 0; axis < columns(); ++axis)
      if (is_packed(out) && map_.stride(k_.out, axis) % 2 != 0) return false;
    if (is_packed(out) && map_.offset_at(k_.out, 0) % 2 != 0) return false;
    return !varies(columns()) || !varies(rows());
  }

  void run(const Stream& stream, const MapOperand& out, const MapOperand& x,
           const MapOperand& scale, const MapOperand* zero_point, const GroupNeeds& needs,
           bool streams) const {
    const auto make_state = [&] { return State(scale, zero_point, needs); };
    const auto tile = [&](State& s, std::int64_t first, int height, int width) {
      const bool by_row = !varies(columns());
      const int axis = by_row ? rows() : columns();
      s.groups.load_rows(map_.offset_at(k_.scale, first), map_.stride(k_.scale, axis),
                         map_.offset_at(k_.zero_point, first), map_.stride(k_.zero_point, axis),
                         by_row ? height : width, by_row ? GroupLayout::each : GroupLayout::one);
      const auto bytes = static_cast<std::int64_t>(storage_bytes(x.dtype));
      const std::int64_t step = map_.stride(k_.x, columns()) * bytes;
      const std::int64_t columns_ahead = std::max<std::int64_t>(1, 8192 / (height * bytes));
      quant_portions<C>().quantize(
          s.groups.groups(), width, height,
          Source{static_cast<const std::byte*>(x.base) + map_.offset_at(k_.x, first) * bytes,
                 x.dtype, columns_ahead * step, step},
          Sink{s.bytes, Dtype::u8, false, kPitch});
      portion_ops().load_tile(Dtype::u8, s.bytes, 0, kPitch, height, width, s.transposed,
                              Map::kTileColumns);
      const int bits_each = bits(out.dtype);
      portion_ops().store_q_rows(
          height, width, s.transposed, Map::kTileColumns,
          Sink{static_cast<std::byte*>(out.base) + map_.offset_at(k_.out, first) * bits_each / 8,
               out.dtype, streams, map_.stride(k_.out, rows()) * bits_each / 8});
    };
    map_.each_part(stream, Map::kMostTileRows, make_state, tile);
  }

 private:
  // Not a power of two: columns would fall on the same sets of the cache.
  static constexpr int kPitch = Map::kMostTileRows + 64;
  struct State {
    State(const MapOperand& scale, const MapOperand* zero_point, const GroupNeeds& needs)
        : groups(scale, zero_point, needs) {}
    GroupLoader<C> groups;
    alignas(64) std::uint8_t bytes[Map::kTileColumns * kPitch];  // column by column
    alignas(64) std::uint8_t transposed[Map::kMostTileRows * Map::kTileColumns];
  };

  int columns() const { return map_.nest().rank - 1; }
  int rows() const { return map_.nest().rank - 2; }
  bool varies(int axis) const {
    return map_.stride(k_.scale, axis) != 0 || map_.stride(k_.zero_point, axis) != 0;
  }

  const Map& map_;
  Numbers k_;
};

}  // namespace planck
