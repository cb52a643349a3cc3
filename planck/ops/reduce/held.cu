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

template <class T>
__global__ void __launch_bounds__(1024) held_rows(const HeldArguments<T> a) {
  using C = Compute<T>;
  using K = rm::KeyOf<C>;
  __shared__ C shared[kMostWarps];
  __shared__ K keys[kMostWarps];
  Row<T, 1, true> row(a.shape, &a.in);
  C parameter, sum;
  if (a.finish.kind == ReduceKind::var) {
    parameter = row.template join<rm::Add, C>(shared, [](C(&x)[1], std::int64_t, int) {
      return x[0];
    }) / static_cast<C>(a.finish.n);
    sum = row.template join<rm::Add, C>(
        shared, [&](C(&x)[1], std::int64_t, int) { return rm::square(x[0], parameter); });
  } else {
    parameter = rm::value_of<C>(
        row.template join<rm::Largest, K>(
            keys, [](C(&x)[1], std::int64_t, int) { return rm::key_of(x[0], K(0)); }),
        K(0));
    sum = row.template join<rm::Add, C>(
        shared, [&](C(&x)[1], std::int64_t, int) { return math::exp(x[0] - parameter); });
  }
  if (row.leads())
    a.out[a.out_map.offset(row.row)] = reduce_device::stored<T>(a.finish.of_sum(sum, parameter));
}

template <class T>
Result<void> run_held(const Stream& stream, const reduce_device::ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  HeldArguments<T> a{};
  a.shape = RowShape::make<T>(l.groups, l.length);
  a.in.data = static_cast<const T*>(pass.x);
  a.in.rows = AxisMap::of(walk_of(l.kept, 0));
  a.in.elements = AxisMap::of(l.reduced);
  a.in.set_packs(l.length);
  a.out = static_cast<T*>(pass.out);
  a.out_map = AxisMap::of(walk_of(l.kept, 1));
  a.finish = rm::make_finish<Compute<T>>(pass.problem);
  return launch(stream, "reduce held rows", held_rows<T>, a.shape.blocks(), a.shape.threads(), a);
}

}  // namespace
}  // namespace row_device

namespace reduce_device {

bool holds(const ReducePass& pass) {
  return !pass.layout.columns && pass.layout.length <= row_device::kMostHeld &&
         pass.layout.length > 64;
}

Result<void> held_pass(const Stream& stream, const ReducePass& pass) {
  return visit_float(pass.problem.element_dtype, [&](auto type) {
    return row_device::run_held<typename decltype(type)::type>(stream, pass);
  });
}

}  // namespace reduce_device
}  // namespace planck
