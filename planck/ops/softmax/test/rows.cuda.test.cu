// The CUDA kernels of softmax, cross_entropy and the norms against the CPU's, bit for bit: every
// way a row may be held, every layout, more rows than blocks, repeats, replay from a graph, and
// more than 2^31 elements.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "planck/core/allocator.h"
#include "planck/core/cuda_runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/ops/norm/norm.problem.h"
#include "planck/ops/ops.h"
#include "planck/ops/softmax/softmax.problem.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/placed_run.h"

namespace planck {
namespace {

using verify::Case;
using verify::HostTensor;
using verify::Layout;
using verify::Outcome;

constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16};

std::vector<std::string> row_ops() {
  std::vector<std::string> names;
  for (const OpEntry& entry : all_ops())
    if (entry.info->category == OpCategory::softmax ||
        entry.info->category == OpCategory::normalization)
      names.emplace_back(entry.info->name);
  return names;
}

// One case, and what the CPU makes of it.
class OnBoth {
 public:
  OnBoth(const Case& c, const Stream& stream)
      : case_(c), inputs_(c.make_inputs()), stream_(stream) {
    auto problem = parse_problem(all_ops(), case_);
    EXPECT_TRUE(problem) << c.id();
    problem_ = std::move(*problem);
    subject_ = {&case_, problem_.get(), nullptr, problem_->specs()};
    const Stream host = Stream::cpu();
    auto there = problem_->select(host), here = problem_->select(stream_);
    EXPECT_TRUE(there && here) << c.id();
    there_ = std::move(*there);
    here_ = std::move(*here);
    subject_.plan = there_.get();
    expected_ = verify::execute(subject_, host, inputs_, {.what = "on the CPU", .layouts = {}});
    EXPECT_EQ(expected_.fault, "") << c.id();
    subject_.plan = here_.get();
  }

  // Every operand laid out so, where it can be.
  void expect_same(Layout layout) const {
    verify::Arrangement how{.what = "on CUDA", .layouts = {}};
    for (std::size_t i = 0; i < subject_.operands(); ++i)
      how.layouts.push_back(subject_.takes(i, inputs_)
                                ? verify::legal_layout(subject_, inputs_, i, layout)
                                : Layout::contiguous);
    expect_same(verify::execute(subject_, stream_, inputs_, how), verify::name(layout));
  }

  // Recorded once, done so many times.
  void expect_replays(int times) const {
    auto placed =
        verify::PlacedRun::make(subject_, stream_, inputs_, {.what = "a graph", .layouts = {}});
    ASSERT_TRUE(placed && stream_.synchronize() && cuda::begin_capture(0, stream_.native()));
    EXPECT_TRUE(placed->run());
    auto graph = cuda::end_capture(0, stream_.native());
    ASSERT_TRUE(graph) << graph.error().message;
    for (int k = 0; k < times; ++k) EXPECT_TRUE(cuda::replay(0, stream_.native(), *graph));
    expect_same(placed->finish(), "replayed");
    cuda::destroy_graph(*graph);
  }

 private:
  void expect_same(const Outcome& actual, std::string_view what) const {
    ASSERT_EQ(actual.fault, "") << case_.id() << " " << what;
    for (std::size_t i = 0; i < subject_.operands(); ++i)
      if (subject_.role(i) == Role::output && subject_.takes(i, inputs_))
        EXPECT_EQ(verify::bit_difference(expected_.outputs[i], actual.outputs[i]), "")
            << case_.id() << " " << what << " " << subject_.info().operands[i].name;
  }

