// What kernel tables say on a GPU whose tensor cores do not follow the contract, without such a
// GPU.
#include "planck/loops/gemm/cuda/follows.h"

#include <gtest/gtest.h>

#include "planck/core/cuda/runtime.h"
#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/matmul/matmul.problem.h"

namespace planck::gemm_device {
namespace {

constexpr Device kSome = Device::cuda(63);  // that nobody has

// Rows of wgmma refuse for the dtype that differs, and for that alone; the others serve, among them
// the definition.
template <class Problem>
void expect_refusals(const Problem& wrong, const Problem& right, std::size_t made_of_wgmma,
                     std::string_view definition = "cuda:integer_lanes") {
  const AssumedProbe a(kSome, Dtype::bf16, Instruction::wgmma, {2'097'152, 12, 77});
  const AssumedProbe b(kSome, Dtype::f16, Instruction::wgmma, {2'097'152, 0, -1});
  std::size_t refusing = 0, definitions = 0;
  for (const Kernel<Problem>& row : wrong.kernels()) {
    if (row.device != DeviceKind::cuda) continue;
    definitions += row.name == definition;
    if (row.name == "cuda:mma_sync") {  // of any part from 8.0 on, which nobody is here
      EXPECT_NE(row.unfit(right, kSome), "");
      continue;
    }
    EXPECT_EQ(row.unfit != nullptr, row.capability == 90) << row.name;
    if (row.unfit == nullptr) continue;
    ++refusing;
    EXPECT_EQ(row.unfit(wrong, kSome),
              "is made of wgmma, and this GPU's tensor cores do not follow the contract (bf16: 12 "
              "of 2097152 outputs differ)");
    EXPECT_EQ(row.unfit(right, kSome), "");
  }
  EXPECT_EQ(refusing, made_of_wgmma);
  EXPECT_EQ(definitions, 1u);
}

TEST(Follows, ProductsRefuseAPartThatDoesNot) {
  expect_refusals(MatmulProblem{Dtype::bf16, {}, 8, 8, 8, ProductMath::tensor_core},
                  MatmulProblem{Dtype::f16, {}, 8, 8, 8, ProductMath::tensor_core}, 1);
}
TEST(Follows, ConvolutionsRefuseAPartThatDoesNot) {
  const auto problem = [](Dtype element, ConvKind kind) {
    return ConvProblem{kind, element, {1, 16, 4, 4}, {8, 16, 3, 3}, {}, ProductMath::tensor_core};
  };
  for (const ConvKind kind : {ConvKind::conv2d, ConvKind::conv2d_input, ConvKind::conv2d_weight})
    expect_refusals(problem(Dtype::bf16, kind), problem(Dtype::f16, kind), 2);
}
TEST(Follows, AttentionRefusesAPartThatDoesNot) {
  const auto problem = [](AttentionKind kind, Dtype element) {
    return AttentionProblem{kind, element, {1, 1, 8, 8}, {1, 1, 8, 8}, {1, 1, 8, 8}, {}, {}};
  };
  for (const AttentionKind kind : {AttentionKind::attention, AttentionKind::attention_backward})
    expect_refusals(problem(kind, Dtype::bf16), problem(kind, Dtype::f16), 1, "cuda:rows");
}
TEST(Follows, IntegersAskNoPart) {
  const MatmulProblem bytes{Dtype::s8, {}, 8, 8, 8, ProductMath::exact};
  const MatmulProblem exact{Dtype::f32, {}, 8, 8, 8, ProductMath::exact};
  for (const MatmulProblem& p : {bytes, exact})
    for (const Kernel<MatmulProblem>& row : p.kernels())
      EXPECT_TRUE(row.unfit == nullptr || row.name == "cuda:mma_sync") << row.name;
}
TEST(Follows, AnAssumptionEndsWithItsScope) {
  {
    const AssumedProbe outer(kSome, Dtype::f32, Instruction::mma_sync, {100, 1, 5});
    {
      const AssumedProbe inner(kSome, Dtype::f32, Instruction::mma_sync, {100, 0, -1});
      EXPECT_EQ(unfaithful(kSome, Dtype::f32, Instruction::mma_sync), "");
    }
    EXPECT_EQ(probed(kSome, Dtype::f32, Instruction::mma_sync), (Comparison{100, 1, 5}));
  }
  EXPECT_FALSE(probed(kSome, Dtype::f32, Instruction::mma_sync));
}
TEST(Follows, WhatCannotBeAskedIsRefusedWithItsReason) {
  if (cuda::device_count() > kSome.ordinal) GTEST_SKIP() << "there is such a device";
  const std::string reason = unfaithful(kSome, Dtype::bf16, Instruction::wgmma);
  EXPECT_EQ(reason.find("is made of wgmma, which could not be compared with its contract: "), 0u)
      << reason;
  EXPECT_NE(unfaithful(Device::cuda(64), Dtype::bf16, Instruction::wgmma), "");
  for (const Instruction i : kInstructions) EXPECT_NE(absent(kSome, i), "") << name(i);
}

}  // namespace
}  // namespace planck::gemm_device
