// Shapes of the grid_sample family worth timing: many channels and few, ordered and scattered
// grids, all points on one element.
#include "planck/ops/grid_sample/test/grids.cases.h"
#include "planck/ops/ops.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Work {
  bool backward;
  Dtype dtype;
  Shape input;  // the output has the same extents
  GridKind kind;
  double aim_ms = 0;  // on one H200
  std::string_view mode = "bilinear", padding = "zeros";
  bool channels_last = false;
  std::optional<std::string_view> kernel = {};
};

BenchCase make_bench(const Work& work) {
  BenchCase bench;
  Case& c = bench.test_case;
  c.op = work.backward ? "grid_sample_backward" : "grid_sample";
  if (work.mode != "bilinear") c.attributes["mode"] = work.mode;
  if (work.padding != "zeros") c.attributes["padding"] = work.padding;
  c.seed = 5;
  Shape grid = {work.input[0]};
  for (int d = 2; d < work.input.rank(); ++d) grid.push_back(work.input[d]);
  grid.push_back(work.input.rank() - 2);
  const Layout layout = work.channels_last ? Layout::channels_last : Layout::contiguous;
  const auto tensor = [&](const char* name) {
    c.inputs.push_back({.name = name, .dtype = work.dtype, .shape = work.input, .layout = layout});
  };
  if (work.backward) tensor("dout");
  tensor("input");
  c.inputs.push_back({.name = "grid", .dtype = work.dtype, .shape = grid});
  if (work.channels_last) c.output_layouts[work.backward ? "dinput" : "output"] = layout;
  c.prepare = put_grid(work.kind);
  bench.note = c.prepare.name;
  bench.aim_ms = work.aim_ms;
  bench.kernel = work.kernel;
  return bench;
}

}  // namespace

std::vector<BenchCase> grid_sample_benches(DeviceKind device) {
  constexpr GridKind affine = GridKind::affine, random = GridKind::random;
  const bool cuda = device == DeviceKind::cuda;
  const Shape deep = cuda ? Shape{16, 64, 256, 256} : Shape{8, 32, 128, 128};
  const Shape flat = cuda ? Shape{16, 3, 512, 512} : Shape{8, 3, 256, 256};
  const Shape volume = cuda ? Shape{4, 16, 64, 64, 64} : Shape{2, 8, 32, 32, 32};
  const Shape one = cuda ? Shape{1, 64, 256, 256} : Shape{1, 32, 128, 128};
  const Dtype f32 = Dtype::f32;
  std::vector<Work> all;
  for (GridKind kind : {affine, random}) {
    const bool ordered = kind == affine;
    all.push_back({false, f32, deep, kind, ordered ? 0.145 : 0.30});
    all.push_back({true, f32, deep, kind, ordered ? 0.32 : 0.60});
    all.push_back({false, f32, flat, kind});
    all.push_back({true, f32, flat, kind, ordered ? 0.20 : 0.45});
    for (bool backward : {false, true}) {
      all.push_back({backward, Dtype::f16, deep, kind, backward && ordered ? 0.30 : 0});
      all.push_back({backward, Dtype::bf16, deep, kind, backward && ordered ? 0.30 : 0});
      all.push_back(
          {.backward = backward, .dtype = f32, .input = deep, .kind = kind, .channels_last = true});
      all.push_back(
          {.backward = backward, .dtype = f32, .input = deep, .kind = kind, .mode = "bicubic"});
      all.push_back({backward, f32, one, kind});
      all.push_back({backward, f32, volume, kind});
    }
  }
  for (bool backward : {false, true}) {
    all.push_back(
        {.backward = backward, .dtype = f32, .input = deep, .kind = affine, .mode = "nearest"});
    all.push_back({.backward = backward,
                   .dtype = f32,
                   .input = deep,
                   .kind = affine,
                   .padding = "reflection"});
    all.push_back({backward, Dtype::f64, deep, affine});
  }
  for (bool backward : {false, true}) all.push_back({backward, f32, deep, GridKind::turned});
  all.push_back({true, f32, deep, GridKind::one_point, 1.0});
  if (cuda)  // what the order of additions costs
    for (const Shape& shape : {deep, flat})
      for (GridKind kind : {affine, random, GridKind::one_point})
        all.push_back({.backward = true,
                       .dtype = f32,
                       .input = shape,
                       .kind = kind,
                       .kernel = "cuda:atomic"});

  std::vector<BenchCase> benches;
  for (const Work& work : all) benches.push_back(make_bench(work));
  for (bool backward : {false, true}) {
    const std::string op = backward ? "affine_grid_backward" : "affine_grid";
    BenchCase bench{*grid_sample_example(op, {f32, std::nullopt}, {1, 1})};
    if (backward) {
      bench.test_case.inputs[0].shape = {16, 512, 512, 2};
    } else {
      bench.test_case.inputs[0].shape = {16, 2, 3};
      bench.test_case.attributes["size"] = "16,3,512,512";
    }
    benches.push_back(bench);
  }
  return benches;
}

}  // namespace planck::verify
