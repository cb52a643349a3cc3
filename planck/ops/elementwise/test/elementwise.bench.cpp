// Shapes of the elementwise family worth timing: 2^26 elements for bandwidth, one for the cost of a
// call.
#include "planck/ops/ops.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

constexpr Shape kMatrix = {8192, 8192};

BenchCase bench_of(std::string_view op, Dtype dtype, double cpu_share,
                   const Shape& shape = kMatrix) {
  BenchCase bench{.test_case = *elementwise_example(op, {dtype, Dtype::bf16}, shape),
                  .call = shape.rank() < 2,
                  .cpu_share = cpu_share};
  return bench;
}

// Of positive numbers: others have no logarithm, and hardly a power.
BenchCase positive_bench(std::string_view op, Dtype dtype) {
  BenchCase bench = bench_of(op, dtype, 0);
  bench.test_case.inputs[0].fill = Fill::scale;
  bench.note = "x > 0";
  return bench;
}

// b is one row, or one column, for all.
BenchCase broadcast_bench(std::string_view op, Dtype dtype, bool row) {
  BenchCase bench = bench_of(op, dtype, 0.8);
  bench.test_case.inputs[1].layout = row ? Layout::broadcast : Layout::broadcast_inner;
  bench.note = row ? "b is a row" : "b is a column";
  bench.moved["b"] = kMatrix[0];
  return bench;
}

}  // namespace

std::vector<BenchCase> elementwise_benches(DeviceKind device) {
  std::vector<BenchCase> all;
  for (Dtype t : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (std::string_view op : {"add", "mul", "mul_scalar", "relu", "where", "copy", "lt"})
      all.push_back(bench_of(op, t, 0.8));
    for (std::string_view op : {"exp", "tanh", "sigmoid", "gelu", "silu", "sin", "pow"})
      all.push_back(bench_of(op, t, 0));
    for (std::string_view op : {"log", "pow"}) all.push_back(positive_bench(op, t));
    all.push_back(broadcast_bench("add", t, true));
    all.push_back(broadcast_bench("add", t, false));
  }
  all.push_back(bench_of("cast", Dtype::f32, 0.8));
  all.push_back(bench_of("fill", Dtype::f32, 0));
  all.push_back(bench_of("random_uniform", Dtype::f32, 0));
  all.push_back(bench_of("random_normal", Dtype::f32, 0));
  all.push_back(bench_of("exp", Dtype::f64, 0));
  all.push_back(bench_of("gelu", Dtype::f64, 0));
  BenchCase transposed = bench_of("add", Dtype::f32, 0.5);
  transposed.test_case.inputs[0].layout = Layout::transposed;
  transposed.note = "a is transposed";
  if (device == DeviceKind::cpu) all.push_back(transposed);
  all.push_back(bench_of("add", Dtype::f32, 0, {1}));
  all.push_back(bench_of("exp", Dtype::f32, 0, {1}));
  return all;
}

}  // namespace planck::verify
