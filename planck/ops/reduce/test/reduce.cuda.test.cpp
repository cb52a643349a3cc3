// The CUDA kernels of the reduce family against the CPU's, bit for bit: shapes on both sides of
// every border between kernels, views, graphs, repeats, and more than 2^31 elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/ops/reduce/reduce.problem.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::DeviceRun;
using verify::Fill;
using verify::HostTensor;
using verify::Layout;
using verify::TestTensors;

ReduceProblem problem(ReduceKind kind, Dtype dtype, const Shape& shape, unsigned axes) {
  ReduceProblem p;
  p.kind = kind;
  p.element_dtype = dtype;
  p.shape = shape;
  p.axes = axes;
  return p;
}

// x with values, outputs without.
TestTensors make_tensors(const ReduceProblem& p, Fill how, std::uint64_t seed) {
  const auto specs = p.specs();
  TestTensors all(p.info().operands.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = HostTensor(specs[i].dtype, specs[i].shape);
    if (p.info().operands[i].role == Role::input)
      fill(*all[i], is_float(all[i]->dtype) ? how : Fill::integers, seed, i);
  }
  return all;
}

// Runs the default CUDA kernel, `repeats` times alone and once as a graph, and compares every
// output with the CPU's.
void check(const ReduceProblem& p, Fill how, std::uint64_t seed, Layout layout = Layout::contiguous,
           std::size_t repeats = 1, const std::function<void(HostTensor&)>& edit = {}) {
  SCOPED_TRACE(std::string(p.info().name) + " " + std::string(name(p.element_dtype)) + " " +
               to_string(p.shape) + " axes=" + std::to_string(p.axes) + " " +
               std::string(verify::name(layout)) + " " + std::string(verify::name(how)));
  TestTensors before = make_tensors(p, how, seed);
  if (edit) edit(*before[0]);
  std::vector<DeviceRun> runs(repeats + 1, verify::laid_out(layout));
  runs.back().replays = 1;
  verify::expect_cpu_bits(p, before, runs);
}

constexpr ReduceKind kKinds[] = {ReduceKind::sum,  ReduceKind::max,       ReduceKind::argmax,
                                 ReduceKind::var,  ReduceKind::logsumexp, ReduceKind::min,
                                 ReduceKind::mean, ReduceKind::prod,      ReduceKind::argmin};
// The first five have kernels of their own; the others take turns.
bool is_due(ReduceKind kind, std::uint64_t turn) {
  const auto at = static_cast<std::uint64_t>(std::find(kKinds, std::end(kKinds), kind) - kKinds);
  return at < 5 || at - 5 == turn % 4;
}
bool takes(ReduceKind kind, Dtype dtype) {
  return is_float(dtype) ||
         (kind != ReduceKind::var && kind != ReduceKind::logsumexp && kind != ReduceKind::mean);
}
// Long products overflow: only NaN and Inf would be compared.
Fill values_for(ReduceKind kind, std::uint64_t seed) {
  return seed % 3 == 0 && kind != ReduceKind::prod ? Fill::adversarial : Fill::uniform;
}

class ReduceCuda : public testing::TestWithParam<Dtype> {};

// Rows: parts of a warp, a warp, several warps, several turns, several blocks.
TEST_P(ReduceCuda, RowsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 0, turn = 0;
  for (std::int64_t length : {1,    2,    5,    31,   64,    65,    127,   128,   256,  500,
                              512,  513,  1000, 1024, 1025,  1027,  2048,  2056,  4096, 4100,
                              8191, 8192, 8200, 8201, 16384, 16400, 20000, 33000, 70001})
    for (std::int64_t rows : {1, 3, 9}) {
      if (length < 1000 && rows == 9) rows = 133;
      ++turn;
      for (ReduceKind kind : kKinds) {
        if (!takes(kind, GetParam()) || !is_due(kind, turn)) continue;
        ++seed;
        const ReduceProblem p = problem(kind, GetParam(), {rows, length}, 2);
        check(p, values_for(kind, seed), seed);
        if (length < 10000 && seed % 2 == 0)  // not those that broadcast
          check(p, values_for(kind, seed), seed, verify::kAllLayouts[1 + seed / 2 % 7]);
      }
    }
}

