// The CUDA kernels of the grid_sample family against the CPU's, bit for bit: every mode, padding,
// rank and dtype, layouts, grids that crowd some elements, and replay from a graph.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/ops/grid_sample/grid_sample.problem.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::DeviceRun;
using verify::Fill;
using verify::HostTensor;
using verify::Layout;
using verify::TestTensors;

// ---- grids ----

// swirl: turned further the further from the middle, so that some points' boxes are large.
enum class Points { affine, scattered, one_pixel, outside, edges, adversarial, count, swirl };
constexpr std::string_view kPointNames[] = {"affine", "scattered",   "one pixel", "outside",
                                            "edges",  "adversarial", "",          "swirl"};

HostTensor make_grid(Points how, Dtype dtype, const Shape& shape, std::uint64_t seed) {
  HostTensor grid(dtype, shape);
  if (how == Points::adversarial) {
    verify::fill(grid, Fill::adversarial, seed, 7);
    return grid;
  }
  HostTensor noise(Dtype::f64, shape);
  verify::fill(noise, Fill::uniform, seed, 8);
  const int dims = static_cast<int>(shape[shape.rank() - 1]);
  const std::int64_t width = shape[shape.rank() - 2], height = shape[shape.rank() - 3];
  for (std::int64_t i = 0; i < grid.count(); ++i) {
    const std::int64_t p = i / dims, k = i % dims;
    const double x = 2.0 * static_cast<double>(p % width) / static_cast<double>(width) - 1;
    const double y =
        2.0 * static_cast<double>(p / width % height) / static_cast<double>(height) - 1;
    double v = 0;
    if (how == Points::affine)
      v = k == 0 ? 1.05 * x - 0.3 * y + 0.02 : k == 1 ? 0.3 * x + 0.9 * y : 0.7 * y - 0.2 * x;
    if (how == Points::swirl) {
      const double turn = std::hypot(x, y);
      v = k == 0 ? x * std::cos(turn) - y * std::sin(turn)
                 : x * std::sin(turn) + y * std::cos(turn);
    }
    if (how == Points::scattered) v = 1.2 * noise.number(i);
    if (how == Points::one_pixel) v = 0.03;
    if (how == Points::outside) v = noise.number(i) < 0 ? -2.5 : 3.0;
    if (how == Points::edges) v = std::rint(8 * noise.number(i)) / 4;
    grid.set_number(i, v);
  }
  return grid;
}

// ---- one run ----

// The layouts of the harness that do not repeat elements.
constexpr std::size_t kWritable = static_cast<std::size_t>(Layout::broadcast);

// Where operands lie: a layout of the harness, or channels last.
struct Where {
  Layout layout = Layout::contiguous;
  bool channels_last = false;
};

DeviceRun placed_at(const Where& w, int replays = 0) {
  DeviceRun how = verify::laid_out(w.layout);
  how.replays = replays;
  if (!w.channels_last) return how;
  how.place = [plain = how.place](const OperandInfo& info, const HostTensor& t) {
    verify::Placement p = plain(info, t);
    if (info.name == "grid" || info.name == "dgrid") return p;
    p = {row_major(t.shape), 0, t.count()};
    std::int64_t step = t.shape[1];
    p.strides[1] = 1;
    for (int d = t.shape.rank() - 1; d >= 0; --d) {
      if (d == 1) continue;
      p.strides[d] = step;
      step *= t.shape[d];
    }
    return p;
  };
  return how;
}

TestTensors sample_tensors(const GridSampleProblem& p, Points how, bool hostile,
                           std::uint64_t seed) {
  TestTensors t;
  const auto specs = p.specs();
  const auto infos = p.info().operands;
  for (std::size_t k = 0; k < infos.size(); ++k) {
    t.emplace_back(HostTensor(specs[k].dtype, specs[k].shape));
    if (infos[k].name == "grid") {
      t[k] = make_grid(how, p.dtype, p.grid, seed);
    } else if (infos[k].role == Role::input || (p.accumulate && infos[k].name == "dinput") ||
               (p.accumulate_grid && infos[k].name == "dgrid")) {
      verify::fill(*t[k], hostile ? Fill::adversarial : Fill::normal, seed, k);
    }
  }
  return t;
}

