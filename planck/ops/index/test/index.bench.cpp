// Shapes of the index family worth timing: 2^24 elements as one line, as rows of 1,024 and as a
// table of rows, with indices that hit everything or one place.
#include "planck/verify/bench/bench.h"

namespace planck::verify {

namespace {

struct Shapes {
  Shape x;
  int axis;
};
constexpr std::int64_t kMany = 1 << 24;

BenchCase make_bench(std::string_view op, const Shapes& s, Dtype dtype, bool one_row) {
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = op;
  c.attributes["axis"] = std::to_string(s.axis);
  const bool slices = op.starts_with("index_");
  const bool writes = op != "gather" && op != "index_select";
  const std::int64_t extent = s.x[s.axis];
  const CaseInput index{
      .name = "index",
      .dtype = Dtype::i64,
      .shape = slices ? Shape{extent} : s.x,
      .fill = Fill::integers,
      .range = one_row ? FillRange{extent / 2, extent / 2} : FillRange{0, extent - 1}};
  if (!writes) c.inputs.push_back({.name = "x", .dtype = dtype, .shape = s.x});
  if (writes) c.inputs.push_back({.name = "source", .dtype = dtype, .shape = s.x});
  c.inputs.push_back(index);
  if (writes) c.attributes["extent"] = std::to_string(extent);
  if (!writes && one_row) bench.moved["x"] = numel(s.x) / extent;
  bench.note = one_row ? "one row" : "uniform";
  return bench;
}

}  // namespace

std::vector<BenchCase> index_benches(DeviceKind) {
  std::vector<BenchCase> all;
  const Shapes line = {{kMany}, 0}, rows = {{kMany / 1024, 1024}, 1}, table = {{kMany / 64, 64}, 0};
  for (bool one_row : {false, true}) {
    for (std::string_view op : {"gather", "scatter_add", "scatter"})
      for (const Shapes& s : {line, rows}) all.push_back(make_bench(op, s, Dtype::f32, one_row));
    for (std::string_view op : {"index_select", "index_add"})
      all.push_back(make_bench(op, table, Dtype::f32, one_row));
  }
  all.push_back(make_bench("scatter_add", line, Dtype::i32, false));
  all.push_back(make_bench("index_select", rows, Dtype::bf16, false));
  all.push_back(make_bench("index_add", rows, Dtype::bf16, false));
  for (std::string_view op : {"mask_select", "mask_scatter", "nonzero"}) {
    BenchCase bench;
    bench.test_case.op = op;
    if (op != "nonzero")
      bench.test_case.inputs.push_back({.name = "x", .dtype = Dtype::f32, .shape = {kMany}});
    bench.test_case.inputs.push_back(
        {.name = "mask", .dtype = Dtype::boolean, .shape = {kMany}, .fill = Fill::integers});
    if (op == "mask_scatter")
      bench.test_case.inputs.push_back({.name = "values", .dtype = Dtype::f32, .shape = {kMany}});
    bench.note = "half";
    all.push_back(bench);
  }
  for (std::string_view op : {"gather", "scatter_add", "index_select", "index_add"}) {
    all.push_back(make_bench(op, {{4, 4}, op.starts_with("index_") ? 0 : 1}, Dtype::f32, false));
    all.back().call = true;
  }
  return all;
}

}  // namespace planck::verify