// Columns: one block or several below one another, odd widths.
TEST_P(ReduceCuda, ColumnsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    std::int64_t outer, length, inner;
  };
  const Size sizes[] = {
      {1, 1, 5},     {1, 2, 40},    {3, 63, 33},   {1, 64, 4},     {7, 65, 8},     {1, 100, 1},
      {1, 257, 130}, {2, 300, 32},  {2, 511, 16},  {1, 512, 36},   {1, 513, 260},  {3, 1000, 17},
      {1, 1024, 64}, {1, 1025, 64}, {1, 2047, 12}, {1, 2049, 128}, {1, 4096, 31},  {2, 4097, 24},
      {1, 8191, 40}, {1, 8192, 8},  {1, 8193, 48}, {1, 16384, 4},  {1, 20000, 20}, {1, 40000, 12},
      {1, 70001, 2}, {300, 70, 6},  {40, 600, 18}, {1, 300, 4100}, {1, 70, 10000}};
  std::uint64_t seed = 0, turn = 0;
  for (const Size& s : sizes) {
    ++turn;
    for (ReduceKind kind : kKinds) {
      if (!takes(kind, GetParam()) || !is_due(kind, turn)) continue;
      ++seed;
      const ReduceProblem p = problem(kind, GetParam(), {s.outer, s.length, s.inner}, 2);
      check(p, values_for(kind, seed), seed);
      if (seed % 2 == 0)
        check(p, values_for(kind, seed), seed, verify::kAllLayouts[1 + seed / 2 % 7]);
    }
  }
}

// Long and wide: all rows to a block (where lines are about as many as the device has places), or
// chunks; the last line and the last rows not whole.
TEST_P(ReduceCuda, TallColumnsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    std::int64_t outer, length, inner;
  };
  const Size sizes[] = {{1, 1023, 520}, {1, 1024, 256},  {2, 1500, 264},  {3, 1040, 576},
                        {1, 5001, 264}, {1, 33000, 256}, {1, 1900, 3136}, {1, 1024, 6272}};
  std::uint64_t seed = 0;
  for (const Size& s : sizes)
    for (ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::mean, ReduceKind::max,
                            ReduceKind::min, ReduceKind::argmax, ReduceKind::argmin}) {
      if (!takes(kind, GetParam())) continue;
      ++seed;
      check(problem(kind, GetParam(), {s.outer, s.length, s.inner}, 2), values_for(kind, seed),
            seed);
    }
}