std::string describe(const GridSampleProblem& p, Points how, const Where& w) {
  constexpr std::string_view kModes[] = {"bilinear", "nearest", "bicubic"};
  constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};
  return std::string(p.info().name) + " " + std::string(name(p.dtype)) + " " +
         std::string(kModes[static_cast<int>(p.mode)]) + " " +
         std::string(kPaddings[static_cast<int>(p.padding)]) + (p.align_corners ? " align" : "") +
         (p.accumulate ? " accumulate" : "") + (p.accumulate_grid ? " accumulate_grid " : " ") +
         to_string(p.input) + " at " + to_string(p.grid) + " " +
         std::string(kPointNames[static_cast<int>(how)]) + " " +
         (w.channels_last ? "channels last" : std::string(verify::name(w.layout)));
}

// ---- every combination ----

struct Sizes {
  Shape input, grid;
};
const Sizes kSizes[] = {
    {{2, 3, 5, 7}, {2, 6, 9, 2}},          {{1, 1, 1, 1}, {1, 4, 3, 2}},
    {{2, 20, 17, 70}, {2, 20, 40, 2}},  // several tiles; channels worth a copy
    {{1, 64, 9, 33}, {1, 33, 12, 2}},   // a tile of one column
    {{1, 5, 40, 40}, {1, 60, 60, 2}},   // crowded tiles among others
    {{1, 2, 6, 6}, {1, 100, 90, 2}},    // thousands of points per element
    {{1, 19, 2, 300}, {1, 3, 500, 2}},     {{2, 4, 3, 3}, {2, 0, 5, 2}},
    {{2, 3, 4, 5, 6}, {2, 3, 4, 5, 3}},    {{1, 18, 3, 3, 40}, {1, 5, 10, 20, 3}},
    {{1, 2, 2, 3, 4}, {1, 10, 20, 30, 3}}, {{1, 1, 1, 1, 1}, {1, 2, 2, 2, 3}},
};

class GridSampleCuda : public testing::TestWithParam<std::tuple<Dtype, SampleMode>> {};

TEST_P(GridSampleCuda, HasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const auto [dtype, mode] = GetParam();
  std::uint64_t seed = 1;
  for (const Sizes& size : kSizes)
    for (int padding = 0; padding < 3; ++padding)
      for (bool align : {false, true})
        for (int how = 0; how < static_cast<int>(Points::count); ++how)
          for (bool backward : {false, true}) {
            if (mode == SampleMode::bicubic && size.input.rank() == 5) continue;
            ++seed;
            const GridSampleProblem p = {backward,
                                         dtype,
                                         size.input,
                                         size.grid,
                                         mode,
                                         static_cast<SamplePadding>(padding),
                                         align,
                                         backward && seed % 3 == 0,
                                         backward && seed % 4 < 2};
            const Where where = {verify::kAllLayouts[seed % kWritable], seed % 4 == 1};
            const auto points = static_cast<Points>(how);
            SCOPED_TRACE(describe(p, points, where));
            auto t = sample_tensors(p, points, seed % 5 == 0, seed);
            if (backward && seed % 7 == 0) t[sample_operand::Backward::dinput].reset();
            if (backward && seed % 7 == 1) t[sample_operand::Backward::dgrid].reset();
            verify::expect_cpu_bits(p, t, {placed_at(where)});
            if (testing::Test::HasFatalFailure() || seed > 5000) return;
          }
}

INSTANTIATE_TEST_SUITE_P(All, GridSampleCuda,
                         testing::Combine(testing::Values(Dtype::f32, Dtype::f64, Dtype::f16,
                                                          Dtype::bf16),
                                          testing::Values(SampleMode::bilinear, SampleMode::nearest,
                                                          SampleMode::bicubic)));

// Sizes at which every kernel is used as it is in earnest.
TEST(GridSampleCudaLarge, HasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Sizes sizes[] = {
      {{2, 64, 96, 96}, {2, 96, 96, 2}},     {{2, 3, 200, 200}, {2, 200, 200, 2}},
      {{1, 16, 100, 100}, {1, 300, 300, 2}}, {{1, 100, 40, 200}, {1, 64, 64, 2}},
      {{1, 16, 300, 300}, {1, 64, 64, 2}},    // a block's points in many tiles
      {{1, 2, 1500, 1500}, {1, 64, 64, 2}}};  // more tiles than fit at once
  for (const Sizes& size : sizes)
    for (Points points : {Points::affine, Points::scattered, Points::one_pixel})
      for (bool backward : {false, true})
        for (bool channels_last : {false, true}) {
          const GridSampleProblem p = {backward, Dtype::f32, size.input, size.grid};
          const Where where = {Layout::contiguous, channels_last};
          SCOPED_TRACE(describe(p, points, where));
          verify::expect_cpu_bits(p, sample_tensors(p, points, false, 3), {placed_at(where)});
        }
}

