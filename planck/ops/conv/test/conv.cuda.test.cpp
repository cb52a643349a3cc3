// The CUDA kernels of tensor_core and exact convolutions against the CPU's bits: many tiles, whole
// and broken blocks of channels, both orders of the channels, groups, NaN and infinities. One test
// for each kernel, so that one that fails hides no other.
#include <gtest/gtest.h>

#include <span>

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
    {{3, 64, 10, 9}, {96, 64, 3, 2}, {.padding = {1, 0}}},  // one chunk of whole blocks
};

// For digits: both widths of blocks, one to five tiles of filters, groups, steps beside dilations.
const Convolution kOfDigits[] = {
    {{9, 128, 10, 9}, {192, 128, 3, 3}, {.padding = {1, 1}}},
    {{17, 200, 6, 6}, {256, 200, 1, 1}, {}},
    {{8, 96, 15, 14}, {64, 48, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}, .groups = 2}},
    {{10, 300, 9, 9}, {330, 100, 2, 3}, {.padding = {0, 1}, .dilation = {3, 2}, .groups = 3}},
    {{70, 64, 4, 4}, {128, 64, 3, 3}, {.padding = {1, 1}}},  // tiles of many images
    {{16, 64, 5, 8}, {128, 64, 3, 3}, {.padding = {1, 1}}},  // rows of whole steps of k
    {{16, 72, 5, 4}, {128, 72, 3, 3}, {.padding = {1, 1}}},
    {{50, 64, 3, 7}, {192, 64, 3, 3}, {.padding = {1, 1}}},  // of 64 bytes
    {{8, 17, 3, 100}, {33, 17, 3, 5}, {.stride = {1, 3}, .padding = {2, 2}}},
    {{8, 16, 180, 190}, {16, 16, 1, 1}, {}},  // more places than one int64 sums
    {{16, 64, 30, 30}, {64, 64, 5, 5}, {.stride = {3, 2}, .padding = {2, 1}, .dilation = {2, 1}}},
};
// Chunks of whole pairs of rows: one and two of them, dilation, rows of one to four times eight.
const Convolution kOfRowPairs[] = {
    {{4, 64, 16, 16}, {64, 64, 3, 3}, {.padding = {1, 1}}},
    {{2, 40, 8, 8}, {24, 40, 3, 3}, {.padding = {1, 1}}},
    {{4, 64, 16, 16}, {48, 64, 3, 3}, {.padding = {2, 2}, .dilation = {2, 2}}},
    {{2, 64, 24, 32}, {64, 64, 1, 3}, {.padding = {0, 1}}},
    {{3, 16, 18, 18}, {16, 16, 3, 3}, {}},
    {{3, 64, 16, 24}, {64, 64, 3, 3}, {.padding = {1, 1}}},
};
constexpr Fill kTwoFills[] = {Fill::normal, Fill::adversarial};
constexpr Fill kFourFills[] = {Fill::normal, Fill::adversarial, Fill::rare, Fill::wide};

bool is_served(const ConvProblem& p, std::string_view kernel) {
  for (const Kernel<ConvProblem>& k : p.kernels())
    if (k.name == kernel && k.reject(p).empty() &&
        plan_detail::unfit(k, p, Device::cuda(0)).empty())
      return true;
  return false;
}

verify::TestTensors filled(const ConvProblem& p, Fill fill) {
  verify::TestTensors tensors;
  for (const OperandSpec& spec : p.specs()) {
    HostTensor t(spec.dtype, spec.shape);
    verify::fill(t, fill, 5 + tensors.size(), 0);
    tensors.emplace_back(std::move(t));
  }
  return tensors;
}

void expect_cpu_bits(std::string_view kernel, const ConvProblem& p, std::string_view what,
                     const verify::TestTensors& before) {
  std::vector<verify::DeviceRun> runs = {laid_out(Layout::contiguous),
                                         laid_out(Layout::channels_last), laid_out(Layout::sliced)};
  for (verify::DeviceRun& run : runs) run.preference.kernel = kernel;
  SCOPED_TRACE(std::string(kernel) + " " + std::string(p.info().name) + " " +
               std::string(name(p.element_dtype)) + " " + to_string(p.x) + " " +
               to_string(p.weight) + " " + std::string(what));
  verify::expect_cpu_bits(p, before, runs);
}

std::size_t expect_cpu_bits(std::string_view kernel, Dtype dtype, ProductMath math,
                            std::span<const Convolution> convolutions,
                            std::span<const Fill> fills) {
  std::size_t tried = 0;
  for (const Convolution& v : convolutions)
    for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input, ConvKind::conv2d_weight})
      for (const Fill fill : fills) {
        const ConvProblem p{kind, dtype, v.x, v.weight, v.options, math};
        if (!is_served(p, kernel)) continue;
        expect_cpu_bits(kernel, p, name(fill), filled(p, fill));
        ++tried;
      }
  return tried;
}

bool is_hopper() { return cuda::compute_capability(0).value_or(0) == 90; }

