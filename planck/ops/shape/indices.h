// Which elements x[…] means, as in NumPy:
//
//   x[2]  x[-1]                 one position, and its axis gone; negative counts from the end
//   x[Range{1, 3}]              positions 1 and 2;  Range{.start = 1}  Range{.stop = -1}
//   x[Range{.step = -1}]        all, reversed; ends beyond the axis are cut to it
//   x[{0, kAll, Range{0, 2}}]   one index for each axis, from the first; axes left out stay whole
//   x[{kRest, 0}]               of the last axis; kRest stands for all axes between
//   x[{kAll, kNewAxis}]         a new axis of extent 1
//
// A position that the axis does not have is an error, and so are more indices than axes. What is
// assigned to is named by one list: x[{0, 1}] = y, not x[0][1] = y, which does not compile.
#pragma once

#include <initializer_list>
#include <string_view>

#include "planck/plan/value_op.h"

namespace planck {

// Positions start, start + step, … before stop. Left out: from one end to the other.
struct Range {
  static constexpr std::int64_t kEnd = INT64_MAX;
  std::int64_t start = kEnd, stop = kEnd, step = 1;
};

struct AllPositions {};
struct RestOfAxes {};
struct NewAxis {};
inline constexpr AllPositions kAll{};
inline constexpr RestOfAxes kRest{};
inline constexpr NewAxis kNewAxis{};

// One of an index list.
class Index {
 public:
  enum class Kind : std::uint8_t { position, range, rest, fresh };

  template <std::integral T>
  constexpr Index(T position)
      : kind_(Kind::position), range_{static_cast<std::int64_t>(position)} {}
  constexpr Index(const Range& range) : kind_(Kind::range), range_(range) {}
  constexpr Index(AllPositions) : kind_(Kind::range) {}
  constexpr Index(RestOfAxes) : kind_(Kind::rest) {}
  constexpr Index(NewAxis) : kind_(Kind::fresh) {}

  constexpr Kind kind() const { return kind_; }
  constexpr std::int64_t position() const { return range_.start; }
  constexpr const Range& range() const { return range_; }

 private:
  Kind kind_;
  Range range_;
};

// What an index list means for a tensor: a slice of every axis, and the shape it is seen in.
struct Subscript {
  Slice slice;
  Shape shape;
};

class Indices {
 public:
  Indices(std::initializer_list<Index> list);
  template <class T>
  requires std::constructible_from<Index, T> Indices(const T& one) : Indices({Index(one)}) {}

  // Throws where the tensor has no such elements.
  Subscript of(const Shape& shape) const;

 private:
  static constexpr int kMost = 2 * kMaxRank;  // as many new axes as old ones
  std::array<Index, kMost> list_;
  int count_ = 0;
};

}  // namespace planck
