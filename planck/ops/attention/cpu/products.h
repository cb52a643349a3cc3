// The two meanings of a product as attention uses them: rows, packed once for all panels, times the
// lanes of a panel, to sums [rows][width].
//
//   C, width()                          the compute type; lanes of a panel
//   row_words(rows, k), lane_words(k)   what packed operands take, in C
//   pack_rows(side, rows, k, out)       k is at most 256; the axis of `rows` is along the side
//   pack_lanes(side, lanes, k, out)     as [k][width], zeros where lanes are missing
//   take_lanes(values, k)               the same of values that lie there as [k][width]; rounds
//   multiply(rows, ..)                  sums += rows * lanes
//   multiply_seen(rows, finite, ..)     the same; where a lane is zero, the row's factor is too
//   kCut                                products may begin at any multiple of it, end anywhere, and
//                                       read rows where they lie; 0: they take whole packed blocks
//   part(packed, ..)                    packed rows from one of them on, or, where rows are what is
//                                       summed over (across), from the first of these on
#pragma once

#include <algorithm>
#include <cmath>

#include "planck/loops/cpu/portions.h"
#include "planck/loops/gemm/cpu/pack.h"
#include "planck/loops/gemm/cpu/tensor_core_tile.h"
#include "planck/loops/gemm/cpu/tile.h"
#include "planck/ops/attention/cpu/score_loops.h"

namespace planck::attention {

inline constexpr int kMostRows = 16;  // of a packed group, see below

// Rows as products read them: packed, or where they lie.
template <class C>
struct Rows {
  const C* at;
  std::int64_t depth = 0;          // packed, of which k are multiplied; 0: in place
  std::int64_t row = 0, step = 0;  // in place: from one row to the next, k dense; or from k to k
};

// Derived says how `kept` rows that lie together are packed: group_rows() of them, at group(..).
template <class Derived, class Number>
class Products {
 public:
  using C = Number;

  // Where a lane is 0 and the row's factor infinite or NaN, their product counts for nothing: such
  // blocks are multiplied lane by lane, with zeros in these places.
  void multiply_seen(const Rows<C>& rows, bool finite, std::int64_t count, const C* lanes,
                     std::int64_t k, C* sums) const {
    const int width = self().width();
    if (finite || std::find(lanes, lanes + k * width, C(0)) == lanes + k * width)
      return self().multiply(rows, count, lanes, k, sums, true);
    alignas(64) C group[2 * kMostRows * 128], before[kMostRows * kMostLanes],
        after[kMostRows * kMostLanes];
    const int most = self().group_rows();
    for (std::int64_t first = 0; first < count; first += most, sums += most * width) {
      const auto n = static_cast<int>(std::min<std::int64_t>(most, count - first));
      std::copy_n(sums, n * width, before);
      for (int w = 0; w < width; ++w) {
        self().copy_group(rows, first, count, k, lanes + w, group);
        std::copy_n(before, n * width, after);
        self().multiply({group, k}, n, lanes, k, after, true);
        for (int r = 0; r < n; ++r) sums[r * width + w] = after[r * width + w];
      }
    }
  }

 private:
  const Derived& self() const { return static_cast<const Derived&>(*this); }
};

template <class Number>
class ChainProducts : public Products<ChainProducts<Number>, Number> {
 public:
  using C = Number;

  static constexpr int kCut = 24;  // whole groups, and whole rounds of partial sums

  explicit ChainProducts(Dtype) {}
  int width() const { return ops_.vectors * ops_.lanes; }
  std::int64_t row_words(std::int64_t rows, std::int64_t k) const {  // of any instruction set
    constexpr std::int64_t kMost = gemm::kMostTileRows;
    return (rows + kMost - 1) / kMost * kMost * k;
  }
  std::int64_t packed_rows(std::int64_t rows) const {  // with the zeros that fill up a group
    return (rows + ops_.rows - 1) / ops_.rows * ops_.rows;
  }
  std::int64_t lane_words(std::int64_t k) const { return k * width(); }
  void pack_rows(const gemm::Side& side, std::int64_t rows, std::int64_t k, C* out) const {
    gemm::pack(side, rows, k, ops_.rows, out);
  }
  void pack_lanes(const gemm::Side& side, std::int64_t lanes, std::int64_t k, C* out) const {
    gemm::pack(side, lanes, k, width(), out);
  }
  void take_lanes(C*, std::int64_t) const {}
  Rows<C> part(const C* packed, std::int64_t first, std::int64_t depth, bool across) const {
    return {packed + first * (across ? ops_.rows : depth), depth};
  }
  void multiply(const Rows<C>& rows, std::int64_t count, const C* lanes, std::int64_t k, C* sums,
                bool continues) const {
    ops_.multiply({.a = rows.at,
                   .rows = count,
                   .b = lanes,
                   .b_step = width(),
                   .columns = width(),
                   .k = k,
                   .sums = sums,
                   .sums_step = width(),
                   .continues = continues,
                   .last = false,
                   .a_step = rows.step,
                   .a_row = rows.row,
                   .a_depth = rows.depth});
  }

