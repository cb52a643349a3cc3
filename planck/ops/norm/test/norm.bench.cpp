// Norms worth timing: 2^26 elements in rows of 1,024 to 8,192, and those of a small GPT.
#include "planck/verify/bench/bench.h"

namespace planck::verify {

namespace {

BenchCase make_bench(std::string_view op, Dtype dtype, std::int64_t rows, std::int64_t length) {
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = op;
  const bool backward = op.ends_with("_backward"), layer = op.starts_with("layer");
  const Dtype compute = compute_dtype(dtype);
  const auto add = [&](std::string name, Dtype t, const Shape& s) {
    c.inputs.push_back({.name = std::move(name), .dtype = t, .shape = s});
  };
  add("x", dtype, {rows, length});
  if (backward) add("dy", dtype, {rows, length});
  if (backward && layer) add("mean", compute, {rows});
  if (backward) add("rstd", compute, {rows});
  add("weight", dtype, {length});
  if (!backward && layer) add("bias", dtype, {length});
  if (backward && layer) c.attributes["bias"] = "true";
  return bench;
}

}  // namespace

std::vector<BenchCase> norm_benches(DeviceKind) {
  std::vector<BenchCase> all;
  for (Dtype t : {Dtype::f32, Dtype::bf16})
    for (std::int64_t length : {1024, 8192}) {
      all.push_back(make_bench("layer_norm", t, (std::int64_t{1} << 26) / length, length));
      all.back().cpu_share = 0.8;
    }
  for (std::string_view op : {"layer_norm_backward", "rms_norm", "rms_norm_backward"})
    all.push_back(make_bench(op, Dtype::f32, 16384, 4096));
  for (std::string_view op : {"layer_norm", "layer_norm_backward"})
    all.push_back(make_bench(op, Dtype::f32, 8192, 768));
  return all;
}

}  // namespace planck::verify
