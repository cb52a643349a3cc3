// var and logsumexp of dense rows that a few warps hold: read once instead of twice.
#include "planck/math/exp.h"
#include "planck/ops/reduce/finish.h"
#include "planck/ops/reduce/held_rows.cuh"
#include "planck/ops/reduce/reduce_pass.h"

namespace planck {

namespace row_device {
namespace {

template <class T>
struct HeldArguments {
  RowShape shape;
  RowView<const T> in;
  T* out;
  AxisMap out_map;
  rm::Finish<Compute<T>> finish;
};

// Registers of a thread. logsumexp computes for half as long as it reads: fewer registers, and more
// blocks do one while others do the other. f32 [8192, 8192] on an H200: 79 us with 64, 72 with 48.
template <class T, RowWay kWay, bool kVar>
inline constexpr int kHeldRegisters = kVar || kWay != RowWay::dense || sizeof(T) == 8 ? 64
                                      : sizeof(T) == 4                                ? 48
                                                                                      : 32;

template <class T, RowWay kWay, bool kVar>
__global__ void __maxnreg__((kHeldRegisters<T, kWay, kVar>)) held_rows(const HeldArguments<T> a) {
  using R = RowOf<T, 1, kWay>;
  using C = typename R::C;
  __shared__ C sums[kMostWarps];
  R row(a.shape, &a.in);
  C parameter, sum;
  if constexpr (kVar) {
    __shared__ C squares[kMostWarps];
    parameter = row.sum(sums, [](const C(&x)[1], std::int64_t, int, int) { return x[0]; }) /
                static_cast<C>(a.finish.n);
    sum = row.sum(squares, [&](const C(&x)[1], std::int64_t, int, int) {
      return rm::square(x[0], parameter);
    });
  } else {
    __shared__ typename R::K keys[kMostWarps];
    bool near;
    parameter = row.largest(keys, near);
    sum = row.joined(exponentials(row, parameter, near, [](int, int, C) {}), sums);
  }
  if (row.leads())
    a.out[a.out_map.offset(row.row)] = reduce_device::stored<T>(a.finish.of_sum(sum, parameter));
}

template <class T>
Result<void> run_held(const Stream& stream, const reduce_device::ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  HeldArguments<T> a{};
  a.in.data = static_cast<const T*>(pass.x);
  a.in.rows = AxisMap::of(walk_of(l.kept, 0));
  a.in.elements = AxisMap::of(l.reduced);
  a.in.set_packs(l.length);
  a.shape = RowShape::make<T, 1>(l.groups, l.length, a.in.dense);
  a.out = static_cast<T*>(pass.out);
  a.out_map = AxisMap::of(walk_of(l.kept, 1));
  a.finish = rm::make_finish<Compute<T>>(pass.problem);
  const bool var = a.finish.kind == ReduceKind::var;
  return visit_way(a.shape.way, [&](auto way) {
    return launch(stream, "reduce held rows",
                  var ? held_rows<T, way(), true> : held_rows<T, way(), false>, a.shape.blocks(),
                  a.shape.threads(), a);
  });
}

}  // namespace
}  // namespace row_device

namespace reduce_device {

bool holds(const ReducePass& pass) {
  return !pass.layout.columns &&
         pass.layout.length <= row_device::kMostElements<float, 1, row_device::RowWay::held> &&
         pass.layout.length > 64;
}

Result<void> held_pass(const Stream& stream, const ReducePass& pass) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    return row_device::run_held<typename decltype(type)::type>(stream, pass);
  });
}

}  // namespace reduce_device
}  // namespace planck
