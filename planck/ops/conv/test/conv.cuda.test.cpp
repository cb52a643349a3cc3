// The CUDA kernels of tensor_core and exact convolutions against the CPU's bits: many tiles, whole
// and broken blocks of channels, both orders of the channels, groups, NaN and infinities. One test
// for each kernel, so that one that fails hides no other.
#include <gtest/gtest.h>

#include "planck/ops/conv/conv.problem.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::Fill;
using verify::HostTensor;
using verify::Layout;

struct Convolution {
  Shape x, weight;
  Conv2dOptions options;
};
const Convolution kConvolutions[] = {
    {{3, 64, 9, 10}, {72, 64, 3, 3}, {.padding = {1, 1}}},
    {{2, 24, 13, 11}, {16, 24, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{4, 136, 7, 7}, {130, 136, 3, 3}, {.padding = {1, 1}}},
    {{5, 32, 12, 12}, {40, 32, 1, 1}, {}},
    {{2, 40, 17, 9}, {24, 40, 3, 5}, {.padding = {2, 2}, .dilation = {2, 1}}},
    {{6, 16, 31, 33}, {264, 16, 3, 3}, {.padding = {1, 1}}},
    {{2, 48, 20, 20}, {32, 24, 3, 3}, {.padding = {1, 0}, .groups = 2}},
    {{3, 3, 24, 24}, {20, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}},
    {{2, 16, 1, 70}, {8, 16, 1, 9}, {.padding = {0, 4}}},
    {{2, 16, 5, 5}, {16, 16, 2, 2}, {.stride = {4, 3}, .padding = {1, 1}}},  // phases without taps
};

void expect_cpu_bits(std::string_view kernel, Dtype dtype, ProductMath math) {
  std::size_t tried = 0;
  for (const Convolution& v : kConvolutions)
    for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input, ConvKind::conv2d_weight})
      for (const Fill fill : {Fill::normal, Fill::adversarial}) {
        const ConvProblem p{kind, dtype, v.x, v.weight, v.options, math};
        bool serves_it = false;
        for (const Kernel<ConvProblem>& k : p.kernels())
          serves_it = serves_it || (k.name == kernel && k.reject(p).empty() &&
                                    plan_detail::unfit(k, p, Device::cuda(0)).empty());
        if (!serves_it) continue;
        verify::TestTensors before;
        for (const OperandSpec& spec : p.specs()) {
          HostTensor t(spec.dtype, spec.shape);
          verify::fill(t, fill, 5 + before.size(), 0);
          before.emplace_back(std::move(t));
        }
        std::vector<verify::DeviceRun> runs = {laid_out(Layout::contiguous),
                                               laid_out(Layout::channels_last),
                                               laid_out(Layout::sliced)};
        for (verify::DeviceRun& run : runs) run.preference.kernel = kernel;
        SCOPED_TRACE(std::string(kernel) + " " + std::string(p.info().name) + " " +
                     std::string(name(dtype)) + " " + to_string(v.x) + " " + to_string(v.weight) +
                     (fill == Fill::normal ? "" : " adversarial"));
        verify::expect_cpu_bits(p, before, runs);
        ++tried;
      }
  EXPECT_TRUE(tried > 40 || cuda::compute_capability(0).value_or(0) != 90) << tried;
}

TEST(ConvCuda, WarpgroupsOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:warpgroups", Dtype::bf16, ProductMath::tensor_core);
}
TEST(ConvCuda, WarpgroupsOfF16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:warpgroups", Dtype::f16, ProductMath::tensor_core);
}
TEST(ConvCuda, WarpgroupsOfF32) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:warpgroups", Dtype::f32, ProductMath::tensor_core);
}
TEST(ConvCuda, Digits) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:digits", Dtype::f32, ProductMath::exact);
}
TEST(ConvCuda, IntegerLanes) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:integer_lanes", Dtype::bf16, ProductMath::tensor_core);
  expect_cpu_bits("cuda:integer_lanes", Dtype::f32, ProductMath::tensor_core);
}
TEST(ConvCuda, Integers) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:integers", Dtype::f32, ProductMath::exact);
}
TEST(ConvCuda, Implicit) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:implicit", Dtype::bf16, ProductMath::tensor_core);
  expect_cpu_bits("cuda:implicit", Dtype::f16, ProductMath::tensor_core);
}

}  // namespace
}  // namespace planck
