// grid_sample against a naive reference that shares no code with the library (reference.test.h): to
// the very bit, and in f64 within the promised bound; and finite differences.
#include "planck/ops/grid_sample/grid_sample.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "planck/core/allocator.h"
#include "planck/ops/grid_sample/test/reference.test.h"
#include "planck/ops/ops.h"
#include "planck/verify/gradient.h"

namespace planck {
namespace {

using reference::Formula;

template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Wider than the compute type.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, long double, double>;

template <class PlanType>
void run(const typename PlanType::Descriptor& d, const typename PlanType::Args& args,
         PlanPreference preference = {}) {
  const Stream stream = Stream::cpu();
  auto plan = PlanType::select(stream, d, preference);
  ASSERT_TRUE(plan) << plan.error().message;
  auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace) << workspace.error().message;
  const auto done = plan->run(stream, {workspace->data(), workspace->bytes()}, args);
  ASSERT_TRUE(done) << done.error().message;
}

GridSampleDescriptor descriptor(const Formula& set) {
  GridSampleDescriptor d;
  d.input = {set.n, set.c};
  d.grid = {set.n};
  for (int k = 3 - set.dims; k < 3; ++k) {
    d.input.push_back(set.in[k]);
    d.grid.push_back(set.out[k]);
  }
  d.grid.push_back(set.dims);
  d.mode = static_cast<SampleMode>(set.mode);
  d.padding = static_cast<SamplePadding>(set.padding);
  d.align_corners = set.align;
  return d;
}

Shape output_shape(const GridSampleDescriptor& d) {
  Shape s = {d.input[0], d.input[1]};
  for (int k = 1; k + 1 < d.grid.rank(); ++k) s.push_back(d.grid[k]);
  return s;
}

// Numbers that are the same everywhere.
struct Random {
  std::uint64_t state;
  double operator()() {  // in [−1, 1)
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(static_cast<std::int64_t>(state) >> 11) * 0x1p-52;
  }
};

template <class T>
std::vector<T> typed(std::vector<double>& values) {  // and values rounded to T
  std::vector<T> out;
  for (double& v : values) {
    out.push_back(T(static_cast<Compute<T>>(v)));
    v = static_cast<double>(static_cast<Compute<T>>(out.back()));
  }
  return out;
}

enum class Grid { identity, affine, random, one_point, outside, constant, boundaries, hostile };
constexpr Grid kGrids[] = {Grid::identity, Grid::affine,   Grid::random,     Grid::one_point,
                           Grid::outside,  Grid::constant, Grid::boundaries, Grid::hostile};

std::vector<double> make_grid(Grid kind, const Formula& set, std::uint64_t seed) {
  Random random{seed};
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double hostile[] = {std::nan(""), inf,           -inf, 1e30,  -1e30, 3e38, 1e10, -1e10,
                            2147483648.0, -2147483649.0, 1e5,  -77.7, -1,    1,    -0.0, 0.999999};
  std::vector<double> grid;
  for (std::int64_t i = 0; i < set.n * set.points(); ++i)
    for (int k = 0; k < set.dims; ++k) {
      const int d = 2 - k;
      std::int64_t at = i % set.points();
      for (int e = 2; e > d; --e) at /= set.out[e];
      at %= set.out[d];
      const auto extent = static_cast<double>(set.out[d]), size = static_cast<double>(set.in[d]);
      const double even = (2 * static_cast<double>(at) + 1) / extent - 1;
      switch (kind) {
        case Grid::identity:
          grid.push_back(even);
          break;
        case Grid::affine:
          grid.push_back(0.83 * even + 0.31 * (k == 0 ? 0.37 : -0.21) +
                         0.02 * static_cast<double>(i % 7));
          break;
        case Grid::random:
          grid.push_back(1.4 * random());
          break;
        case Grid::one_point:
          grid.push_back(0.13 - 0.2 * k);
          break;
        case Grid::outside:
          grid.push_back((random() < 0 ? -1 : 1) * (3 + 20 * std::abs(random())));
          break;
        case Grid::constant:
          grid.push_back(-0.5);
          break;
        case Grid::boundaries: {  // pixel centers and edges, and just beyond both ends
          const double s = std::floor((random() + 1) * (size + 1)) / 2 - 1;
          grid.push_back(set.align ? (size > 1 ? 2 * s / (size - 1) - 1 : s)
                                   : (2 * s + 1) / size - 1);
          break;
        }
        case Grid::hostile:
          grid.push_back(random() < 0.3 ? random()
                                        : hostile[static_cast<std::size_t>((random() + 1) * 8)]);
          break;
      }
    }
  return grid;
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// The T that a value of the compute type is stored as.
template <class T, class C>
T stored(C v) {
  return T(v == v ? v : std::numeric_limits<C>::quiet_NaN());
}

template <class T>
std::string differences(const char* what, const std::vector<T>& got,
                        const std::vector<Compute<T>>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i)
    if (!same_bits(got[i], stored<T>(expected[i])))
      return std::string(what) + "[" + std::to_string(i) + "] is " +
             std::to_string(static_cast<double>(got[i])) + ", the reference " +
             std::to_string(static_cast<double>(expected[i]));
  return "";
}

template <class T>
std::string too_far(const char* what, const std::vector<T>& got,
                    const std::vector<Wide<T>>& expected, const std::vector<Wide<T>>& magnitude,
                    double max_ulp) {
  const double ulp = std::is_same_v<T, double>  ? 0x1p-52
                     : std::is_same_v<T, float> ? 0x1p-23
                     : std::is_same_v<T, f16>   ? 0x1p-10
                                                : 0x1p-7;
  const double tiny = std::is_same_v<T, f16> ? 0x1p-24 : 0x1p-126;  // below: subnormal results
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto apart =
        std::abs(static_cast<Wide<T>>(static_cast<Compute<T>>(got[i])) - expected[i]);
    if (!(apart <= max_ulp * ulp * magnitude[i] + tiny))
      return std::string(what) + "[" + std::to_string(i) + "] is " +
             std::to_string(static_cast<double>(got[i])) + ", exactly " +
             std::to_string(expected[i]);
  }
  return "";
}

