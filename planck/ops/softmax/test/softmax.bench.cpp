// Softmaxes and cross entropies worth timing: 2^26 elements in rows of 1,024 to 8,192.
#include "planck/verify/bench/bench.h"

namespace planck::verify {

namespace {

BenchCase make_bench(std::string_view op, Dtype dtype, std::int64_t rows, std::int64_t length) {
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = op;
  const bool backward = op.ends_with("_backward");
  const auto add = [&](std::string name, Dtype t, const Shape& s) {
    c.inputs.push_back({.name = std::move(name), .dtype = t, .shape = s});
  };
  const bool entropy = op.starts_with("cross_entropy");
  add(backward && !entropy ? "y" : "x", dtype, {rows, length});
  if (backward && !entropy) add("dy", dtype, {rows, length});
  if (entropy) {
    c.inputs.push_back({.name = "targets",
                        .dtype = Dtype::i64,
                        .shape = {rows},
                        .fill = Fill::integers,
                        .range = {0, length - 1}});
    if (backward) add("lse", compute_dtype(dtype), {rows});
    if (backward) add("dloss", dtype, {rows});
  }
  return bench;
}

}  // namespace

std::vector<BenchCase> softmax_benches(DeviceKind device) {
  std::vector<BenchCase> all;
  for (Dtype t : {Dtype::f32, Dtype::bf16})
    for (std::int64_t length : {1024, 8192}) {
      all.push_back(make_bench("softmax", t, (std::int64_t{1} << 26) / length, length));
      all.back().cpu_share = 0.8;
    }
  for (std::string_view op : {"log_softmax", "softmax_backward", "log_softmax_backward",
                              "cross_entropy", "cross_entropy_backward"})
    all.push_back(make_bench(op, Dtype::f32, 16384, 4096));
  all.push_back(make_bench("cross_entropy", Dtype::bf16, 2048, 32768));
  if (device == DeviceKind::cuda)
    for (Dtype t : {Dtype::f32, Dtype::bf16})  // a GPT's logits
      all.push_back(make_bench("cross_entropy_backward", t, 8192, 50304));
  all.push_back(make_bench("softmax", Dtype::f32, 1, 1));
  all.back().call = true;
  return all;
}

}  // namespace planck::verify