// Enough work for forward's boxes: all that fit, some that do not, points off the image.
TEST(GridSampleCudaBoxes, HaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16})
    for (SamplePadding padding :
         {SamplePadding::zeros, SamplePadding::border, SamplePadding::reflection})
      for (Points points : {Points::affine, Points::swirl, Points::outside}) {
        // As many channels as are worth a copy: only then does the device choose.
        const std::int64_t channels = dtype == Dtype::f32 ? 36 : 40;
        const GridSampleProblem p = {
            false, dtype, {6, channels, 120, 200}, {6, 100, 130, 2}, SampleMode::bilinear, padding};
        SCOPED_TRACE(describe(p, points, {}));
        verify::expect_cpu_bits(p, sample_tensors(p, points, false, 17), {DeviceRun{}});
      }
}

TEST(GridSampleCudaGraph, ReplaysTheSameBits) {
  PLANCK_NEEDS_GPU();
  for (bool backward : {false, true})
    for (SampleMode mode : {SampleMode::bilinear, SampleMode::bicubic}) {
      const GridSampleProblem p = {backward, Dtype::f32, {2, 20, 40, 40}, {2, 50, 50, 2}, mode};
      SCOPED_TRACE(describe(p, Points::affine, {}));
      verify::expect_cpu_bits(p, sample_tensors(p, Points::affine, false, 5), {placed_at({}, 3)});
    }
}

TEST(GridSampleCudaNoCopy, HasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  DeviceRun frugal;
  frugal.preference.max_workspace_bytes = 0;
  for (Dtype dtype : {Dtype::f32, Dtype::f16})
    for (Points points : {Points::affine, Points::scattered}) {
      const GridSampleProblem p = {false, dtype, {2, 32, 40, 40}, {2, 50, 50, 2}};
      SCOPED_TRACE(describe(p, points, {}));
      verify::expect_cpu_bits(p, sample_tensors(p, points, false, 13), {frugal});
    }
}

TEST(GridSampleCudaAtomic, IsNearTheCpu) {
  PLANCK_NEEDS_GPU();
  DeviceRun atomic;
  atomic.preference.kernel = "cuda:atomic";
  atomic.preference.at_least = Reproducibility::none;
  for (SampleMode mode : {SampleMode::bilinear, SampleMode::nearest, SampleMode::bicubic})
    for (bool accumulate : {false, true})
      for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
        const GridSampleProblem p = {true,           dtype,      {2, 20, 17, 31},
                                     {2, 25, 22, 2}, mode,       SamplePadding::border,
                                     false,          accumulate, accumulate};
        SCOPED_TRACE(describe(p, Points::scattered, {}));
        const auto t = sample_tensors(p, Points::scattered, false, 11);
        const TestTensors expected = verify::after_run(Stream::cpu(), p, t);
        const TestTensors actual = verify::after_run(Stream::cuda().value(), p, t, atomic);
        ASSERT_EQ(expected.size(), actual.size());
        const double bound = dtype == Dtype::f64 ? 1e-12 : 1e-4;
        for (std::size_t k : {3, 4})
          for (std::int64_t i = 0; i < expected[k]->count(); ++i)
            ASSERT_NEAR(expected[k]->number(i), actual[k]->number(i), bound) << k << " " << i;
      }
}

TEST(AffineGridCuda, HasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  const Shape sizes[] = {{2, 3, 5, 7},    {1, 1, 1, 1},      {3, 1, 70, 70}, {2, 1, 200, 333},
                         {2, 1, 3, 4, 5}, {1, 2, 9, 17, 40}, {2, 1, 0, 3},   {1, 1, 1, 2000}};
  std::uint64_t seed = 1;
  for (const Shape& size : sizes)
    for (Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
      for (bool backward : {false, true})
        for (bool align : {false, true}) {
          ++seed;
          const AffineGridProblem p = {backward, dtype, size, align};
          const Where where = {verify::kAllLayouts[seed % kWritable], false};
          SCOPED_TRACE(std::string(p.info().name) + " " + std::string(name(dtype)) + " " +
                       to_string(size) + (align ? " align " : " ") +
                       std::string(verify::name(where.layout)));
          TestTensors t;
          const auto specs = p.specs();
          for (std::size_t k = 0; k < 2; ++k) t.emplace_back(HostTensor(dtype, specs[k].shape));
          verify::fill(*t[0], seed % 5 ? Fill::normal : Fill::adversarial, seed, 1);
          verify::expect_cpu_bits(p, t, {placed_at(where, seed % 11 == 0 ? 2 : 0)});
        }
}

}  // namespace
}  // namespace planck
