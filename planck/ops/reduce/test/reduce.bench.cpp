// Reductions worth timing: 2^26 elements along rows, down columns, in all; gradients of biases.
#include "planck/verify/bench/bench.h"

namespace planck::verify {

namespace {

BenchCase make_bench(std::string_view op, Dtype dtype, const Shape& shape, std::string_view axes) {
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = op;
  c.attributes["axes"] = axes;
  c.inputs.push_back({.name = "x", .dtype = dtype, .shape = shape});
  return bench;
}

}  // namespace

std::vector<BenchCase> reduce_benches(DeviceKind) {
  std::vector<BenchCase> all;
  const Shape square = {8192, 8192}, narrow = {65536, 1024};
  for (Dtype t : {Dtype::f32, Dtype::bf16})
    for (std::string_view axes : {"1", "0", "all"}) {
      all.push_back(make_bench("sum", t, square, axes));
      all.back().cpu_share = 0.8;
    }
  all.push_back(make_bench("sum", Dtype::f32, narrow, "1"));
  all.push_back(make_bench("sum", Dtype::f32, narrow, "0"));
  for (std::int64_t columns : {768, 2304, 3072})
    all.push_back(make_bench("sum", Dtype::f32, {8192, columns}, "0"));
  all.push_back(make_bench("sum", Dtype::f64, {4096, 8192}, "1"));
  for (std::string_view op : {"max", "argmax", "var", "logsumexp"})
    for (std::string_view axes : {"1", "0"})
      all.push_back(make_bench(op, Dtype::f32, square, axes));
  all.push_back(make_bench("cumsum", Dtype::f32, square, "1"));
  all.push_back(make_bench("cumsum", Dtype::f32, square, "0"));
  all.push_back(make_bench("cummax", Dtype::f32, square, "1"));
  all.push_back(make_bench("cummax", Dtype::f32, square, "0"));
  all.push_back(make_bench("sum", Dtype::f32, {1}, "all"));
  all.back().call = true;
  return all;
}

}  // namespace planck::verify