void expect_cpu_bits(std::string_view kernel, Dtype dtype, ProductMath math) {
  const std::size_t tried = expect_cpu_bits(kernel, dtype, math, kConvolutions, kTwoFills);
  EXPECT_TRUE(tried > 40 || !is_hopper()) << tried;
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
TEST(ConvCuda, WarpsOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:mma_sync", Dtype::bf16, ProductMath::tensor_core);
}
TEST(ConvCuda, WarpsOfF16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:mma_sync", Dtype::f16, ProductMath::tensor_core);
}
TEST(ConvCuda, WarpsOfF32) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:mma_sync", Dtype::f32, ProductMath::tensor_core);
}
TEST(ConvCuda, Digits) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits("cuda:digits", Dtype::f32, ProductMath::exact);
}
TEST(ConvCuda, ImplicitDigits) {
  PLANCK_NEEDS_GPU();
  const auto tried = [](std::span<const Convolution> convolutions) {
    return expect_cpu_bits("cuda:implicit_digits", Dtype::f32, ProductMath::exact, convolutions,
                           kFourFills);
  };
  const std::size_t all = tried(kConvolutions) + tried(kOfDigits);
  EXPECT_TRUE(all > 150 || !is_hopper()) << all;
}
// Images, and filters, of zeros, of subnormal and of huge numbers, with NaN, with an infinity.
TEST(ConvCuda, ImplicitDigitsOfMixedImages) {
  PLANCK_NEEDS_GPU();
  for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input, ConvKind::conv2d_weight}) {
    const ConvProblem p{kind,           Dtype::f32,          {12, 64, 11, 9},
                        {70, 64, 3, 3}, {.padding = {1, 1}}, ProductMath::exact};
    if (!is_served(p, "cuda:implicit_digits")) continue;
    verify::TestTensors tensors = filled(p, Fill::normal);
    for (int operand = 0; operand < 2; ++operand) {
      HostTensor& t = *tensors[static_cast<std::size_t>(operand)];
      const std::int64_t each = t.count() / t.shape[0];
      const double scales[] = {0, 0x1p-140, 0x1p100, 1, 1, 0x1p-20};
      for (std::int64_t i = 0; i < t.count(); ++i)
        t.set_number(i, t.number(i) * scales[i / each % 6]);
      t.set_pattern(3 * each + 17, 0xffc12345u);
      t.set_pattern(4 * each + 60, 0x7f800000u);
      t.set_pattern(4 * each + 61, 0xff800000u);
    }
    expect_cpu_bits("cuda:implicit_digits", p, "mixed", tensors);
  }
}
// More tiles than processors, so that some are whole and the last are cut; the widest of tiles.
void expect_cpu_bits_of_many_tiles(std::string_view kernel, Layout layout, const ConvProblem& p) {
  if (!is_served(p, kernel)) return;
  verify::DeviceRun run = laid_out(layout);
  run.preference.kernel = kernel;
  SCOPED_TRACE(std::string(p.info().name) + " " + to_string(p.x) + " " + to_string(p.weight));
  verify::expect_cpu_bits(p, filled(p, Fill::normal), {run});
}
TEST(ConvCuda, ImplicitDigitsOfManyTiles) {
  PLANCK_NEEDS_GPU();
  const Convolution many[] = {{{16, 512, 7, 8}, {512, 512, 3, 3}, {.padding = {1, 1}}},
                              {{64, 512, 3, 7}, {448, 512, 3, 3}, {.padding = {1, 1}}},
                              {{20, 576, 5, 5}, {640, 576, 3, 3}, {.padding = {1, 1}}}};
  for (const Convolution& c : many)
    expect_cpu_bits_of_many_tiles(
        "cuda:implicit_digits", Layout::contiguous,
        {ConvKind::conv2d_weight, Dtype::f32, c.x, c.weight, c.options, ProductMath::exact});
  expect_cpu_bits_of_many_tiles("cuda:implicit_digits", Layout::contiguous,
                                {ConvKind::conv2d,
                                 Dtype::f32,
                                 {64, 512, 7, 7},
                                 {512, 512, 3, 3},
                                 {.padding = {1, 1}},
                                 ProductMath::exact});
}
// Of few filters and many places: borders of tiles and images, dilation, filters that are none.
TEST(ConvCuda, ImplicitDigitsByPatches) {
  PLANCK_NEEDS_GPU();
  const Convolution many[] = {
      {{12, 64, 56, 56}, {64, 64, 3, 3}, {.padding = {1, 1}}},
      {{22, 40, 38, 40}, {48, 40, 3, 3}, {.padding = {1, 1}}},
      {{22, 64, 40, 39}, {64, 64, 3, 2}, {.padding = {2, 1}, .dilation = {2, 1}}}};
  for (const Convolution& c : many)
    for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input})
      expect_cpu_bits_of_many_tiles(
          "cuda:implicit_digits", Layout::contiguous,
          {kind, Dtype::f32, c.x, c.weight, c.options, ProductMath::exact});
}
TEST(ConvCuda, ImplicitOfManyTiles) {
  PLANCK_NEEDS_GPU();
  for (const Layout layout : {Layout::channels_last, Layout::contiguous})
    expect_cpu_bits_of_many_tiles("cuda:implicit", layout,
                                  {ConvKind::conv2d_weight,
                                   Dtype::bf16,
                                   {8, 512, 8, 8},
                                   {512, 512, 3, 3},
                                   {.padding = {1, 1}}});
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
TEST(ConvCuda, ImplicitByPairsOfRows) {
  PLANCK_NEEDS_GPU();
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    const std::size_t tried =
        expect_cpu_bits("cuda:implicit", dtype, ProductMath::tensor_core, kOfRowPairs, kTwoFills);
    EXPECT_TRUE(tried > 30 || !is_hopper()) << tried;
  }
}

}  // namespace
}  // namespace planck