template <class T>
void check(const Formula& set, Grid kind, std::uint64_t seed) {
  using C = Compute<T>;
  Random random{seed};
  const GridSampleDescriptor d = descriptor(set);
  const Shape out_shape = output_shape(d);
  std::vector<double> input(static_cast<std::size_t>(numel(d.input))),
      dout(static_cast<std::size_t>(numel(out_shape)));
  for (double& v : input) v = random();
  for (double& v : dout) v = random();
  std::vector<double> grid = make_grid(kind, set, seed);
  const std::vector<T> t_input = typed<T>(input), t_grid = typed<T>(grid), t_dout = typed<T>(dout);
  std::vector<T> output(dout.size()), dinput(input.size()), dgrid(grid.size()), direct(dout.size());
  run<GridSamplePlan<T>>(
      d, {{t_input.data(), d.input}, {t_grid.data(), d.grid}, {output.data(), out_shape}});
  PlanPreference no_workspace;
  no_workspace.kernel = "cpu:direct";
  run<GridSamplePlan<T>>(
      d, {{t_input.data(), d.input}, {t_grid.data(), d.grid}, {direct.data(), out_shape}},
      no_workspace);
  run<GridSampleBackwardPlan<T>>(d, {{t_dout.data(), out_shape},
                                     {t_input.data(), d.input},
                                     {t_grid.data(), d.grid},
                                     {dinput.data(), d.input},
                                     {dgrid.data(), d.grid}});
  const auto exact = reference::sample<C, C>(set, input, grid, dout);
  const auto wide = reference::sample<C, Wide<T>>(set, input, grid, dout);
  const double forward_ulp =
      GridSamplePlan<T>::select(Stream::cpu(), d)->precision_guarantee().max_ulp;
  const double backward_ulp =
      GridSampleBackwardPlan<T>::select(Stream::cpu(), d)->precision_guarantee().max_ulp;
  std::string faults[] = {
      differences("output", output, exact.output),
      differences("direct output", direct, exact.output),
      differences("dinput", dinput, exact.dinput),
      differences("dgrid", dgrid, exact.dgrid),
      too_far("output", output, wide.output, wide.output_magnitude, forward_ulp),
      too_far("dinput", dinput, wide.dinput, wide.dinput_magnitude, backward_ulp),
      too_far("dgrid", dgrid, wide.dgrid, wide.dgrid_magnitude, backward_ulp)};
  for (const std::string& fault : faults)
    ASSERT_EQ(fault, "") << name(dtype_of<T>) << " mode " << static_cast<int>(set.mode)
                         << " padding " << static_cast<int>(set.padding) << " align " << set.align
                         << " input " << to_string(d.input) << " grid " << to_string(d.grid)
                         << " kind " << static_cast<int>(kind);
}

