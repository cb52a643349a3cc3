// How a reduction lies in memory: kept axes in the order of the input's strides, reduced axes in
// row-major order.
#pragma once

#include "planck/loops/nest.h"
#include "planck/ops/reduce/reduce.problem.h"

namespace planck {

struct ReduceLayout {
  Nest kept;     // operands: x, out, and a second output where there is one
  Walk reduced;  // of x, from the offset of a kept element on
  std::int64_t groups = 1, length = 1;
  bool columns = false;  // the innermost kept axis is dense in x, the innermost reduced is not

  static ReduceLayout make(const ReduceProblem& p, const View& x, const View& out,
                           const View* second = nullptr) {
    ReduceLayout l;
    NestStrides kept_extent{}, reduced_extent{}, reduced_stride{};
    NestStrides kept_strides[3] = {};
    std::size_t kept_rank = 0, reduced_rank = 0;
    for (int d = 0; d < p.shape.rank(); ++d) {
      if (p.reduces(d)) {
        reduced_extent[reduced_rank] = p.shape[d];
        reduced_stride[reduced_rank++] = x.strides[d];
        l.length *= p.shape[d];
      } else {
        kept_extent[kept_rank] = p.shape[d];
        kept_strides[0][kept_rank] = x.strides[d];
        kept_strides[1][kept_rank] = out.strides[d];
        if (second != nullptr) kept_strides[2][kept_rank] = second->strides[d];
        ++kept_rank;
        l.groups *= p.shape[d];
      }
    }
    l.kept = make_nest(static_cast<int>(kept_rank), kept_extent,
                       std::span<const NestStrides>(kept_strides, second == nullptr ? 2 : 3));
    if (l.groups > 0) sort_by(l.kept, 0);
    collapse(l.kept);
    const Nest inner =
        make_nest(static_cast<int>(reduced_rank), reduced_extent, {&reduced_stride, 1});
    l.reduced = walk_of(inner, 0);
    const auto last = static_cast<std::size_t>(l.kept.rank - 1);
    const bool dense_rows = l.reduced.stride[static_cast<std::size_t>(l.reduced.rank - 1)] == 1;
    l.columns =
        l.kept.stride[0][last] == 1 && l.kept.extent[last] > 1 && (!dense_rows || l.length == 1);
    return l;
  }
  std::int64_t inner() const { return kept.extent[static_cast<std::size_t>(kept.rank - 1)]; }

  // x as positions group * length + element.
  Walk positions() const {
    Nest all = kept;
    all.operands = 1;
    for (int d = 0; d < reduced.rank; ++d) {
      const auto to = static_cast<std::size_t>(all.rank++), from = static_cast<std::size_t>(d);
      all.extent[to] = reduced.extent[from];
      all.stride[0][to] = reduced.stride[from];
    }
    return walk_of(all, 0);
  }
};

}  // namespace planck
