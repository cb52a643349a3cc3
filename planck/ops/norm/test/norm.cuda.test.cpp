// The CUDA kernels of the norms against the CPU's, bit for bit: every way a row may be held, every
// layout, more rows than blocks, repeats, replay from a graph, and more than 2^31 elements.
#include "planck/loops/rows/test/rows.cuda.test.h"
#include "planck/ops/norm/norm.problem.h"

namespace planck {
namespace {

using namespace rows_test;

constexpr RowFamily kFamily{OpCategory::normalization, verify::norm_example, verify::norm_hostile};

TEST(NormCuda, EveryLengthHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_every_length(kFamily);
}

TEST(NormCuda, EveryLayoutHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_every_layout(kFamily);
}

TEST(NormCuda, ManyRowsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  expect_many_rows(kFamily);
}

TEST(NormCuda, RepeatsGiveTheSameBits) {
  PLANCK_NEEDS_GPU();
  expect_repeats(kFamily);
}

TEST(NormCuda, GraphsReplayTheSameBits) {
  PLANCK_NEEDS_GPU();
  expect_replays(kFamily);
}

Result<void> run_norm(const Stream& stream, std::int64_t rows, const View& x, const View& y) {
  const auto plan =
      Selection<NormProblem>::select(stream, {NormKind::layer_norm, Dtype::bf16, {rows, kWide}});
  const auto mean = OwnedTensor::empty(stream, Dtype::f32, {rows});
  const auto rstd = OwnedTensor::empty(stream, Dtype::f32, {rows});
  if (!plan || !mean || !rstd) return fail(ErrorCode::device, "no plan or no memory");
  const auto done = plan->run(stream, {}, {x, View{}, View{}, y, mean->view(), rstd->view()});
  return done ? stream.synchronize() : done;
}

TEST(NormCudaLong, LayerNormOfMoreThan31BitsOfElements) {
  PLANCK_NEEDS_TIME();
  expect_large(run_norm,
               kFamily.plain("layer_norm", Dtype::bf16, kLot, kWide).make_inputs().at("x"));
}

}  // namespace
}  // namespace planck
