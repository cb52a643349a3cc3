// Convolutions worth timing: layers of a small network in training, of larger ones, integers, and
// what products mean, in both orders of the channels.
#include <fmt/format.h>

#include "planck/ops/conv/conv.problem.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

BenchCase make_bench(std::string_view op, Dtype dtype, const Shape& x, const Shape& weight,
                     const Conv2dOptions& o, std::optional<ProductMath> math = {},
                     Layout layout = Layout::contiguous) {
  const ConvProblem p{ConvKind::conv2d, dtype, x, weight, o};
  const Fill fill = dtype == Dtype::s8 ? Fill::integers : Fill::normal;
  const auto pair = [](const std::array<std::int64_t, 2>& v) {
    return fmt::format("{}x{}", v[0], v[1]);
  };
  BenchCase bench{
      .test_case = {.op = std::string(op),
                    .attributes = {{"padding", pair(o.padding)}, {"stride", pair(o.stride)}},
                    .inputs = {},
                    .output_layouts = {},
                    .seed = 1},
      .note = fmt::format("x {}{}", to_string(weight),
                          layout == Layout::channels_last ? " channels last" : ""),
      .flops = 2 * static_cast<double>(numel(p.y())) * static_cast<double>(weight[1] * p.taps())};
  Case& c = bench.test_case;
  if (math && *math != default_product_math(dtype)) c.attributes["math"] = name(*math);
  if (layout != Layout::contiguous)
    c.output_layouts[op == "conv2d" ? "y" : op == "conv2d_input" ? "dx" : "dweight"] = layout;
  if (o.groups != 1) c.attributes["groups"] = std::to_string(o.groups);
  if (op == "conv2d_input") c.attributes["size"] = pair({x[2], x[3]});
  if (op == "conv2d_weight") c.attributes["kernel"] = pair({weight[2], weight[3]});
  const auto add = [&](std::string_view operand, const Shape& shape) {
    c.inputs.push_back({.name = std::string(operand),
                        .dtype = dtype,
                        .shape = shape,
                        .fill = fill,
                        .layout = layout});
  };
  if (op != "conv2d_input") add("x", x);
  if (op != "conv2d") add("dy", p.y());
  if (op != "conv2d_weight") add("weight", weight);
  return bench;
}

}  // namespace

std::vector<BenchCase> conv_benches(DeviceKind device) {
  const Conv2dOptions same{.padding = {1, 1}}, half{.stride = {2, 2}, .padding = {1, 1}};
  struct Layer {
    Shape x, weight;
    Conv2dOptions options;
  };
  const Layer layers[] = {
      {{64, 1, 16, 16}, {16, 1, 3, 3}, same},
      {{64, 16, 16, 16}, {32, 16, 3, 3}, same},
      {{64, 32, 8, 8}, {64, 32, 3, 3}, same},
      {{16, 64, 56, 56}, {64, 64, 3, 3}, same},
      {{16, 128, 28, 28}, {256, 128, 3, 3}, half},
      {{16, 256, 14, 14}, {1024, 256, 1, 1}, {}},
      {{16, 96, 56, 56}, {96, 1, 3, 3}, {.padding = {1, 1}, .groups = 96}},
  };
  std::vector<BenchCase> benches;
  for (const Layer& l : layers)
    for (std::string_view op : {"conv2d", "conv2d_input", "conv2d_weight"})
      benches.push_back(make_bench(op, Dtype::f32, l.x, l.weight, l.options));
  for (Dtype dtype : {Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::s8})
    benches.push_back(make_bench("conv2d", dtype, layers[3].x, layers[3].weight, same));
  // What products mean: a CPU follows tensor cores at a sixth of the chain's speed.
  const std::int64_t images = device == DeviceKind::cpu ? 4 : 64;
  const Layer deep[] = {{{images, 64, 56, 56}, {64, 64, 3, 3}, same},
                        {{images, 512, 7, 7}, {512, 512, 3, 3}, same},
                        {{images, 256, 14, 14}, {256, 256, 1, 1}, {}},
                        {{images, 256, 14, 14}, {1024, 256, 1, 1}, {}}};
  for (const Layer& l : deep)
    for (std::string_view op : {"conv2d", "conv2d_input", "conv2d_weight"}) {
      benches.push_back(
          make_bench(op, Dtype::bf16, l.x, l.weight, l.options, {}, Layout::channels_last));
      for (const ProductMath math : {ProductMath::exact, ProductMath::chain})
        benches.push_back(make_bench(op, Dtype::f32, l.x, l.weight, l.options, math));
    }
  for (std::string_view op : {"conv2d", "conv2d_input", "conv2d_weight"}) {
    benches.push_back(make_bench(op, Dtype::bf16, deep[0].x, deep[0].weight, same));
    benches.push_back(make_bench(op, Dtype::f32, deep[0].x, deep[0].weight, same,
                                 ProductMath::tensor_core, Layout::channels_last));
  }
  const Layer depthwise{{images, 96, 56, 56}, {96, 1, 3, 3}, {.padding = {1, 1}, .groups = 96}};
  for (const auto& [dtype, math] : {std::pair{Dtype::bf16, ProductMath::tensor_core},
                                    {Dtype::f32, ProductMath::exact},
                                    {Dtype::f32, ProductMath::chain}})
    benches.push_back(
        make_bench("conv2d", dtype, depthwise.x, depthwise.weight, depthwise.options, math));
  return benches;
}

}  // namespace planck::verify
