// Backward ops against finite differences of their forwards, where the forward is smooth.
#include <gtest/gtest.h>

#include "planck/ops/ops.h"
#include "planck/verify/gradient.h"

namespace planck::conformance {
namespace {

using verify::Case;
using verify::Fill;
using verify::GradientCheck;

constexpr Shape kShape = {4, 6};

struct Granularity {
  std::string suffix;
  Attributes attributes;
  Shape groups;
};

const Granularity kGranularities[] = {{"per_tensor", {}, {}},
                                      {"per_channel", {{"axis", "1"}}, {6}},
                                      {"per_token", {}, {4}},
                                      {"per_group", {{"group", "3"}}, {4, 2}}};

Attributes with(Attributes all, const Attributes& more) {
  all.insert(more.begin(), more.end());
  return all;
}

// dequantize is linear in q: a step of one integer is exact.
TEST(Gradients, DequantizeInQ) {
  for (const Granularity& g : kGranularities) {
    const Attributes attributes = with(g.attributes, {{"dtype", "s8"}});
    GradientCheck check{.forward = {.op = "dequantize_" + g.suffix,
                                    .attributes = attributes,
                                    .inputs = {{.name = "q",
                                                .dtype = Dtype::s8,
                                                .shape = kShape,
                                                .fill = Fill::integers,
                                                .range = {-99, 99}},
                                               {.name = "scale",
                                                .dtype = Dtype::f64,
                                                .shape = g.groups,
                                                .fill = Fill::scale},
                                               {.name = "zero_point",
                                                .dtype = Dtype::i32,
                                                .shape = g.groups,
                                                .fill = Fill::integers,
                                                .range = {-5, 5}}},
                                    .output_layouts = {},
                                    .seed = 3},
                        .output = "x",
                        .backward_op = "dequantize_" + g.suffix + "_backward",
                        .backward_attributes = attributes,
                        .pairs = {{"q", "dq"}},
                        .tolerance = 1e-12};
    EXPECT_EQ(check_gradients(all_ops(), check), "") << g.suffix;
  }
}

// Far outside the range fake_quantize is s · (q_max − z) or s · (q_min − z): smooth in x, s and z.
void put_out_of_range(const Case&, verify::NamedTensors& tensors) {
  verify::HostTensor& x = tensors.find("x")->second;
  for (std::int64_t i = 0; i < x.count(); ++i)
    x.set_number(i, (i % 2 ? -1 : 1) * (1e6 + static_cast<double>(i)));
}

GradientCheck fake_quantize_out_of_range(const Granularity& g) {
  const Attributes attributes = with(g.attributes, {{"dtype", "s8"}});
  return {.forward = {.op = "fake_quantize_" + g.suffix,
                      .attributes = attributes,
                      .inputs = {{.name = "x", .dtype = Dtype::f64, .shape = kShape},
                                 {.name = "scale",
                                  .dtype = Dtype::f64,
                                  .shape = g.groups,
                                  .fill = Fill::scale},
                                 {.name = "zero_point",
                                  .dtype = Dtype::i32,
                                  .shape = g.groups,
                                  .fill = Fill::integers,
                                  .range = {-5, 5}}},
                      .output_layouts = {},
                      .seed = 4,
                      .prepare = {"out_of_range", put_out_of_range}},
          .output = "y",
          .backward_op = "fake_quantize_" + g.suffix + "_backward",
          .backward_attributes = with(attributes, {{"learnable", "true"}}),
          .pairs = {{"x", "dx"}, {"scale", "dscale"}, {"zero_point", "dzero_point"}},
          .tolerance = 1e-9};
}

TEST(Gradients, FakeQuantizeOutOfRange) {
  for (const Granularity& g : kGranularities)
    EXPECT_EQ(check_gradients(all_ops(), fake_quantize_out_of_range(g)), "") << g.suffix;
}

TEST(Gradients, AWrongPairIsSeen) {
  GradientCheck check = fake_quantize_out_of_range(kGranularities[1]);
  check.pairs = {{"scale", "dzero_point"}};
  EXPECT_NE(check_gradients(all_ops(), check), "");
  check.pairs = {{"scale", "dshift"}};
  EXPECT_NE(check_gradients(all_ops(), check).find("dshift"), std::string::npos);
}

}  // namespace
}  // namespace planck::conformance
