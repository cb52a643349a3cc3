// Attention worth timing: full and causal, forward and backward, what scores become, and one query
// against a cache.
#include <fmt/format.h>

#include "planck/ops/attention/attention.problem.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

// Operations: two products of L × S × D for forward, five for backward; causal halves them.
BenchCase make_bench(std::string_view op, Dtype dtype, const Shape& q, const Shape& k,
                     bool causal) {
  const bool backward = op == "attention_backward";
  const double pairs = static_cast<double>(q[0] * q[1] * q[2]) * static_cast<double>(k[2]);
  const double share = causal && q[2] == k[2] ? 0.5 : 1;
  BenchCase bench{
      .test_case = {.op = std::string(op),
                    .attributes = causal ? Attributes{{"causal", "true"}} : Attributes{},
                    .inputs = {},
                    .output_layouts = {},
                    .seed = 1},
      .note = fmt::format("k {}", to_string(k)),
      .flops = (backward ? 10 : 4) * share * pairs * static_cast<double>(q[3])};
  const auto add = [&](std::string_view operand, Dtype t, const Shape& shape) {
    bench.test_case.inputs.push_back({.name = std::string(operand), .dtype = t, .shape = shape});
  };
  add("q", dtype, q);
  add("k", dtype, k);
  add("v", dtype, k);
  if (!backward) return bench;
  add("y", dtype, q);
  add("lse", compute_dtype(dtype), {q[0], q[1], q[2]});
  add("dy", dtype, q);
  return bench;
}

}  // namespace

std::vector<BenchCase> attention_benches(DeviceKind device) {
  std::vector<BenchCase> benches;
  const auto add = [&](Dtype dtype, const Shape& q, const Shape& k, bool causal) {
    for (std::string_view op : {"attention", "attention_backward"})
      benches.push_back(make_bench(op, dtype, q, k, causal));
  };
  const Shape wide{1, 2, 1024, 128}, slim{1, 4, 1024, 64};
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
    for (const bool causal : {false, true}) {
      add(dtype, wide, wide, causal);
      add(dtype, slim, slim, causal);
    }
  for (const auto& [attribute, value] :
       {std::pair("soft_cap", "30"), {"alibi", "true"}, {"dropout", "0.1"}})
    for (std::string_view op : {"attention", "attention_backward"}) {
      benches.push_back(make_bench(op, Dtype::f32, slim, slim, false));
      benches.back().test_case.attributes[attribute] = value;
    }
  if (device == DeviceKind::cuda) {  // whole layers
    const Shape many{4, 16, 1024, 64}, long_ones{4, 16, 4096, 128}, longer{2, 16, 8192, 128};
    for (const Shape& x : {many, long_ones, longer})
      for (const bool causal : {false, true}) add(Dtype::bf16, x, x, causal);
    add(Dtype::f16, long_ones, long_ones, false);
    const Shape of_gpt{8, 12, 1024, 64}, of_small_gpt{64, 4, 128, 32}, wider{4, 16, 1024, 128};
    for (const Shape& x : {of_gpt, of_small_gpt, wider}) add(Dtype::f32, x, x, true);
    add(Dtype::f32, of_gpt, of_gpt, false);
    benches.push_back(make_bench("attention_backward", Dtype::f32, of_gpt, of_gpt, true));
    benches.back().kernel = "cuda:tiles:twice";
    add(Dtype::bf16, {4, 16, 1024, 32}, {4, 16, 1024, 32}, true);
    benches.push_back(
        make_bench("attention", Dtype::bf16, {4, 16, 2048, 256}, {4, 16, 2048, 256}, false));
    for (const auto& [attribute, value] :
         {std::pair("soft_cap", "30"), {"alibi", "true"}, {"dropout", "0.1"}})
      for (std::string_view op : {"attention", "attention_backward"}) {
        benches.push_back(make_bench(op, Dtype::bf16, many, many, true));
        benches.back().test_case.attributes[attribute] = value;
      }
  }
  Shape one = wide;
  one[2] = 1;
  benches.push_back(make_bench("attention", Dtype::bf16, one, wide, true));
  return benches;
}

}  // namespace planck::verify
