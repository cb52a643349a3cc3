// Operands of attention as the passes of the CPU read them: blocks of 128 rows of k, v, q and dy,
// packed once for all panels of a head, and the panels' masks and limits.
#pragma once

#include <algorithm>
#include <cmath>

#include "planck/ops/attention/attention.math.h"
#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/attention/cpu/products.h"

namespace planck::attention {

inline constexpr int kRows = attention_math::kBlock;  // of a packed block

// Rows of a block that take part.
struct BlockPart {
  std::int64_t block, first, rows;  // the first counts from the block's
  std::int64_t row() const { return block * kRows + first; }
};

inline gemm::Side side_of(const View& x, std::int64_t n, std::int64_t head, std::int64_t row) {
  return {x.data, x.dtype, n * x.strides[0] + head * x.strides[1] + row * x.strides[2],
          x.strides[2], x.strides[3]};
}

// The rows of all heads of x that belong to one head of k. Across: rows are what is summed over. In
// place, where products can: nothing is packed but whether numbers are finite.
template <class P>
class PackedOperand {
 public:
  using C = typename P::C;

  PackedOperand(const P& products, const View& x, std::int64_t heads, bool across,
                bool in_place = false)
      : products_(products),
        x_(x),
        heads_(heads),
        across_(across),
        in_place_(in_place && readable(x)) {}

  // Whether rows can be read in place.
  static bool readable(const View& x) {
    return P::kCut != 0 && x.dtype == dtype_of<C> && x.strides[3] == 1;
  }

  std::int64_t blocks() const { return (x_.shape[2] + kRows - 1) / kRows; }
  std::int64_t words() const { return heads_ * blocks() * block_words(); }  // of one head of k
  std::int64_t tasks() const { return heads_ * blocks(); }
  std::int64_t rows(std::int64_t block) const {
    return std::min<std::int64_t>(kRows, x_.shape[2] - block * kRows);
  }
  // Those that lanes need which see rows from ... to - 1; what is left out is hidden from them all.
  BlockPart part(std::int64_t at, std::int64_t from, std::int64_t to) const {
    const std::int64_t count = rows(at), start = at * kRows;
    if constexpr (P::kCut == 0) {
      return {at, 0, count};
    } else {
      const std::int64_t first = std::max<std::int64_t>(from - start, 0) / P::kCut * P::kCut;
      return {at, first, std::min(count, to - start) - first};
    }
  }
  // Head `head` of `group`.
  Rows<C> from(const C* base, std::int64_t n, std::int64_t group, std::int64_t head,
               const BlockPart& p) const {
    if (!in_place_)
      return products_.part(block(base, head, p.block), p.first,
                            across_ ? rows(p.block) : x_.shape[3], across_);
    const gemm::Side side = side_of(x_, n, group * heads_ + head, p.row());
    const C* const at = static_cast<const C*>(side.data) + side.offset;
    return across_ ? Rows<C>{at, 0, 0, side.along} : Rows<C>{at, 0, side.along, 0};
  }
  // Of a block that lies across: whether all numbers are finite.
  bool finite(const C* base, std::int64_t head, std::int64_t at) const {
    return block(base, head, at)[block_words() - 1] != C(0);
  }

  void pack(C* base, std::int64_t n, std::int64_t group, std::int64_t task) const {
    const std::int64_t at = task % blocks(), width = x_.shape[3], count = rows(at);
    gemm::Side side = side_of(x_, n, group * heads_ + task / blocks(), at * kRows);
    C* const out = base + task * block_words();
    bool all = true;
    if (in_place_ && across_) {
      const C* const from = static_cast<const C*>(side.data) + side.offset;
      all = score_loops<C>().finite(from, width, count, side.along);
    } else if (!in_place_ && !across_) {
      products_.pack_rows(side, count, width, out);
    } else if (!in_place_) {
      std::swap(side.along, side.depth);
      products_.pack_rows(side, width, count, out);
      all = score_loops<C>().finite(out, products_.packed_rows(width) * count, 1, 0);
    }
    if (across_) out[block_words() - 1] = all ? C(1) : C(0);
  }

