// What the CUDA tests of softmax and of the norms share: every op of a family on both devices, bit
// for bit, in every way that a row may be held.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/placed_run.h"

namespace planck::rows_test {

using verify::Case;
using verify::HostTensor;
using verify::Layout;
using verify::Outcome;

inline constexpr Dtype kFloats[] = {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16};

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

  // Recorded once, replayed so many times.
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
      if (subject_.role(i) == Role::output && subject_.takes(i, inputs_)) {
        EXPECT_EQ(verify::bit_difference(expected_.outputs[i], actual.outputs[i]), "")
            << case_.id() << " " << what << " " << subject_.info().operands[i].name;
      }
  }

  Case case_;
  verify::NamedTensors inputs_;
  Stream stream_;
  std::unique_ptr<AnyProblem> problem_;
  std::unique_ptr<AnyPlan> there_, here_;
  verify::Subject subject_{};
  Outcome expected_;
};

// The ops of a category, and cases of its own lists.
struct RowFamily {
  OpCategory category;
  verify::ExampleCase* example_of;
  verify::HostileCase* hostile_of;

  std::vector<std::string> ops() const {
    std::vector<std::string> names;
    for (const OpEntry& entry : all_ops())
      if (entry.info->category == category) names.emplace_back(entry.info->name);
    return names;
  }
  Case plain(const std::string& op, Dtype dtype, std::int64_t rows, std::int64_t length) const {
    return example_of(op, {dtype, {}}, {rows, length}).value();
  }
  Case hostile(const std::string& op, Dtype dtype, std::int64_t rows, std::int64_t length,
               std::uint64_t seed) const {
    return hostile_of(op, {dtype, {}}, {rows, length}, seed).value();
  }
};

// A lane, a warp and a CUDA block hold 2^k elements, in runs of 16 bytes; past 32 Ki a row
// is read again.
inline constexpr std::int64_t kLengths[] = {
    1,    2,    3,    8,    31,    64,    120,   128,   136,   248,   256,   264,
    504,  512,  520,  1016, 1024,  1032,  1500,  2048,  2056,  4088,  4096,  4100,
    4104, 8192, 8200, 9001, 16384, 16392, 20000, 32768, 32776, 33001, 65536, 65544};

inline void expect_every_length(const RowFamily& family) {
  const Stream stream = Stream::cuda().value();
  std::uint64_t seed = 1;
  for (const std::string& op : family.ops())
    for (const Dtype dtype : kFloats)
      for (const std::int64_t length : kLengths) {
        OnBoth(family.plain(op, dtype, 1, length), stream).expect_same(Layout::contiguous);
        OnBoth(family.hostile(op, dtype, 3, length, seed++), stream)
            .expect_same(Layout::contiguous);
      }
}

inline void expect_every_layout(const RowFamily& family) {
  const Stream stream = Stream::cuda().value();
  std::uint64_t seed = 1;
  for (const std::string& op : family.ops())
    for (const Dtype dtype : kFloats)
      for (const std::int64_t length : {7, 64, 256, 1000, 4096, 8200, 17000}) {
        const OnBoth both(family.hostile(op, dtype, 6, length, seed++), stream);
        for (const Layout layout : {Layout::transposed, Layout::sliced, Layout::stepped,
                                    Layout::negative, Layout::misaligned})
          both.expect_same(layout);
      }
}

// Sums down the rows of many chunks, rows past the last whole CUDA block.
inline void expect_many_rows(const RowFamily& family) {
  const Stream stream = Stream::cuda().value();
  struct Size {
    Dtype dtype;
    std::int64_t rows, length;
  };
  for (const std::string& op : family.ops())
    for (const Size& s :
         {Size{Dtype::f32, 60001, 8}, Size{Dtype::bf16, 9001, 40}, Size{Dtype::f32, 9003, 200},
          Size{Dtype::bf16, 3001, 512}, Size{Dtype::f32, 2300, 1096}, Size{Dtype::bf16, 530, 4096},
          Size{Dtype::f32, 100, 8192}, Size{Dtype::bf16, 20, 32768}})
      OnBoth(family.plain(op, s.dtype, s.rows, s.length), stream).expect_same(Layout::contiguous);
}

inline void expect_repeats(const RowFamily& family) {
  const Stream stream = Stream::cuda().value();
  for (const std::string& op : family.ops())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const std::int64_t length : {256, 4096, 32768}) {
        const OnBoth both(family.plain(op, dtype, 320000 / length, length), stream);
        for (int repeat = 0; repeat < 20; ++repeat) both.expect_same(Layout::contiguous);
      }
}

inline void expect_replays(const RowFamily& family) {
  const Stream stream = Stream::cuda().value();
  for (const std::string& op : family.ops())
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16})
      for (const std::int64_t length : {100, 4096, 20000})
        OnBoth(family.plain(op, dtype, 70, length), stream).expect_replays(3);
}

// ---- more than 2^31 elements: three lots of rows, one across the 2^31st, are compared ----------

inline constexpr std::int64_t kWide = 8192, kTall = (std::int64_t{1} << 31) / kWide + 100;
inline constexpr std::int64_t kLot = 64;
inline constexpr std::int64_t kStarts[] = {0, kTall - 100 - kLot / 2, kTall - kLot};

// Computes y of x, both of so many rows, on the stream's device.
using RunRows = Result<void> (*)(const Stream&, std::int64_t rows, const View& x, const View& y);

inline void expect_large(RunRows run, const HostTensor& lot) {
  const Stream stream = Stream::cuda().value(), host = Stream::cpu();
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

}  // namespace planck::rows_test
