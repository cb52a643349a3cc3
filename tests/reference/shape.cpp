#include "tests/reference/shape.h"

#include <algorithm>

#include "planck/core/exception.h"

namespace planck {

namespace {

using Index = std::vector<std::int64_t>;

// Refuses what the op refuses.
template <ViewOp Op>
void check(const Op& op, const ReferenceInputs& in) {
  double none = 0;
  const Shape& shape = in[0]->shape;
  value_or_throw(op.view(View{&none, Dtype::f64, shape, row_major(shape), true}));
}
template <AssemblyOp Op>
void check(const Op& op, const ReferenceInputs& in) {
  value_or_throw(op.assembly(specs_of(in)));
}

double element(const ReferenceValues& x, const Index& at) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < at.size(); ++d) place = place * x.shape[static_cast<int>(d)] + at[d];
  return x.at[static_cast<std::size_t>(place)];
}

// A tensor of this shape whose element at each index is f(index).
template <class F>
ReferenceOutputs made(Dtype dtype, const Shape& shape, const F& f) {
  ReferenceValues y{dtype, shape, {}};
  const std::int64_t count = numel(shape);
  for (std::int64_t n = 0; n < count; ++n) {
    Index at(static_cast<std::size_t>(shape.rank()));
    std::int64_t rest = n;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      at[static_cast<std::size_t>(d)] = rest % shape[d];
      rest /= shape[d];
    }
    y.at.push_back(f(at));
  }
  return {y};
}

std::size_t from_front(std::int64_t axis, int rank) {
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

// The positions of x[start:stop:step], as Python walks them.
Index positions(const SliceAxis& s, std::int64_t extent) {
  const auto place = [&](__int128 i) {
    if (i < 0) i += extent;
    return s.step > 0 ? std::clamp<__int128>(i, 0, extent)
                      : std::clamp<__int128>(i, -1, extent - 1);
  };
  const bool to_the_front = s.step < 0 && s.stop == INT64_MAX;
  const __int128 stop = to_the_front ? -1 : place(s.stop);
  Index found;
  for (__int128 i = place(s.start); s.step > 0 ? i < stop : i > stop; i += s.step)
    found.push_back(static_cast<std::int64_t>(i));
  return found;
}

// The positions of one axis of a Slice.
Index positions(const Slice& s, int axis) {
  Index found;
  for (std::int64_t k = 0; k < s.extent[axis]; ++k)
    found.push_back(s.start[axis] + k * s.step[axis]);
  return found;
}

// x at these positions of each axis.
ReferenceOutputs taken(const ReferenceValues& x, const std::vector<Index>& at) {
  Shape shape;
  for (const Index& of : at) shape.push_back(static_cast<std::int64_t>(of.size()));
  return made(x.dtype, shape, [&](Index i) {
    for (std::size_t d = 0; d < i.size(); ++d) i[d] = at[d][static_cast<std::size_t>(i[d])];
    return element(x, i);
  });
}
// x with values there.
ReferenceOutputs replaced(const ReferenceValues& x, const ReferenceValues& values,
                          const std::vector<Index>& at) {
  return made(x.dtype, x.shape, [&](const Index& i) {
    Index of(i.size());
    for (std::size_t d = 0; d < i.size(); ++d) {
      const auto found = std::find(at[d].begin(), at[d].end(), i[d]);
      if (found == at[d].end()) return element(x, i);
      of[d] = found - at[d].begin();
    }
    return element(values, of);
  });
}

std::vector<Index> all_positions(const Shape& shape) {
  std::vector<Index> at;
  for (std::int64_t extent : shape) at.push_back(positions(SliceAxis{}, extent));
  return at;
}
std::vector<Index> all_positions(const SliceAxis& s, const Shape& shape) {
  auto at = all_positions(shape);
  const std::size_t d = from_front(s.axis, shape.rank());
  at[d] = positions(s, shape[static_cast<int>(d)]);
  return at;
}
std::vector<Index> all_positions(const Slice& s) {
  std::vector<Index> at;
  for (int d = 0; d < s.start.rank(); ++d) at.push_back(positions(s, d));
  return at;
}

}  // namespace

