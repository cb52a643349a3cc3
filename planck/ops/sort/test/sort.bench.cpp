// Shapes of the sort family worth timing: 2^24 elements in rows of 1,024, in long rows and in one.
#include "planck/verify/bench/bench.h"

namespace planck::verify {

std::vector<BenchCase> sort_benches(DeviceKind) {
  std::vector<BenchCase> all;
  const auto add = [&](std::string_view op, const Shape& shape, Dtype dtype, std::string_view k) {
    BenchCase bench;
    bench.test_case.op = op;
    if (!k.empty()) bench.test_case.attributes["k"] = k;
    bench.test_case.inputs.push_back({.name = "x",
                                      .dtype = dtype,
                                      .shape = shape,
                                      .fill = is_float(dtype) ? Fill::normal : Fill::integers});
    all.push_back(bench);
  };
  constexpr std::int64_t kMany = 1 << 24;
  const Shape rows = {kMany / 1024, 1024}, long_rows = {64, kMany / 64}, one = {kMany};
  for (const Shape& shape : {rows, long_rows, one}) add("sort", shape, Dtype::f32, "");
  add("sort", one, Dtype::i64, "");
  add("sort", rows, Dtype::bf16, "");
  add("argsort", rows, Dtype::f32, "");
  for (const Shape& shape : {rows, long_rows, one}) add("topk", shape, Dtype::f32, "32");
  add("sort", {4, 4}, Dtype::f32, "");
  all.back().call = true;
  return all;
}

}  // namespace planck::verify
