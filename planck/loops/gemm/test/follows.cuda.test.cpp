// The tensor cores of the GPU at hand against their contract, as the host computes it; the probe;
// and what is chosen where a part does not follow.
#include "planck/loops/gemm/cuda/follows.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planck/core/allocator.h"
#include "planck/loops/gemm/trials.h"
#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/matmul/matmul.problem.h"
#include "planck/verify/checks/kernel_rounds.h"
#include "planck/verify/on_device.test.h"

namespace planck::gemm_device {
namespace {

namespace rule = math::tensor_core;
using gemm::Trial;

constexpr Device kGpu = Device::cuda(0);
constexpr Dtype kElements[] = {Dtype::bf16, Dtype::f16, Dtype::f32};

#define PLANCK_NEEDS(INSTRUCTION) \
  PLANCK_NEEDS_GPU();             \
  if (const auto why = absent(kGpu, INSTRUCTION); !why.empty()) GTEST_SKIP() << why

class TensorCores : public testing::TestWithParam<std::tuple<Dtype, Instruction>> {};

// What the contract says of an output of a trial, by the host.
template <class Format>
float contract(const Trial& t, int row, int column) {
  typename Format::Bits a[Format::kBlock] = {}, b[Format::kBlock] = {};
  for (int k = 0; k < t.products<Format>(); ++k) {
    a[k] = gemm::factor<Format>(t, Trial::What::a, row, k);
    b[k] = gemm::factor<Format>(t, Trial::What::b, column, k);
  }
  return rule::add_block<Format>(gemm::start<Format>(t, row, column, a[0], b[0]), a, b);
}
float contract(Dtype element, const Trial& t, int row, int column) {
  return element == Dtype::bf16  ? contract<rule::Bf16>(t, row, column)
         : element == Dtype::f16 ? contract<rule::F16>(t, row, column)
                                 : contract<rule::Tf32>(t, row, column);
}

TEST_P(TensorCores, GiveWhatTheHostComputes) {
  const auto [element, instruction] = GetParam();
  PLANCK_NEEDS(instruction);
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  std::vector<float> got(Trial::kOutputs);
  for (std::int64_t number = 0; number < 3 * gemm::kKindsOfNumbers; ++number) {
    const auto found = run_trials(*stream, {element, instruction, 5, number, 1, got.data()});
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(*found, (Comparison{Trial::kOutputs, 0, -1}));
    const Trial t{5, static_cast<std::uint64_t>(number)};
    for (int i = 0; i < Trial::kOutputs; ++i) {
      const float must = contract(element, t, i / Trial::kColumns, i % Trial::kColumns);
      const std::uint32_t bits = std::isnan(must) ? 0x7fffffffu : math::bits_of(must);
      ASSERT_EQ(math::bits_of(got[static_cast<std::size_t>(i)]), bits)
          << gemm::name(t.numbers()) << ", trial " << number << ", output " << i;
    }
  }
}

TEST_P(TensorCores, AnOutputThatDiffersIsFound) {
  const auto [element, instruction] = GetParam();
  PLANCK_NEEDS(instruction);
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  for (const std::int64_t spoiled :
       {std::int64_t{8} * Trial::kOutputs, std::int64_t{16} * Trial::kOutputs + 1234,
        std::int64_t{1000} * Trial::kOutputs + Trial::kOutputs - 1}) {
    const auto found = run_trials(*stream, {element, instruction, 5, 8, 993, nullptr, spoiled});
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(*found, (Comparison{993 * Trial::kOutputs, 1, spoiled}));
  }
}

TEST_P(TensorCores, AreAskedWhileAStreamIsCaptured) {
  const auto [element, instruction] = GetParam();
  PLANCK_NEEDS(instruction);
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const auto memory = allocate(*stream, 64);
  ASSERT_TRUE(memory);
  ASSERT_TRUE(cuda::begin_capture(0, stream->native()));
  EXPECT_TRUE(cuda::fill(0, stream->native(), memory->data(), 1, 64));
  const auto found = probe(kGpu, element, instruction);
  const auto graph = cuda::end_capture(0, stream->native());
  ASSERT_TRUE(graph) << graph.error().message;
  cuda::destroy_graph(*graph);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->outputs, 1024 * Trial::kOutputs);
  EXPECT_EQ(probed(kGpu, element, instruction), *found);
}

TEST_P(TensorCores, OfTheKernelFollowOverManyBlocks) {
  const auto [element, instruction] = GetParam();
  if (instruction != Instruction::wgmma) GTEST_SKIP() << "no kernel is made of it";
  PLANCK_NEEDS(instruction);
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  for (std::int64_t number = 0; number < 24; ++number) {
    const auto round = verify::KernelRound::of(number);
    const auto compared = verify::compare_round(*stream, element, 5, round);
    ASSERT_TRUE(compared) << compared.error().message;
    EXPECT_EQ(compared->found, (Comparison{std::int64_t{round.m} * round.n, 0, -1}))
        << gemm::name(round.drawn(5).numbers()) << ", round " << number << ", K " << round.k;
  }
}

INSTANTIATE_TEST_SUITE_P(All, TensorCores,
                         testing::Combine(testing::ValuesIn(kElements),
                                          testing::ValuesIn(kInstructions)),
                         [](const auto& p) {
                           return std::string(planck::name(std::get<0>(p.param))) +
                                  (std::get<1>(p.param) == Instruction::wgmma ? "Wgmma" : "Mma");
                         });

// Corners of each format, every one times every other, alone and among ordinary products.
std::vector<std::uint64_t> corners(Dtype element) {
  if (element == Dtype::f16)
    return {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00,
            0x3c01, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x7c01, 0xfe01};
  if (element == Dtype::bf16)
    return {0x0000, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x3f80, 0xbf80,
            0x3f81, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffc1};
  // TF32: payloads and mantissas in the bits that are dropped, and just above them.
  return {0x00000000, 0x80000000, 0x00000001, 0x80001fff, 0x00002000, 0x80002000,
          0x007fffff, 0x00800000, 0x3f800000, 0xbf800000, 0x3f801fff, 0x3f802000,
          0x3f803fff, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000,
          0x7f800001, 0xff801fff, 0x7f802000, 0x5f7fffff, 0x1fffffff, 0x00003fff};
}

TEST(TensorCoreCorners, OfTheKernelHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS(Instruction::wgmma);
  for (const Dtype element : kElements) {
    const auto values = corners(element);
    const auto n = static_cast<std::int64_t>(values.size());
    for (const std::int64_t k : {8, 16, 40, 72}) {  // as the copy engine takes them
      const MatmulProblem p{element, {}, n, n, k, ProductMath::tensor_core};
      verify::HostTensor a(element, {n, k}), b(element, {k, n}), c(element, {n, n});
      for (std::int64_t i = 0; i < n * k; ++i) {
        a.set_number(i, static_cast<double>(1 + i % 3) * (i % 2 == 0 ? 1 : -1));
        b.set_number(i, static_cast<double>(1 + i % 5) / 4);
      }
      for (std::int64_t i = 0; i < n; ++i) {  // the last of k
        a.set_pattern(i * k + k - 1, values[static_cast<std::size_t>(i)]);
        b.set_pattern((k - 1) * n + i, values[static_cast<std::size_t>(i)]);
      }
      verify::DeviceRun warpgroups, mma_sync;
      warpgroups.preference.kernel = "cuda:warpgroups";
      mma_sync.preference.kernel = "cuda:mma_sync";
      SCOPED_TRACE(std::string(planck::name(element)) + ", K " + std::to_string(k));
      verify::expect_cpu_bits(p, {a, b, c, std::nullopt}, {warpgroups, mma_sync});
    }
  }
}

// A part that does not follow: the next row is chosen, the sku says so, and bits stay.
TEST(Selection, TakesTheNextRowWhereAPartDoesNotFollow) {
  PLANCK_NEEDS(Instruction::wgmma);
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const MatmulProblem product{Dtype::bf16, {}, 72, 40, 100, ProductMath::tensor_core};
  const ConvProblem convolution{ConvKind::conv2d, Dtype::bf16, {2, 16, 9, 9},
                                {24, 16, 3, 3},   {},          ProductMath::tensor_core};
  const auto kernel = [&](const auto& p) -> std::string {
    using Problem = std::decay_t<decltype(p)>;
    const auto chosen = Selection<Problem>::select(*stream, p);
    return chosen ? std::string(chosen->sku().kernel) : chosen.error().message;
  };
  EXPECT_EQ(kernel(product), "cuda:warpgroups");
  EXPECT_EQ(kernel(convolution), "cuda:implicit");
  verify::HostTensor a(Dtype::bf16, {72, 100}), b(Dtype::bf16, {100, 40}), c(Dtype::bf16, {72, 40});
  for (std::int64_t i = 0; i < a.count(); ++i)
    a.set_number(i, std::ldexp(static_cast<double>(i % 7 - 3), static_cast<int>(i % 11)));
  for (std::int64_t i = 0; i < b.count(); ++i)
    b.set_number(i, std::ldexp(static_cast<double>(i % 5 - 2), -static_cast<int>(i % 13)));
  const auto expect_bits = [&] {
    verify::expect_cpu_bits(product, {a, b, c, std::nullopt}, {verify::DeviceRun{}});
  };
  const AssumedProbe of_wgmma(kGpu, Dtype::bf16, Instruction::wgmma, {1000, 3, 0});
  EXPECT_EQ(kernel(product), "cuda:mma_sync");
  EXPECT_EQ(kernel(convolution), "cuda:mma_sync");
  expect_bits();
  const AssumedProbe of_mma_sync(kGpu, Dtype::bf16, Instruction::mma_sync, {1000, 3, 0});
  EXPECT_EQ(kernel(product), "cuda:integer_lanes");
  EXPECT_EQ(kernel(convolution), "cuda:integer_lanes");
  const auto refused =
      Selection<MatmulProblem>::select(*stream, product, {.kernel = "cuda:warpgroups"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("3 of 1000 outputs differ"), std::string::npos)
      << refused.error().message;
  expect_bits();
}

}  // namespace
}  // namespace planck::gemm_device
