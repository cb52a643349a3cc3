// cuda:warpgroups, cuda:mma_sync and cuda:tiles against the CPU's bits: whole and broken tiles of
// queries and keys, several tiles and stages, heads of every width of tiles, groups, limits, what
// scores become, and rows that have to be done again.
#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <span>

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

// Of cuda:tiles besides: a piece of keys or values, and one more or less; widths between those of
// tiles, and those of which 16 bytes are no whole part; steps that end in a tile.
const Heads kMoreHeads[] = {
    {1, 1, 1, 1, 1, 1, 1},
    {1, 1, 1, 64, 128, 32, 32},
    {2, 3, 3, 63, 127, 31, 32},
    {1, 2, 1, 65, 129, 33, 17},
    {3, 4, 4, 128, 128, 32, 32, {.causal = true}},
    {1, 2, 2, 257, 257, 40, 40, {.causal = true}},
    {1, 2, 1, 100, 161, 65, 64, {.causal = true, .window = 40}},
    {1, 2, 2, 96, 224, 127, 126},
    {1, 1, 1, 70, 200, 100, 36, {}, Dtype::f32},
    {1, 4, 2, 129, 191, 24, 24, {.causal = true, .window = 64}, Dtype::boolean},
    {1, 2, 1, 130, 70, 32, 32, {.causal = true}, Dtype::f32},
    {1, 3, 3, 70, 140, 48, 80, {.causal = true, .soft_cap = 2, .dropout = 0.5}, Dtype::f32},
    {1, 6, 2, 90, 90, 32, 32, {.causal = true, .alibi = true, .dropout = 0.1, .seed = 5}},
};

// Of a mask that is added: every third key is hidden, and all keys of two queries.
void hide(HostTensor& mask) {
  const std::int64_t keys = mask.shape[3], queries = mask.shape[2];
  for (std::int64_t i = 0; i < mask.count(); ++i)
    if (const std::int64_t query = i / keys % queries; i % 3 == 0 || query == 1 || query == 66)
      mask.set_number(i, -std::numeric_limits<double>::infinity());
}

// One element of row `row` of an operand, of all heads of the first batch.
void spoil(HostTensor& x, std::int64_t row, double value) {
  const std::int64_t rows = x.shape[2], width = x.shape[3];
  for (std::int64_t head = 0; head < x.shape[1] && row < rows; ++head)
    x.set_number((head * rows + row) * width + width - 1, value);
}

struct Spoilt {
  std::size_t operand = 99;  // none
  std::int64_t row = 0;
  double value = std::numeric_limits<double>::quiet_NaN();
};

bool takes(std::string_view kernel, const AttentionProblem& p) {
  for (const Kernel<AttentionProblem>& k : p.kernels())
    if (k.name == kernel && k.reject(p).empty())
      return k.capability == 0 || k.capability == cuda::compute_capability(0).value_or(0);
  return false;
}

// `least`: that many of them must be served.
void expect_cpu_bits(std::string_view kernel, std::span<const Heads> heads, int least,
                     AttentionKind kind, Dtype dtype, Fill fill, const Spoilt& spoilt = {},
                     std::initializer_list<Layout> layouts = {Layout::contiguous, Layout::sliced}) {
  int tried = 0;
  for (const Heads& x : heads) {
    AttentionProblem p{
        kind,      dtype, {x.n, x.h, x.l, x.d}, {x.n, x.g, x.s, x.d}, {x.n, x.g, x.s, x.e},
        x.options, {}};
    if (x.mask) p.mask = *x.mask == Dtype::boolean ? Dtype::boolean : dtype;
    if (!takes(kernel, p)) continue;
    verify::TestTensors before;
    const auto specs = p.specs();
    for (std::size_t i = 0; i < p.info().operands.size(); ++i) {
      if (p.info().operands[i].name == "mask" && !p.mask) {
        before.emplace_back();
        continue;
      }
      HostTensor t(specs[i].dtype, specs[i].shape);
      verify::fill(t, fill, 11 + i, 0);
      if (p.info().operands[i].name == "mask" && dtype == Dtype::f32 && *p.mask == dtype) hide(t);
      if (i == spoilt.operand) spoil(t, spoilt.row, spoilt.value);
      before.emplace_back(std::move(t));
    }
    std::vector<verify::DeviceRun> runs;
    for (const Layout layout : layouts) runs.push_back(laid_out(layout));
    runs.push_back(laid_out(Layout::contiguous));
    runs.back().replays = 2;
    for (verify::DeviceRun& run : runs) run.preference.kernel = kernel;
    SCOPED_TRACE(std::string(kernel) + " " + std::string(p.info().name) + " " +
                 std::string(name(dtype)) + " " + to_string(p.q) + " " + to_string(p.v) + " " +
                 std::string(verify::name(fill)));
    verify::expect_cpu_bits(p, before, runs);
    ++tried;
  }
  EXPECT_GE(tried, least) << kernel;
}