void check_all_dtypes(const Formula& set, Grid kind, std::uint64_t seed) {
  check<float>(set, kind, seed);
  check<double>(set, kind, seed);
  check<f16>(set, kind, seed);
  check<bf16>(set, kind, seed);
}

template <class F>
void for_each_formula(F f) {
  for (int dims : {2, 3})
    for (reference::Mode mode :
         {reference::Mode::linear, reference::Mode::nearest, reference::Mode::cubic})
      for (reference::Padding padding :
           {reference::Padding::zeros, reference::Padding::border, reference::Padding::reflection})
        for (bool align : {false, true}) {
          if (dims == 3 && mode == reference::Mode::cubic) continue;
          Formula set;
          set.dims = dims;
          set.mode = mode;
          set.padding = padding;
          set.align = align;
          f(set);
        }
}

TEST(GridSample, EveryFormulaAndGridAgreesWithTheReference) {
  std::uint64_t seed = 1;
  for_each_formula([&](Formula set) {
    for (Grid kind : kGrids) {
      set.n = 1 + static_cast<std::int64_t>(seed % 2);
      set.c = seed % 3 == 0 ? 5 : seed % 3 == 1 ? 3 : 18;
      const std::int64_t depth = set.dims == 3 ? 3 : 1;
      set.in[0] = depth;
      set.in[1] = 5;
      set.in[2] = 7;
      set.out[0] = set.dims == 3 ? 2 : 1;
      set.out[1] = 6;
      set.out[2] = 9;
      check_all_dtypes(set, kind, seed++);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(GridSample, SmallExtents) {
  struct Extents {
    std::int64_t n, c, in[3], out[3];
  };
  const Extents all[] = {{1, 1, {1, 1, 1}, {1, 3, 4}},  {2, 3, {1, 1, 1}, {1, 1, 1}},
                         {1, 4, {1, 1, 6}, {1, 5, 3}},  {1, 2, {2, 2, 1}, {1, 4, 4}},
                         {1, 16, {1, 2, 2}, {1, 7, 5}}, {3, 1, {1, 3, 3}, {1, 0, 4}},
                         {0, 2, {1, 3, 3}, {1, 2, 2}},  {2, 0, {1, 3, 3}, {1, 2, 2}}};
  std::uint64_t seed = 100;
  for_each_formula([&](Formula set) {
    for (const Extents& e : all) {
      if (set.dims == 2 && e.in[0] != 1) continue;
      set.n = e.n;
      set.c = e.c;
      for (int d = 0; d < 3; ++d) {
        set.in[d] = e.in[d];
        set.out[d] = e.out[d];
      }
      check<float>(set, kGrids[seed % std::size(kGrids)], seed);
      check<float>(set, Grid::random, seed);
      check<bf16>(set, Grid::hostile, seed++);
      if (::testing::Test::HasFatalFailure()) return;
    }
  });
}

// Longer than one chunk, one chunk of chunks, and the share of one task.
TEST(GridSample, CrowdedElements) {
  Formula set;
  set.c = 3;
  set.in[1] = 3;
  set.in[2] = 4;
  std::uint64_t seed = 200;
  for (std::int64_t height : {8, 16, 65, 131}) {
    set.out[1] = height;
    set.out[2] = 130;
    for (reference::Mode mode :
         {reference::Mode::linear, reference::Mode::nearest, reference::Mode::cubic}) {
      set.mode = mode;
      set.padding = static_cast<reference::Padding>(seed % 3);
      check<float>(set, Grid::one_point, seed);
      check<float>(set, Grid::random, seed++);
    }
  }
}

// More channels than are worked on at once.
TEST(GridSample, ManyChannels) {
  Formula set;
  set.in[1] = 3;
  set.in[2] = 2;
  set.out[1] = 4;
  set.out[2] = 3;
  std::uint64_t seed = 300;
  for_each_formula([&](Formula formula) {
    set.dims = formula.dims;
    set.mode = formula.mode;
    set.padding = formula.padding;
    for (std::int64_t channels : {256, 257, 770}) {
      set.c = channels;
      check<float>(set, Grid::random, seed++);
    }
  });
}

// Either gradient alone has the bits it has beside the other.
TEST(GridSample, EitherGradientMayBeLeftOut) {
  Formula set;
  set.c = 5;
  set.in[1] = set.in[2] = 6;
  set.out[1] = set.out[2] = 9;
  const GridSampleDescriptor d = descriptor(set);
  const Shape out = output_shape(d);
  Random random{7};
  std::vector<float> x(180), g(162), dout(405), both_x(180), both_g(162), only_x(180), only_g(162);
  for (auto* v : {&x, &g, &dout})
    for (float& e : *v) e = static_cast<float>(random());
  const TensorView<const float> vdout(dout.data(), out), vx(x.data(), d.input),
      vg(g.data(), d.grid);
  using Plan = GridSampleBackwardPlan<float>;
  run<Plan>(d, {vdout, vx, vg, {both_x.data(), d.input}, {both_g.data(), d.grid}});
  run<Plan>(d, {vdout, vx, vg, {only_x.data(), d.input}, {}});
  run<Plan>(d, {vdout, vx, vg, {}, {only_g.data(), d.grid}});
  EXPECT_EQ(both_x, only_x);
  EXPECT_EQ(both_g, only_g);
}

// ---- gradients -------------------------------------------------------------------------------

TEST(GridSample, GradientsAreThoseOfTheForward) {
  for_each_formula([&](const Formula& set) {
    if (set.mode == reference::Mode::nearest) return;
    const char* modes[] = {"bilinear", "nearest", "bicubic"};
    const char* paddings[] = {"zeros", "border", "reflection"};
    verify::GradientCheck check;
    check.forward.op = "grid_sample";
    check.forward.attributes = {{"mode", modes[static_cast<int>(set.mode)]},
                                {"padding", paddings[static_cast<int>(set.padding)]},
                                {"align_corners", set.align ? "true" : "false"}};
    const Shape input = set.dims == 2 ? Shape{2, 3, 4, 5} : Shape{2, 3, 4, 3, 5};
    const Shape grid = set.dims == 2 ? Shape{2, 5, 7, 2} : Shape{2, 2, 3, 4, 3};
    check.forward.inputs = {{.name = "input", .dtype = Dtype::f64, .shape = input},
                            // A bell of deviation 1: a third of the points are outside.
                            {.name = "grid", .dtype = Dtype::f64, .shape = grid}};
    check.forward.seed = 11;
    check.output = "output";
    check.backward_op = "grid_sample_backward";
    check.backward_attributes = check.forward.attributes;
    check.cotangent = "dout";
    check.pairs = {{"input", "dinput"}, {"grid", "dgrid"}};
    check.tolerance = 1e-5;
    EXPECT_EQ(verify::check_gradients(all_ops(), check), "")
        << modes[static_cast<int>(set.mode)] << " " << paddings[static_cast<int>(set.padding)]
        << " " << set.align;
  });
}

}  // namespace
}  // namespace planck
