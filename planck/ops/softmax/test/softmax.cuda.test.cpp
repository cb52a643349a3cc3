// The CUDA kernels of softmax and cross_entropy against the CPU's, bit for bit: every way a row may
// be held, every layout, more rows than blocks, repeats, replay from a graph, and more than 2^31
// elements.
#include "planck/loops/rows/test/rows.cuda.test.h"
#include "planck/ops/softmax/softmax.problem.h"

namespace planck {
namespace {

using namespace rows_test;

constexpr RowFamily kFamily{OpCategory::softmax, verify::softmax_example, verify::softmax_hostile};

TEST(SoftmaxCuda, EveryLengthHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_every_length(kFamily);
}

TEST(SoftmaxCuda, EveryLayoutHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_every_layout(kFamily);
}

TEST(SoftmaxCuda, ManyRowsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_many_rows(kFamily);
}

TEST(SoftmaxCuda, RepeatsGiveTheSameBits) {
  PLANCK_NEEDS_GPU();
  expect_repeats(kFamily);
}

TEST(SoftmaxCuda, GraphsReplayTheSameBits) {
  PLANCK_NEEDS_GPU();
  expect_replays(kFamily);
}

// Bells far from 0 and rows of one sign: what is known of exponentials' arguments differs.
TEST(SoftmaxCuda, RowsOfOneSignHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const char* op : {"softmax", "log_softmax", "cross_entropy"})
    for (const Dtype dtype : kFloats)
      for (const double shift : {-300.0, -40.0, -3.0, 3.0, 90.0})
        for (const std::int64_t length : {64, 1024, 5000, 32768}) {
          Case c = kFamily.plain(op, dtype, 4, length);
          static double moved;
          moved = shift;
          c.prepare = {"moved", [](const Case&, verify::NamedTensors& inputs) {
                         HostTensor& x = inputs.find("x")->second;
                         for (std::int64_t i = 0; i < x.count(); ++i)
                           x.set_number(i, x.number(i) * (i % 3 == 0 ? 1 : 20) + moved);
                       }};
          OnBoth(c, stream).expect_same(Layout::contiguous);
        }
}

// A warp has more tiles of such a row than lanes.
TEST(SoftmaxCuda, LongRowsOfLogitsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const auto& [dtype, length] :
       {std::pair{Dtype::f32, std::int64_t{700008}}, std::pair{Dtype::bf16, std::int64_t{4300008}},
        std::pair{Dtype::f16, std::int64_t{2097160}}}) {
    OnBoth(kFamily.plain("cross_entropy", dtype, 2, length), stream)
        .expect_same(Layout::contiguous);
    OnBoth(kFamily.hostile("cross_entropy", dtype, 2, length, 1), stream)
        .expect_same(Layout::contiguous);
  }
}

// Where the argument of exp is near 0, far from it, or both in one run; a row that counts for
// nothing; a target in the last run.
TEST(SoftmaxCuda, LongRowsOfGradientsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const std::int64_t length : {32776, 50304, 70000})
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        Case c = kFamily.plain("cross_entropy_backward", dtype, 5, length);
        if (seed % 2 == 0) c = kFamily.hostile("cross_entropy_backward", dtype, 5, length, seed);
        static double scale;
        scale = seed == 1 ? 1 : seed == 3 ? 60 : 1000;
        if (seed % 2 == 1)
          c.prepare = {"scaled", [](const Case& of, verify::NamedTensors& inputs) {
                         HostTensor& x = inputs.find("x")->second;
                         for (std::int64_t i = 0; i < x.count(); ++i)
                           x.set_number(i, x.number(i) * scale);
                         inputs.find("targets")->second.set_pattern(
                             0, static_cast<std::uint64_t>(of.inputs[0].shape[1] - 1));
                       }};
        OnBoth(c, stream).expect_same(Layout::contiguous);
      }
}

Result<void> run_softmax(const Stream& stream, std::int64_t rows, const View& x, const View& y) {
  const auto plan = Selection<SoftmaxProblem>::select(
      stream, {SoftmaxKind::softmax, Dtype::bf16, {rows, kWide}, 1});
  if (!plan) return tl::unexpected(plan.error());
  return plan->run(stream, {}, {x, y});
}

TEST(SoftmaxCudaLong, SoftmaxOfMoreThan31BitsOfElements) {
  PLANCK_NEEDS_TIME();
  expect_large(run_softmax,
               kFamily.plain("softmax", Dtype::bf16, kLot, kWide).make_inputs().at("x"));
}

}  // namespace
}  // namespace planck