// Chunks, warps' shares of them and parts, on both sides of their borders; few groups and many.
TEST_P(ReduceCuda, ChunksHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 0;
  for (ReduceKind kind : {ReduceKind::var, ReduceKind::logsumexp}) {
    if (!takes(kind, GetParam())) continue;
    for (std::int64_t length :
         {16, 17, 100, 255, 256, 257, 511, 513, 1023, 1025, 1536, 2049, 5000, 8193, 16385, 262145})
      for (std::int64_t groups : {1, 7, 100, 2000}) {
        if (length * groups > 700'000) continue;
        ++seed;
        const ReduceProblem rows = problem(kind, GetParam(), {groups, length}, 2);
        const ReduceProblem columns = problem(kind, GetParam(), {length, groups}, 1);
        check(rows, values_for(kind, seed), seed);
        check(columns, values_for(kind, seed), seed);
        if (length * groups > 100'000) continue;
        check(rows, Fill::normal, seed, verify::kAllLayouts[1 + seed % 7]);
        check(columns, Fill::normal, seed, verify::kAllLayouts[1 + seed % 7]);
      }
  }
}

// Groups whose chunks are -Inf, +Inf, NaN, all negative, far apart, or overflow.
TEST_P(ReduceCuda, UnusualChunksHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  constexpr std::int64_t kGroups = 10;
  const double infinity = HUGE_VAL;
  const auto edited = [&](std::int64_t group, std::int64_t i, double x) {
    switch (group) {
      case 0:
        return -infinity;
      case 1:
        return i < 512 ? -infinity : x;
      case 2:
        return i / 512 == 1 ? -infinity : x;
      case 3:
        return i == 700 ? infinity : i < 512 ? -infinity : x;
      case 4:
        return i == 1999 ? std::nan("") : x;
      case 5:
        return i == 3 ? -std::nan("") : -1 - std::fabs(x);
      case 6:
        return -1 - std::fabs(x);
      case 7:
        return x + 200 * static_cast<double>(i / 512 % 3) - 300;
      case 8:
        return x * 200;
      default:
        return 60000 + 1000 * x;
    }
  };
  for (ReduceKind kind : {ReduceKind::var, ReduceKind::logsumexp}) {
    if (!takes(kind, GetParam())) continue;
    for (std::int64_t length : {200, 512, 700, 2000, 20000})
      for (unsigned axes : {1u, 2u}) {
        const Shape shape = axes == 2u ? Shape{kGroups, length} : Shape{length, kGroups};
        check(problem(kind, GetParam(), shape, axes), Fill::normal, 1, Layout::contiguous, 1,
              [&](HostTensor& x) {
                for (std::int64_t g = 0; g < kGroups; ++g)
                  for (std::int64_t i = 0; i < length; ++i) {
                    const std::int64_t at = axes == 2u ? g * length + i : i * kGroups + g;
                    x.set_number(at, edited(g, i, x.number(at)));
                  }
              });
      }
  }
}

TEST_P(ReduceCuda, SeveralAxesHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 0;
  for (const Shape& shape : {Shape{3, 70, 5, 24}, Shape{2, 3, 300, 7}, Shape{20, 2, 64, 33}})
    for (unsigned axes : {1u, 5u, 6u, 10u, 7u, 12u, 15u})
      for (ReduceKind kind : kKinds) {
        if (!takes(kind, GetParam())) continue;
        const bool finds = kind == ReduceKind::argmax || kind == ReduceKind::argmin;
        if (finds && axes != 1u && axes != 15u) continue;
        ++seed;
        const ReduceProblem p = problem(kind, GetParam(), shape, axes);
        check(p, values_for(kind, seed), seed);
        check(p, values_for(kind, seed), seed, verify::kAllLayouts[1 + seed % 7]);
      }
}

TEST_P(ReduceCuda, ScansHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 0;
  for (std::int64_t length : {1, 33, 100, 1024, 1030, 8191, 8200, 20011})
    for (std::int64_t others : {3, 255, 290}) {
      if (length > 2000 && others > 3) continue;
      for (ReduceKind kind : {ReduceKind::cumsum, ReduceKind::cummax, ReduceKind::cummin})
        for (unsigned axes : {1u, 2u}) {
          ++seed;
          const Shape shape = axes == 2u ? Shape{others, length} : Shape{length, others};
          ReduceProblem p = problem(kind, GetParam(), shape, axes);
          p.reverse = kind == ReduceKind::cumsum && seed % 4 >= 2;
          check(p, values_for(kind, seed), seed);
          if (seed % 5 < 2)
            check(p, values_for(kind, seed), seed, verify::kAllLayouts[1 + seed / 5 % 7]);
        }
    }
  // Many columns: a thread has two where they are pairs.
  for (std::int64_t length : {1, 40, 300})
    for (std::int64_t others : {8192, 8195, 8198})
      for (ReduceKind kind : {ReduceKind::cumsum, ReduceKind::cummax, ReduceKind::cummin}) {
        ++seed;
        const ReduceProblem p = problem(kind, GetParam(), {length, others}, 1);
        check(p, values_for(kind, seed), seed);
        check(p, values_for(kind, seed), seed, verify::kAllLayouts[1 + seed % 7]);
      }
}
INSTANTIATE_TEST_SUITE_P(All, ReduceCuda,
                         testing::Values(Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16,
                                         Dtype::i32, Dtype::i64),
                         [](const auto& of) { return std::string(name(of.param)); });

TEST(ReduceCudaRepeats, TwentyRunsGiveTheSameBits) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 0;
  for (ReduceKind kind : kKinds)
    for (unsigned axes : {1u, 2u, 3u}) {
      if (!is_due(kind, 1)) continue;
      ++seed;
      check(problem(kind, seed % 2 == 0 ? Dtype::bf16 : Dtype::f32, {1048, 520}, axes),
            Fill::uniform, seed, Layout::contiguous, 20);
    }
}

// x [2^31 / 4096 + 100, 4096] of bf16, on the device alone. Its first and last rows have values,
// the rest are the bytes of one small number: what the CPU makes of a few rows tells the result.
TEST(ReduceCudaLong, MoreThan31Bits) {
  PLANCK_NEEDS_TIME();
  constexpr std::int64_t kWidth = 4096, kRows = (std::int64_t{1} << 31) / kWidth + 100, kEnd = 64;
  const Shape shape = {kRows, kWidth};
  const Stream stream = Stream::cuda().value();
  const auto x = allocate(stream, static_cast<std::size_t>(kRows * kWidth) * 2);
  ASSERT_TRUE(x.has_value());
  ASSERT_TRUE(cuda::fill(0, stream.native(), x->data(), 0xb0, x->bytes()).has_value());  // -1.28e-9
  HostTensor end(Dtype::bf16, {kEnd, kWidth});
  fill(end, Fill::uniform, 1, 0);
  auto* bytes = static_cast<std::byte*>(x->data());
  for (std::int64_t at : {std::int64_t{0}, kRows - kEnd})
    ASSERT_TRUE(cuda::copy_to_device(0, stream.native(), bytes + at * kWidth * 2, end.bytes.data(),
                                     end.bytes.size())
                    .has_value());
  const auto reduced = [&](ReduceKind kind, unsigned axes) {
    const ReduceProblem p = problem(kind, Dtype::bf16, shape, axes);
    const auto plan = Selection<ReduceProblem>::select(stream, p);
    EXPECT_TRUE(plan) << plan.error().message;
    const auto workspace = allocate(stream, plan->workspace_size());
    HostTensor result(p.out_dtype(), p.out_shape());
    const auto out = allocate(stream, result.bytes.size());
    EXPECT_TRUE(workspace && out);
    const auto ran =
        plan->run(stream, {workspace->data(), workspace->bytes()},
                  {View{x->data(), Dtype::bf16, shape, row_major(shape), true},
                   View{out->data(), result.dtype, result.shape, row_major(result.shape), true}});
    EXPECT_TRUE(ran.has_value());
    EXPECT_TRUE(
        cuda::copy_to_host(0, stream.native(), result.bytes.data(), out->data(), out->bytes()));
    EXPECT_TRUE(stream.synchronize().has_value());
    return result;
  };
  for (ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::argmax, ReduceKind::var,
                          ReduceKind::logsumexp}) {
    // Rows: those at both ends are those of the small tensor, all others the same.
    const ReduceProblem few = problem(kind, Dtype::bf16, {kEnd, kWidth}, 2);
    TestTensors small = make_tensors(few, Fill::uniform, 1);
    small[0] = end;
    const HostTensor expected = *verify::after_run(Stream::cpu(), few, small)[1],
                     rows = reduced(kind, 2);
    for (std::int64_t r = 0; r < kEnd; ++r) {
      ASSERT_EQ(rows.number(r), expected.number(r)) << r;
      ASSERT_EQ(rows.number(kRows - kEnd + r), expected.number(r)) << r;
    }
    for (std::int64_t r = kEnd; r < kRows - kEnd; ++r)
      ASSERT_EQ(rows.number(r), rows.number(kEnd)) << r;
  }
  // Columns and all: a tensor of one value but for an element at the end.
  ASSERT_TRUE(cuda::fill(0, stream.native(), x->data(), 0x00, x->bytes()).has_value());
  const std::int64_t at = kRows * kWidth - 3;
  const bf16 one(1.0f);
  ASSERT_TRUE(cuda::copy_to_device(0, stream.native(), bytes + at * 2, &one, 2).has_value());
  for (unsigned axes : {1u, 3u}) {
    const HostTensor sums = reduced(ReduceKind::sum, axes), most = reduced(ReduceKind::max, axes),
                     places = reduced(ReduceKind::argmax, axes);
    for (std::int64_t i = 0; i < sums.count(); ++i) {
      const bool here = axes == 3u || i == kWidth - 3;
      ASSERT_EQ(sums.number(i), here ? 1.0 : 0.0) << i;
      ASSERT_EQ(most.number(i), here ? 1.0 : 0.0) << i;
      ASSERT_EQ(places.number(i), here ? static_cast<double>(axes == 3u ? at : kRows - 1) : 0.0)
          << i;
    }
  }
}

}  // namespace
}  // namespace planck