void expect_tensor_cores(AttentionKind kind, Dtype dtype, Fill fill, const Spoilt& spoilt = {}) {
  const bool hopper = cuda::compute_capability(0).value_or(0) == 90;
  expect_cpu_bits("cuda:warpgroups", kHeads, hopper ? 14 : 0, kind, dtype, fill, spoilt);
  expect_cpu_bits("cuda:mma_sync", kHeads, 14, kind, dtype, fill, spoilt);
}

TEST(AttentionCuda, ForwardOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention, Dtype::bf16, Fill::normal);
}
TEST(AttentionCuda, ForwardOfF16) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention, Dtype::f16, Fill::normal);
}
TEST(AttentionCuda, ForwardOfAnything) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention, Dtype::bf16, Fill::adversarial);
}
// A score that is NaN makes its row NaN whatever comes after it; a weight of 0 does not.
TEST(AttentionCuda, OneNaNAmongNumbers) {
  PLANCK_NEEDS_GPU();
  using namespace attention_operand;
  for (const std::int64_t row : {5, 200}) {
    expect_tensor_cores(AttentionKind::attention, Dtype::bf16, Fill::normal, {k, row});
    expect_tensor_cores(AttentionKind::attention, Dtype::bf16, Fill::normal, {v, row});
    expect_tensor_cores(AttentionKind::attention, Dtype::f16, Fill::normal, {q, row});
    for (const std::size_t operand :
         {std::size_t{q}, std::size_t{k}, std::size_t{v}, std::size_t{dy}})
      expect_tensor_cores(AttentionKind::attention_backward, Dtype::bf16, Fill::normal,
                          {operand, row});
  }
}
TEST(AttentionCuda, BackwardOfBf16) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention_backward, Dtype::bf16, Fill::normal);
}
TEST(AttentionCuda, BackwardOfF16) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention_backward, Dtype::f16, Fill::normal);
}
TEST(AttentionCuda, BackwardOfAnything) {
  PLANCK_NEEDS_GPU();
  expect_tensor_cores(AttentionKind::attention_backward, Dtype::f16, Fill::adversarial);
}

// cuda:tiles, forward and backward apart, so that what fails says which.
class AttentionTiles : public testing::TestWithParam<AttentionKind> {
 protected:
  static void expect(Fill fill, const Spoilt& spoilt = {},
                     std::initializer_list<Layout> layouts = {Layout::contiguous, Layout::sliced}) {
    expect_cpu_bits("cuda:tiles", kHeads, 14, GetParam(), Dtype::f32, fill, spoilt, layouts);
    expect_cpu_bits("cuda:tiles", kMoreHeads, 13, GetParam(), Dtype::f32, fill, spoilt, layouts);
    if (GetParam() == AttentionKind::attention_backward && spoilt.operand == Spoilt().operand)
      for (const std::span<const Heads> heads :
           {std::span<const Heads>(kHeads), std::span<const Heads>(kMoreHeads)})
        expect_cpu_bits("cuda:tiles:twice", heads, 13, GetParam(), Dtype::f32, fill, spoilt,
                        layouts);
  }
};
INSTANTIATE_TEST_SUITE_P(, AttentionTiles,
                         testing::Values(AttentionKind::attention,
                                         AttentionKind::attention_backward),
                         [](const auto& kind) {
                           return kind.param == AttentionKind::attention ? "Forward" : "Backward";
                         });

TEST_P(AttentionTiles, Numbers) {
  PLANCK_NEEDS_GPU();
  expect(Fill::normal);
}
TEST_P(AttentionTiles, AnyLayout) {
  PLANCK_NEEDS_GPU();
  expect(Fill::normal, {},
         {Layout::transposed, Layout::channels_last, Layout::stepped, Layout::negative,
          Layout::misaligned});
}
TEST_P(AttentionTiles, SumsThatCancel) {
  PLANCK_NEEDS_GPU();
  expect(Fill::cancelling);
  expect(Fill::wide);
}
TEST_P(AttentionTiles, Anything) {
  PLANCK_NEEDS_GPU();
  expect(Fill::rare);
  expect(Fill::adversarial);
}
TEST_P(AttentionTiles, OneNaNOrInfinityAmongNumbers) {
  PLANCK_NEEDS_GPU();
  using namespace attention_operand;
  const std::size_t operands[] = {q, k, v, dy};
  for (const std::int64_t row : {5, 66, 200})
    for (const std::size_t operand : operands)
      if (operand != dy || GetParam() == AttentionKind::attention_backward)
        for (const double value :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
          expect(Fill::normal, {operand, row, value}, {});
}

}  // namespace
}  // namespace planck
