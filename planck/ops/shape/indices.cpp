#include "planck/ops/shape/indices.h"

#include <algorithm>

#include "planck/core/refuse.h"
#include "planck/ops/shape/shape.ops.h"

namespace planck {

namespace {

template <std::size_t... I>
std::array<Index, sizeof...(I)> nothing(std::index_sequence<I...>) {
  return {((void)I, Index(kAll))...};
}

// first, count and step of a range on an axis.
SliceAxis::Span span_of(const Range& range, std::int64_t extent) {
  SliceAxis s{0, range.start, range.stop, range.step};
  if (range.start == Range::kEnd) s.start = range.step > 0 ? 0 : -1;
  return s.span(extent);
}

}  // namespace

Indices::Indices(std::initializer_list<Index> list)
    : list_(nothing(std::make_index_sequence<kMost>{})), count_(static_cast<int>(list.size())) {
  if (list.size() > kMost) refuse("index: {} indices, at most {}", {count_, kMost});
  std::copy(list.begin(), list.end(), list_.begin());
}

Subscript Indices::of(const Shape& shape) const {
  int axes = 0, rests = 0, fresh = 0;
  for (int k = 0; k < count_; ++k) {
    const Index::Kind kind = list_[static_cast<std::size_t>(k)].kind();
    axes += kind == Index::Kind::position || kind == Index::Kind::range;
    rests += kind == Index::Kind::rest;
    fresh += kind == Index::Kind::fresh;
  }
  if (axes > shape.rank()) refuse("index: {} indices for a tensor of shape {}", {axes, shape});
  if (rests > 1) refuse("index: kRest stands {} times, at most once", {rests});
  Subscript s{{Extents::filled(shape.rank(), 0), shape, Extents::filled(shape.rank(), 1)}, {}};
  int d = 0;
  const auto see = [&](std::int64_t extent) {
    if (s.shape.rank() == kMaxRank)
      refuse("index: {} new axes for a tensor of shape {}: at most {} in all",
             {fresh, shape, kMaxRank});
    s.shape.push_back(extent);
  };
  const auto whole = [&](int count) {
    for (; count > 0; --count) see(shape[d++]);
  };
  for (int k = 0; k < count_; ++k) {
    const Index& index = list_[static_cast<std::size_t>(k)];
    switch (index.kind()) {
      case Index::Kind::position: {
        const std::int64_t extent = shape[d], given = index.position();
        const std::int64_t i = given < 0 ? given + extent : given;
        if (i < 0 || i >= extent)
          refuse("index: position {} of axis {}, which has extent {}", {given, d, extent});
        s.slice.start[d] = i;
        s.slice.extent[d++] = 1;
        break;
      }
      case Index::Kind::range: {
        if (index.range().step == 0) refuse("index: the step along axis {} is 0", {d});
        const auto [first, count, step] = span_of(index.range(), shape[d]);
        s.slice.start[d] = first;
        s.slice.extent[d] = count;
        s.slice.step[d++] = step;
        see(count);
        break;
      }
      case Index::Kind::rest:
        whole(shape.rank() - axes);
        break;
      case Index::Kind::fresh:
        see(1);
    }
  }
  whole(shape.rank() - d);
  return s;
}

}  // namespace planck
