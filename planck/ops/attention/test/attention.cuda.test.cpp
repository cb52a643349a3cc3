// cuda:warpgroups and cuda:mma_sync against the CPU's bits: whole and broken tiles of queries and
// keys, several tiles and stages, heads of every width of tiles, groups, limits, what scores
// become, and rows that have to be done again.
#include <gtest/gtest.h>

#include "planck/ops/attention/attention.problem.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::Fill;
using verify::HostTensor;
using verify::Layout;

struct Heads {
  std::int64_t n, h, g, l, s, d, e;
  ScaledDotProductOptions options = {};
  std::optional<Dtype> mask = {};  // boolean, or the elements' (f32 stands for it)
};
const Heads kHeads[] = {
    {1, 2, 2, 128, 128, 64, 64},
    {1, 1, 1, 192, 256, 128, 128},
    {2, 4, 2, 201, 700, 64, 64, {.causal = true}},
    {1, 4, 1, 300, 300, 128, 128, {.causal = true}},
    {1, 2, 1, 77, 1000, 128, 96, {.causal = true}},
    {1, 1, 1, 520, 130, 96, 120, {.causal = true}},
    {2, 2, 2, 450, 450, 32, 32, {.scale = 0.75, .causal = true, .window = 130}},
    {1, 2, 1, 1, 900, 128, 128, {.causal = true}},
    {1, 2, 2, 65, 385, 8, 16},
    {1, 2, 1, 140, 300, 256, 256, {.causal = true}},
    {1, 1, 1, 100, 129, 200, 136},
    {2, 2, 1, 150, 260, 64, 128, {}, Dtype::boolean},
    {1, 2, 2, 130, 140, 64, 64, {.causal = true}, Dtype::f32},
    {1, 3, 1, 200, 333, 64, 32, {.causal = true, .window = 99, .soft_cap = 20, .alibi = true}},
    {1, 2, 2, 150, 290, 128, 128, {.dropout = 0.25, .seed = 3, .offset = 9}},
    {1,
     2,
     1,
     400,
     420,
     64,
     64,
     {.causal = true,
      .query_offsets = {0, 3, 3, 300, 400},
      .key_offsets = {0, 130, 140, 140, 420}}},
};

// NaN as one element of row `row` of an operand, of all heads of the first batch.
void spoil(HostTensor& x, std::int64_t row) {
  const std::int64_t rows = x.shape[2], width = x.shape[3];
  for (std::int64_t head = 0; head < x.shape[1] && row < rows; ++head) {
    const std::int64_t at = (head * rows + row) * width + width - 1;
    x.bytes[static_cast<std::size_t>(2 * at)] = x.bytes[static_cast<std::size_t>(2 * at + 1)] =
        std::byte{0x7f};
  }
}

// spoilt: a NaN among ordinary numbers, at this row of operand number `spoilt_operand`.
void expect_cpu_bits_by(std::string_view kernel, AttentionKind kind, Dtype dtype, Fill fill,
                        std::size_t spoilt_operand, std::int64_t spoilt) {
  int tried = 0;
  for (const Heads& x : kHeads) {
    AttentionProblem p{
        kind,      dtype, {x.n, x.h, x.l, x.d}, {x.n, x.g, x.s, x.d}, {x.n, x.g, x.s, x.e},
        x.options, {}};
    if (x.mask) p.mask = *x.mask == Dtype::boolean ? Dtype::boolean : dtype;
    const int here = cuda::compute_capability(0).value_or(0);
    bool serves = false;
    for (const Kernel<AttentionProblem>& k : p.kernels())
      serves = serves || (k.name == kernel && k.reject(p).empty() &&
                          (k.capability == 0 || k.capability == here));
    if (!serves) continue;
    verify::TestTensors before;
    const auto specs = p.specs();
    for (std::size_t i = 0; i < p.info().operands.size(); ++i) {
      if (p.info().operands[i].name == "mask" && !p.mask) {
        before.emplace_back();
        continue;
      }
      HostTensor t(specs[i].dtype, specs[i].shape);
      verify::fill(t, fill, 11 + i, 0);
      if (i == spoilt_operand) spoil(t, spoilt);
      before.emplace_back(std::move(t));
    }
    std::vector<verify::DeviceRun> runs = {laid_out(Layout::contiguous), laid_out(Layout::sliced),
                                           laid_out(Layout::contiguous)};
    for (verify::DeviceRun& run : runs) run.preference.kernel = kernel;
    runs[2].replays = 2;
    SCOPED_TRACE(std::string(kernel) + " " + std::string(p.info().name) + " " +
                 std::string(name(dtype)) + " " + to_string(p.q) + " " + to_string(p.v) +
                 (fill == Fill::normal ? "" : " adversarial"));
    verify::expect_cpu_bits(p, before, runs);
    ++tried;
  }
  const bool any = kernel == "cuda:mma_sync" || cuda::compute_capability(0).value_or(0) == 90;
  EXPECT_TRUE(tried >= 14 || !any) << kernel << ": " << tried;
}
void expect_cpu_bits(AttentionKind kind, Dtype dtype, Fill fill, std::size_t spoilt_operand = 99,
                     std::int64_t spoilt = 0) {
  for (const std::string_view kernel : {"cuda:warpgroups", "cuda:mma_sync"})
    expect_cpu_bits_by(kernel, kind, dtype, fill, spoilt_operand, spoilt);
}

TEST(AttentionCuda, ForwardOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention, Dtype::bf16, Fill::normal);
}
TEST(AttentionCuda, ForwardOfF16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention, Dtype::f16, Fill::normal);
}
TEST(AttentionCuda, ForwardOfAnything) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention, Dtype::bf16, Fill::adversarial);
}
// A score that is NaN makes its row NaN whatever comes after it; a weight of 0 does not.
TEST(AttentionCuda, OneNaNAmongNumbers) {
  PLANCK_NEEDS_GPU();
  using namespace attention_operand;
  for (const std::int64_t row : {5, 200}) {
    expect_cpu_bits(AttentionKind::attention, Dtype::bf16, Fill::normal, k, row);
    expect_cpu_bits(AttentionKind::attention, Dtype::bf16, Fill::normal, v, row);
    expect_cpu_bits(AttentionKind::attention, Dtype::f16, Fill::normal, q, row);
    for (const std::size_t operand :
         {std::size_t{q}, std::size_t{k}, std::size_t{v}, std::size_t{dy}})
      expect_cpu_bits(AttentionKind::attention_backward, Dtype::bf16, Fill::normal, operand, row);
  }
}
TEST(AttentionCuda, BackwardOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention_backward, Dtype::bf16, Fill::normal);
}
TEST(AttentionCuda, BackwardOfF16) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention_backward, Dtype::f16, Fill::normal);
}
TEST(AttentionCuda, BackwardOfAnything) {
  PLANCK_NEEDS_GPU();
  expect_cpu_bits(AttentionKind::attention_backward, Dtype::f16, Fill::adversarial);
}

}  // namespace
}  // namespace planck
