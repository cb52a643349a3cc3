#include "tests/reference/index.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace planck {

namespace {

// Where position p of a tensor is before, on and behind an axis.
struct Place {
  std::int64_t before, on, behind;
};
struct Cut {
  Cut(const Shape& shape, int axis) : extent(shape[axis]) {
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  }
  std::int64_t at(const Place& p) const { return (p.before * extent + p.on) * inner + p.behind; }
  std::int64_t extent, inner = 1;
};

ReferenceValues zeros(Dtype dtype, const Shape& shape) {
  return {dtype, shape, std::vector<double>(static_cast<std::size_t>(numel(shape)), 0)};
}
ReferenceValues number(double value) { return {Dtype::i64, {}, {value}}; }

std::size_t flat(const Extents& i, const Shape& shape) {
  std::int64_t at = 0;
  for (int d = 0; d < shape.rank(); ++d) at = at * shape[d] + i[d];
  return static_cast<std::size_t>(at);
}

}  // namespace

ReferenceOutputs index_by_axis(IndexKind kind, int axis, const Shape& shape,
                               const ReferenceValues* x, const ReferenceValues& index,
                               const ReferenceValues* source) {
  const bool slices = kind == IndexKind::index_select || kind == IndexKind::index_add;
  Shape items = slices ? shape : index.shape;
  if (slices) items[axis] = index.shape[0];
  const Dtype dtype = x != nullptr ? x->dtype : source->dtype;
  ReferenceValues y = source == nullptr ? zeros(dtype, items)
                      : x != nullptr    ? *x
                                        : zeros(dtype, shape);
  y.shape = source == nullptr ? items : shape;
  double bad = 0;
  for (double a : index.at) bad += a < 0 || a >= static_cast<double>(shape[axis]);
  Extents i = Extents::filled(items.rank(), 0);
  for (std::int64_t p = 0; p < numel(items); ++p) {
    Extents to = i;
    const auto item = static_cast<std::size_t>(p);
    const double chosen = index.at[slices ? static_cast<std::size_t>(i[axis]) : item];
    const bool wrong = chosen < 0 || chosen >= static_cast<double>(shape[axis]);
    if (!wrong) to[axis] = static_cast<std::int64_t>(chosen);
    if (!wrong && source == nullptr) y.at[item] = x->at[flat(to, shape)];
    if (!wrong && source != nullptr) {
      double& element = y.at[flat(to, shape)];
      element = kind == IndexKind::scatter ? source->at[item] : element + source->at[item];
    }
    for (int d = items.rank() - 1; d >= 0; --d) {
      if (++i[d] < items[d]) break;
      i[d] = 0;
    }
  }
  return {y, number(bad)};
}

ReferenceOutputs index_by_mask(IndexKind kind, const ReferenceValues* x,
                               const ReferenceValues& mask, const ReferenceValues* values) {
  std::size_t count = 0;
  const std::size_t n = mask.at.size();
  if (kind == IndexKind::mask_scatter) {
    ReferenceValues y = x != nullptr ? *x : zeros(values->dtype, mask.shape);
    for (std::size_t p = 0; p < n; ++p)
      if (mask.at[p] != 0) y.at[p] = values->at[count++];
    return {y};
  }
  const bool lists = kind == IndexKind::nonzero;
  ReferenceValues y{lists ? Dtype::i64 : x->dtype,
                    {static_cast<std::int64_t>(n)},
                    std::vector<double>(n, lists ? -1 : 0)};
  for (std::size_t p = 0; p < n; ++p)
    if (mask.at[p] != 0) y.at[count++] = lists ? static_cast<double>(p) : x->at[p];
  return {y, number(static_cast<double>(count))};
}

ReferenceOutputs one_hot(const ReferenceValues& index, std::int64_t classes, Dtype dtype) {
  ReferenceValues y{dtype, index.shape, {}};
  y.shape.push_back(classes);
  double bad = 0;
  for (double a : index.at) {
    bad += a < 0 || a >= static_cast<double>(classes);
    for (std::int64_t c = 0; c < classes; ++c) y.at.push_back(a == static_cast<double>(c));
  }
  return {y, number(bad)};
}

ReferenceOutputs sorted(const ReferenceValues& x, int axis, bool descending, std::int64_t kept) {
  Shape shape = x.shape;
  shape[axis] = kept;
  ReferenceValues values = zeros(x.dtype, shape), indices = zeros(Dtype::i64, shape);
  const Cut from(x.shape, axis), to(shape, axis);
  const std::int64_t lines = x.at.empty() ? 0 : numel(x.shape) / from.extent;
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  for (std::int64_t line = 0; line < lines; ++line) {
    Place p{line / from.inner, 0, line % from.inner};
    const auto element = [&](std::int64_t k) {
      return x.at[static_cast<std::size_t>(from.at({p.before, k, p.behind}))];
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(from.extent));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return descending ? less(element(b), element(a)) : less(element(a), element(b));
    });
    for (std::int64_t k = 0; k < kept; ++k) {
      const auto place = static_cast<std::size_t>(to.at({p.before, k, p.behind}));
      const std::int64_t chosen = order[static_cast<std::size_t>(k)];
      values.at[place] = element(chosen);
      indices.at[place] = static_cast<double>(chosen);
    }
  }
  return {values, indices};
}

}  // namespace planck
