// The groups of a portion on the CPU: scale and zero point of each element, and what follows from
// them.
#pragma once

#include <bit>

#include "planck/loops/cpu/map.h"
#include "planck/loops/cpu/positions.h"
#include "planck/ops/quantize/cpu/portions.h"
#include "planck/ops/quantize/quantize.problem.h"

namespace planck {

template <class C>
class GroupLoader {
 public:
  // zero_point may be null: all zero.
  GroupLoader(const MapOperand& scale, const MapOperand* zero_point, const GroupNeeds& needs)
      : scale_(scale), zero_point_(zero_point), needs_(needs), run_(run_of(scale.walk)) {
    if (zero_point != nullptr && run_of(zero_point->walk) != run_) run_ = 0;
  }

  // Loads the groups of the first positions of [begin, begin + n) and returns how many positions
  // that covers: those of one group where groups are long. `pairs`: never an odd number.
  int load_some(std::int64_t begin, int n, bool pairs) {
    if (begin < one_begin_ || begin >= one_end_) {
      one_begin_ = one_end_ = 0;
      const Walk& w = scale_.walk;
      const auto last = static_cast<std::size_t>(w.rank - 1);
      const std::int64_t length = w.rank == 1 ? INT64_MAX : w.extent[last];
      constexpr std::int64_t kWorthIt = 128;
      const bool long_groups = run_ == 0 && w.stride[last] == 0 && length >= kWorthIt &&
                               (!pairs || w.rank == 1 || length % 2 == 0) &&
                               (zero_point_ == nullptr || shares_groups(zero_point_->walk));
      if (!long_groups) {
        const bool whole_runs = run_ > 0 && begin % run_ == 0 && n % run_ == 0;
        const int count = std::min(n, whole_runs ? kPortion * run_ : kPortion);
        load(begin, count);
        return count;
      }
      one_begin_ = w.rank == 1 ? 0 : begin - begin % length;
      one_end_ = w.rank == 1 ? INT64_MAX : one_begin_ + length;
      load(begin, 1);
    }
    return static_cast<int>(std::min<std::int64_t>(n, one_end_ - begin));
  }
  const PortionGroups<C>& groups() const { return table_.groups; }

  // Whether positions [begin, begin + n) have one group or are whole runs. load() then takes more
  // than a portion.
  bool in_runs(std::int64_t begin, int n) const {
    if (run_ > 0 && begin % run_ == 0 && n % run_ == 0) return n / run_ <= kPortion;
    return one_entry(scale_.walk, begin, n) &&
           (zero_point_ == nullptr || one_entry(zero_point_->walk, begin, n));
  }

  // The groups of positions [begin, begin + n). `key` ≥ 0 names the range; the range of the last
  // call is not loaded again.
  const PortionGroups<C>& load(std::int64_t begin, int n, std::int64_t key = -1) {
    if (key >= 0 && key == key_ && n == key_count_) return table_.groups;
    key_ = key;
    key_count_ = n;
    int count;  // groups
    auto layout = GroupLayout::runs;
    if (run_ > 0 && begin % run_ == 0 && n % run_ == 0) {
      count = n / run_;
      gather(scale_, without_last(scale_.walk), begin / run_, count, table_.scale);
      if (zero_point_ != nullptr)
        gather(*zero_point_, without_last(zero_point_->walk), begin / run_, count,
               table_.zero_point);
    } else {
      const bool one = one_entry(scale_.walk, begin, n) &&
                       (zero_point_ == nullptr || one_entry(zero_point_->walk, begin, n));
      layout = one ? GroupLayout::one : GroupLayout::each;
      count = one ? 1 : n;
      gather(scale_, scale_.walk, begin, count, table_.scale);
      if (zero_point_ != nullptr)
        gather(*zero_point_, zero_point_->walk, begin, count, table_.zero_point);
    }
    if (zero_point_ == nullptr) std::fill_n(table_.zero_point, count, 0);
    const int shift = run_ > 0 ? std::countr_zero(static_cast<unsigned>(run_)) : 0;
    table_.prepare(count, layout, shift, needs_);
    return table_.groups;
  }

  // The groups of the rows of a tile, one each: entries `first + r · step` of scale and zero point;
  // or, with layout `each`, those of the elements of every row.
  void load_rows(std::int64_t scale_first, std::int64_t scale_step, std::int64_t zero_first,
                 std::int64_t zero_step, int rows, GroupLayout layout = GroupLayout::one) {
    static_assert(Map::kMostTileRows <= GroupTable<C>::kCapacity);
    key_ = -1;
    one_begin_ = one_end_ = 0;
    load_portion(portion_ops(), scale_.dtype, scale_.base, scale_first, scale_step, rows,
                 table_.scale);
    if (zero_point_ != nullptr)
      portion_ops().load_i32(zero_point_->base, zero_first, zero_step, rows, table_.zero_point);
    else
      std::fill_n(table_.zero_point, rows, 0);
    table_.prepare(rows, layout, 0, needs_, layout == GroupLayout::one ? 1 : 0);
  }

 private:
  // The length of the runs that share a group, where portions consist of whole runs; else 0.
  static int run_of(const Walk& w) {
    const auto last = static_cast<std::size_t>(w.rank - 1);
    const std::int64_t run = w.extent[last];
    const bool fits = w.rank > 1 && w.stride[last] == 0 && run >= kChunk / 2 && run < kPortion;
    return fits && std::has_single_bit(static_cast<std::uint64_t>(run)) ? static_cast<int>(run) : 0;
  }
  // Whether an operand changes only where the scale may.
  bool shares_groups(const Walk& w) const {
    const Walk& s = scale_.walk;
    const auto last = static_cast<std::size_t>(w.rank - 1);
    if (w.stride[last] != 0) return false;
    return w.rank == 1 ||
           (s.rank > 1 && w.extent[last] == s.extent[static_cast<std::size_t>(s.rank - 1)]);
  }
  static Walk without_last(Walk w) {
    --w.rank;
    return w;
  }
  static bool one_entry(const Walk& w, std::int64_t begin, int n) {
    bool one = true;
    w.runs(begin, n, [&](std::int64_t, std::int64_t stride, std::int64_t length) {
      one &= length == n && (stride == 0 || n == 1);
    });
    return one;
  }
  template <class T>
  static void gather(const MapOperand& from, const Walk& walk, std::int64_t begin, int n, T* to) {
    walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      const int count = static_cast<int>(length);
      if constexpr (std::is_same_v<T, std::int32_t>)
        portion_ops().load_i32(from.base, offset, stride, count, to);
      else
        load_portion(portion_ops(), from.dtype, from.base, offset, stride, count, to);
      to += count;
    });
  }

  const MapOperand& scale_;
  const MapOperand* zero_point_;
  GroupNeeds needs_;
  int run_;
  std::int64_t key_ = -1;
  int key_count_ = 0;
  std::int64_t one_begin_ = 0, one_end_ = 0;  // positions of the one group that is loaded
  GroupTable<C> table_;
};

// Nest and operands of a problem: first `elements`, of the tensor's shape, then `groups`, with one
// entry per group.
struct QuantNest {
  Nest nest;
  std::array<View, kMaxNestOperands> views;
};
GroupNeeds group_needs(const QuantProblem& p);
QuantNest quant_nest(const QuantProblem& p, std::initializer_list<const View*> elements,
                     std::initializer_list<const View*> groups);

// A view of group_shape() in row-major order of the groups.
Walk group_walk(const QuantProblem& p, const View& v);

}  // namespace planck