  Case case_;
  verify::NamedTensors inputs_;
  Stream stream_;
  std::unique_ptr<AnyProblem> problem_;
  std::unique_ptr<AnyPlan> there_, here_;
  verify::Subject subject_{};
  Outcome expected_;
};

Case plain(const std::string& op, Dtype dtype, std::int64_t rows, std::int64_t length) {
  return *verify::softmax_example(op, {dtype, {}}, {rows, length});
}
Case hostile(const std::string& op, Dtype dtype, std::int64_t rows, std::int64_t length,
             std::uint64_t seed) {
  return *verify::softmax_hostile(op, {dtype, {}}, {rows, length}, seed);
}

// A lane, a warp and a block hold powers of two of elements, in runs of 16 bytes; past 32 Ki a row
// is read again.
constexpr std::int64_t kLengths[] = {1,    2,     3,     8,     31,    64,    120,   128,   136,
                                     248,  256,   264,   504,   512,   520,   1016,  1024,  1032,
                                     1500, 2048,  2056,  4088,  4096,  4100,  4104,  8192,  8200,
                                     9001, 16384, 16392, 20000, 32768, 32776, 33001, 65536, 65544};

TEST(RowsCuda, EveryLengthHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  std::uint64_t seed = 1;
  for (const std::string& op : row_ops())
    for (const Dtype dtype : kFloats)
      for (const std::int64_t length : kLengths) {
        OnBoth(plain(op, dtype, 1, length), stream).expect_same(Layout::contiguous);
        OnBoth(hostile(op, dtype, 3, length, seed++), stream).expect_same(Layout::contiguous);
      }
}

TEST(RowsCuda, EveryLayoutHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  std::uint64_t seed = 1;
  for (const std::string& op : row_ops())
    for (const Dtype dtype : kFloats)
      for (const std::int64_t length : {7, 64, 256, 1000, 4096, 8200, 17000}) {
        const OnBoth both(hostile(op, dtype, 6, length, seed++), stream);
        for (const Layout layout : {Layout::transposed, Layout::sliced, Layout::stepped,
                                    Layout::negative, Layout::misaligned})
          both.expect_same(layout);
      }
}

// Sums down the rows of many chunks, rows past the last whole block.
TEST(RowsCuda, ManyRowsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  struct Size {
    Dtype dtype;
    std::int64_t rows, length;
  };
  for (const std::string& op : row_ops())
    for (const Size& s :
         {Size{Dtype::f32, 60001, 8}, Size{Dtype::bf16, 9001, 40}, Size{Dtype::f32, 9003, 200},
          Size{Dtype::bf16, 3001, 512}, Size{Dtype::f32, 2300, 1096}, Size{Dtype::bf16, 530, 4096},
          Size{Dtype::f32, 100, 8192}, Size{Dtype::bf16, 20, 32768}})
      OnBoth(plain(op, s.dtype, s.rows, s.length), stream).expect_same(Layout::contiguous);
}

// Bells far from 0 and rows of one sign: what is known of exponentials' arguments differs.
TEST(RowsCuda, RowsOfOneSignHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const char* op : {"softmax", "log_softmax", "cross_entropy"})
    for (const Dtype dtype : kFloats)
      for (const double shift : {-300.0, -40.0, -3.0, 3.0, 90.0})
        for (const std::int64_t length : {64, 1024, 5000, 32768}) {
          Case c = plain(op, dtype, 4, length);
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
TEST(RowsCuda, LongRowsOfLogitsHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const auto& [dtype, length] :
       {std::pair{Dtype::f32, std::int64_t{700008}}, std::pair{Dtype::bf16, std::int64_t{4300008}},
        std::pair{Dtype::f16, std::int64_t{2097160}}}) {
    OnBoth(plain("cross_entropy", dtype, 2, length), stream).expect_same(Layout::contiguous);
    OnBoth(hostile("cross_entropy", dtype, 2, length, 1), stream).expect_same(Layout::contiguous);
  }
}

TEST(RowsCuda, RepeatsGiveTheSameBits) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const std::string& op : row_ops())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const std::int64_t length : {256, 4096, 32768}) {
        const OnBoth both(plain(op, dtype, 320000 / length, length), stream);
        for (int repeat = 0; repeat < 20; ++repeat) both.expect_same(Layout::contiguous);
      }
}

TEST(RowsCuda, GraphsReplayTheSameBits) {
  PLANCK_NEEDS_GPU();
  const Stream stream = Stream::cuda().value();
  for (const std::string& op : row_ops())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const std::int64_t length : {100, 4096, 20000})
        OnBoth(plain(op, dtype, 70, length), stream).expect_replays(3);
}

// ---- more than 2^31 elements: three lots of rows, one of them across the 2^31st, are compared
// ----

constexpr std::int64_t kWide = 8192, kTall = (std::int64_t{1} << 31) / kWide + 100, kLot = 64;
constexpr std::int64_t kStarts[] = {0, kTall - 100 - kLot / 2, kTall - kLot};

// What is done with operands of so many rows, x first: its y, on the stream's device.
using RunRows = Result<void> (*)(const Stream&, std::int64_t rows, const View& x, const View& y);

Result<void> run_softmax(const Stream& stream, std::int64_t rows, const View& x, const View& y) {
  const auto plan = Selection<SoftmaxProblem>::select(
      stream, {SoftmaxKind::softmax, Dtype::bf16, {rows, kWide}, 1});
  if (!plan) return tl::unexpected(plan.error());
  return plan->run(stream, {}, {x, y});
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

void expect_large(RunRows run) {
  const Stream stream = Stream::cuda().value(), host = Stream::cpu();
  const HostTensor lot = plain("softmax", Dtype::bf16, kLot, kWide).make_inputs().at("x");
  const std::size_t bytes = lot.bytes.size();
  auto part = OwnedTensor::empty(host, Dtype::bf16, {kLot, kWide});
  auto expected = OwnedTensor::empty(host, Dtype::bf16, {kLot, kWide});
  auto x = OwnedTensor::empty(stream, Dtype::bf16, {kTall, kWide});
  auto y = OwnedTensor::empty(stream, Dtype::bf16, {kTall, kWide});
  ASSERT_TRUE(part && expected && x && y);
  std::memcpy(part->data(), lot.bytes.data(), bytes);
  ASSERT_TRUE(run(host, kLot, part->view(), expected->view()));
  ASSERT_TRUE(cuda::fill(0, stream.native(), x->data(), 0, x->bytes()));
  ASSERT_TRUE(cuda::fill(0, stream.native(), y->data(), 0xa5, y->bytes()));
  for (const std::int64_t start : kStarts)
    ASSERT_TRUE(cuda::copy_to_device(0, stream.native(), x->as<bf16>() + start * kWide,
                                     part->data(), bytes));
  const auto done = run(stream, kTall, x->view(), y->view());
  ASSERT_TRUE(done) << done.error().message;
  for (const std::int64_t start : kStarts) {
    std::vector<std::byte> got(bytes);
    ASSERT_TRUE(
        cuda::copy_to_host(0, stream.native(), got.data(), y->as<bf16>() + start * kWide, bytes));
    ASSERT_TRUE(stream.synchronize());
    EXPECT_EQ(std::memcmp(got.data(), expected->data(), bytes), 0) << start;
  }
}

TEST(RowsCudaLong, SoftmaxOfMoreThan31BitsOfElements) {
  PLANCK_NEEDS_TIME();
  expect_large(run_softmax);
}

TEST(RowsCudaLong, LayerNormOfMoreThan31BitsOfElements) {
  PLANCK_NEEDS_TIME();
  expect_large(run_norm);
}

}  // namespace
}  // namespace planck