  // Sums [count][columns], columns in whole vectors, plus values [count][width] times k rows that
  // lie `step` apart.
  int lanes() const { return ops_.lanes; }
  void multiply_back(const C* values, std::int64_t count, const C* rows, std::int64_t step,
                     std::int64_t columns, std::int64_t k, C* sums) const {
    for (std::int64_t at = 0; at < columns; at += width())
      ops_.multiply({.a = values,
                     .rows = count,
                     .b = rows + at,
                     .b_step = step,
                     .columns = static_cast<int>(std::min<std::int64_t>(width(), columns - at)),
                     .k = k,
                     .sums = sums + at,
                     .sums_step = columns,
                     .continues = true,
                     .last = false,
                     .a_row = width()});
  }

  int group_rows() const { return ops_.rows; }
  void copy_group(const Rows<C>& rows, std::int64_t first, std::int64_t count, std::int64_t k,
                  const C* lane, C* out) const {
    const bool packed = rows.depth != 0;  // [k][row of the group]
    const C* from = rows.at + (packed ? first * rows.depth : first);
    const std::int64_t step = packed ? ops_.rows : rows.step;
    for (std::int64_t i = 0; i < k; ++i)
      for (int r = 0; r < ops_.rows; ++r)
        out[i * ops_.rows + r] =
            lane[i * width()] == C(0) || r >= count - first ? C(0) : from[i * step + r];
  }

 private:
  const gemm::TileOps<C>& ops_ = gemm::tile_ops<C>();
};

// Numbers, and after them their exponents: 32 bits for each of the rows', 16 for the lanes'.
class TensorCoreProducts : public Products<TensorCoreProducts, float> {
 public:
  using C = float;

  static constexpr int kCut = 0;

  explicit TensorCoreProducts(Dtype element) : element_(element) {}
  int width() const { return ops_.columns; }
  std::int64_t row_words(std::int64_t rows, std::int64_t k) const { return 2 * rows * k; }
  static std::int64_t packed_rows(std::int64_t rows) { return rows; }
  std::int64_t lane_words(std::int64_t k) const { return k * width() * 3 / 2; }
  void pack_rows(const gemm::Side& side, std::int64_t rows, std::int64_t k, float* out) const {
    gemm::pack(side, rows, k, 1, out);
    ops_.prepare_a(element_, out, rows * k, reinterpret_cast<std::int32_t*>(out + rows * k));
  }
  void pack_lanes(const gemm::Side& side, std::int64_t lanes, std::int64_t k, float* out) const {
    gemm::pack(side, lanes, k, width(), out);
    prepare_lanes(out, k);
  }
  void take_lanes(float* values, std::int64_t k) const {
    const PortionOps& ops = portion_ops();
    const std::int64_t n = k * width();
    std::uint16_t halves[kPortion];
    for (std::int64_t i = 0; element_ != Dtype::f32 && i < n; i += kPortion) {
      const int count = static_cast<int>(std::min<std::int64_t>(kPortion, n - i));
      store_portion(ops, element_, halves, 0, 1, count, values + i);
      load_portion(ops, element_, halves, 0, 1, count, values + i);
    }
    prepare_lanes(values, k);
  }
  static Rows<C> part(const C* packed, std::int64_t, std::int64_t depth, bool) {
    return {packed, depth};
  }
  void multiply(const Rows<C>& rows, std::int64_t count, const float* lanes, std::int64_t k,
                float* sums, bool continues) const {
    ops_.multiply({.dtype = element_,
                   .a = rows.at,
                   .a_exponent = reinterpret_cast<const std::int32_t*>(rows.at + count * k),
                   .rows = count,
                   .b = lanes,
                   .b_exponent = reinterpret_cast<const std::int16_t*>(lanes + k * width()),
                   .k = k,
                   .sums = sums,
                   .continues = continues,
                   .last = false});
  }

  int group_rows() const { return kMostRows; }
  void copy_group(const Rows<C>& rows, std::int64_t first, std::int64_t count, std::int64_t k,
                  const float* lane, float* out) const {
    const std::int64_t n = std::min<std::int64_t>(kMostRows, count - first);
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t i = 0; i < k; ++i)
        out[r * k + i] = lane[i * width()] == 0 ? 0 : rows.at[(first + r) * k + i];
    ops_.prepare_a(element_, out, n * k, reinterpret_cast<std::int32_t*>(out + n * k));
  }

 private:
  void prepare_lanes(float* values, std::int64_t k) const {
    const std::int64_t n = k * width();
    ops_.prepare_b(element_, values, n, reinterpret_cast<std::int16_t*>(values + n));
  }

  Dtype element_;
  const gemm::TensorCoreOps& ops_ = gemm::tensor_core_ops();
};

}  // namespace planck::attention