 private:
  const C* block(const C* base, std::int64_t head, std::int64_t block) const {
    return base + (head * blocks() + block) * block_words();
  }
  std::int64_t block_words() const {  // and room for `finite`
    if (in_place_) return 16;
    const std::int64_t width = x_.shape[3];
    const std::int64_t most = std::min<std::int64_t>(kRows, x_.shape[2]);
    return products_.row_words(across_ ? width : most, across_ ? most : width) / 16 * 16 + 32;
  }

  const P& products_;
  const View& x_;
  std::int64_t heads_;
  bool across_, in_place_;
};

// Which rows of a block the lanes of a panel see: lane w sees first[w] ... end[w] - 1.
struct Limits {
  std::int32_t first[kMostLanes], end[kMostLanes];
  bool any_hidden;
};
template <class SeenBy>
Limits limits_of(int width, std::int64_t lanes, std::int64_t row, std::int64_t rows,
                 const SeenBy& seen_by) {
  Limits l;
  l.any_hidden = false;
  for (int w = 0; w < width; ++w) {
    auto [first, end] = w < lanes ? seen_by(w) : std::pair<std::int64_t, std::int64_t>(0, 0);
    l.first[w] = static_cast<std::int32_t>(std::clamp<std::int64_t>(first - row, 0, rows));
    l.end[w] = static_cast<std::int32_t>(std::clamp<std::int64_t>(end - row, 0, rows));
    l.any_hidden |= w < lanes && (l.first[w] > 0 || l.end[w] < rows);
  }
  return l;
}

// Where a block of scores is. Axes: 2 queries, 3 keys; `lane_axis` is that of the lanes.
struct BlockPlace {
  std::int64_t n, head;
  int lane_axis;
  std::int64_t lane, lanes, row, rows;  // the first, and how many
};

// The mask of a block as what is added to scores, [rows][width].
template <class C>
void mask_of_block(const View& mask, const BlockPlace& b, int width, C* out) {
  const int row_axis = 5 - b.lane_axis;
  const std::int64_t step = mask.strides[b.lane_axis], lanes = b.lanes;
  for (std::int64_t r = 0; r < b.rows; ++r, out += width) {
    const std::int64_t at = b.n * mask.strides[0] + b.head * mask.strides[1] +
                            (b.row + r) * mask.strides[row_axis] + b.lane * step;
    if (mask.dtype != Dtype::boolean) {
      load_portion(portion_ops(), mask.dtype, mask.data, at, step, static_cast<int>(lanes), out);
    } else {
      const auto* from = static_cast<const std::uint8_t*>(mask.data) + at;
      for (std::int64_t w = 0; w < lanes; ++w)
        out[w] = from[w * step] != 0 ? -math::infinity_of(C(0)) : C(0);
    }
    std::fill(out + lanes, out + width, C(0));
  }
}

// Room of a task, on its stack; sums [row][lane] of one panel.
inline constexpr std::int64_t kLaneBytes = 6 * kMostLanes;  // of one k
template <class C>
struct Lanes {
  alignas(64) C at[kMostHeadWidth * kLaneBytes / sizeof(C)];
};
template <class C>
struct Scores {
  alignas(64) C at[kRows * kLaneBytes / sizeof(C)];
};
template <class C>
struct Sums {
  alignas(64) C at[kMostHeadWidth * kMostLanes * 4 / sizeof(C)];
};

// Sums [width of a head][lane], times the lane's factor, to rows of an output; changes the sums.
template <class C>
void store_panel(const View& out, std::int64_t n, std::int64_t head, std::int64_t first,
                 std::int64_t lanes, int width, C* sums, const C* factor) {
  alignas(64) C rows[kMostLanes * kMostHeadWidth];
  const auto columns = static_cast<int>(out.shape[3]);
  score_loops<C>().finish(sums, columns, width, factor);
  portion_ops().load_tile(dtype_of<C>, sums, 0, width, static_cast<int>(lanes), columns, rows,
                          columns);
  for (std::int64_t w = 0; w < lanes; ++w)
    store_portion(portion_ops(), out.dtype, out.data,
                  n * out.strides[0] + head * out.strides[1] + (first + w) * out.strides[2],
                  out.strides[3], columns, rows + w * columns);
}

}  // namespace planck::attention