ReferenceOutputs evaluate(const Reshape& op, const ReferenceInputs& in) {
  check(op, in);
  ReferenceValues y = *in[0];
  y.shape = op.shape;
  for (int d = 0; d < y.shape.rank(); ++d)
    while (y.shape[d] < 0 || (op.shape[d] < 0 && numel(y.shape) < numel(in[0]->shape)))
      ++y.shape[d];
  return {y};
}
ReferenceOutputs evaluate(const Permute& op, const ReferenceInputs& in) {
  check(op, in);
  const ReferenceValues& x = *in[0];
  Shape shape;
  for (std::int64_t a : op.axes)
    shape.push_back(x.shape[static_cast<int>(from_front(a, x.shape.rank()))]);
  return made(x.dtype, shape, [&](const Index& i) {
    Index of(i.size());
    for (std::size_t d = 0; d < i.size(); ++d)
      of[from_front(op.axes[static_cast<int>(d)], x.shape.rank())] = i[d];
    return element(x, of);
  });
}
ReferenceOutputs evaluate(const Expand& op, const ReferenceInputs& in) {
  check(op, in);
  const ReferenceValues& x = *in[0];
  return made(x.dtype, op.shape, [&](const Index& i) {
    const auto rank = static_cast<std::size_t>(x.shape.rank());
    Index of(i.end() - static_cast<std::ptrdiff_t>(rank), i.end());
    for (std::size_t d = 0; d < rank; ++d)
      if (x.shape[static_cast<int>(d)] == 1) of[d] = 0;
    return element(x, of);
  });
}
ReferenceOutputs evaluate(const SliceAxis& op, const ReferenceInputs& in) {
  check(op, in);
  return taken(*in[0], all_positions(op, in[0]->shape));
}
ReferenceOutputs evaluate(const SliceAxes& op, const ReferenceInputs& in) {
  check(op, in);
  return taken(*in[0], all_positions(op.slice));
}
ReferenceOutputs evaluate(const Flip& op, const ReferenceInputs& in) {
  check(op, in);
  auto at = all_positions(in[0]->shape);
  for (std::size_t d = 0; d < at.size(); ++d)
    if (op.axes >> d & 1u) std::reverse(at[d].begin(), at[d].end());
  return taken(*in[0], at);
}
ReferenceOutputs evaluate(const Cat& op, const ReferenceInputs& in) {
  check(op, in);
  Shape shape = in[0]->shape;
  const std::size_t axis = from_front(op.axis, shape.rank());
  const auto extent = [&](const ReferenceValues& x) { return x.shape[static_cast<int>(axis)]; };
  for (std::size_t k = 1; k < in.size(); ++k) shape[static_cast<int>(axis)] += extent(*in[k]);
  return made(in[0]->dtype, shape, [&](Index i) {
    std::size_t k = 0;
    while (i[axis] >= extent(*in[k])) i[axis] -= extent(*in[k++]);
    return element(*in[k], i);
  });
}
ReferenceOutputs evaluate(const Pad& op, const ReferenceInputs& in) {
  check(op, in);
  const ReferenceValues& x = *in[0];
  Shape shape = x.shape;
  for (int d = 0; d < shape.rank(); ++d) shape[d] += op.before[d] + op.after[d];
  return made(x.dtype, shape, [&](Index i) {
    for (std::size_t d = 0; d < i.size(); ++d) {
      i[d] -= op.before[static_cast<int>(d)];
      if (i[d] < 0 || i[d] >= x.shape[static_cast<int>(d)]) return op.value.number;
    }
    return element(x, i);
  });
}
ReferenceOutputs evaluate(const SliceAssign& op, const ReferenceInputs& in) {
  check(op, in);
  return replaced(*in[0], *in[1], all_positions(op.slice, in[0]->shape));
}
ReferenceOutputs evaluate(const SliceAxesAssign& op, const ReferenceInputs& in) {
  check(op, in);
  return replaced(*in[0], *in[1], all_positions(op.slice));
}

}  // namespace planck
