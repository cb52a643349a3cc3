// The harness itself: a toy op with one right kernel and one for each way to be wrong. Every wrong
// one must be caught, and the right one must not.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

#include "planck/verify/checks/values.h"
#include "planck/verify/gradient.h"
#include "planck/verify/runner.h"
#include "tests/conformance/allocation_counter.h"

namespace planck::conformance {
namespace {

constexpr OperandInfo kOperands[] = {{"x", Role::input}, {"y", Role::output}};
const OpInfo kInfo{"toy", OpCategory::quantize, "y = x + x", kOperands, {}};

struct ToyProblem {
  Shape shape;
  const OpInfo& info() const { return kInfo; }
  Result<void> check() const { return check_shape(shape, "toy"); }
  std::array<OperandSpec, 2> specs() const {
    OperandSpec spec;
    spec.dtype = Dtype::f32;
    spec.shape = shape;
    return {spec, spec};
  }
  std::span<const Kernel<ToyProblem>> kernels() const;
  Dtype element() const { return Dtype::f32; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

enum class Fault {
  none,
  ignores_strides,
  skips_the_last,
  writes_one_more,
  changes_its_input,
  overruns_workspace,
  depends_on_threads,
  depends_on_the_call,
  allocates,
  reads_y,
  remembers_between_threads,
};

std::atomic<int> calls{0};
std::atomic<int> inside{0};

template <Fault kFault>
Result<void> launch(const Stream& stream, Workspace workspace, const ToyProblem& p,
                    const Operands& operands) {
  const View &x = operands[0], &y = operands[1];
  auto* in = static_cast<float*>(x.data);
  auto* out = static_cast<float*>(y.data);
  float extra = 0;
  if (kFault == Fault::depends_on_threads && stream.threads() == 5) extra = 1;
  if (kFault == Fault::depends_on_the_call && calls++ % 2 == 1) extra = 1;
  if (kFault == Fault::remembers_between_threads) {
    if (inside.fetch_add(1) > 0) extra = 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (kFault == Fault::allocates) {
    void* volatile kept = std::malloc(64);  // volatile: or the compiler leaves the pair out
    std::free(kept);
  }
  const Strides xs = kFault == Fault::ignores_strides ? row_major(p.shape) : x.strides;
  std::int64_t left = numel(p.shape), last = 0;
  verify::for_each_element(p.shape, y.strides, [&](std::int64_t flat, std::int64_t at) {
    last = at;
    if (kFault == Fault::skips_the_last && --left == 0) return;
    std::int64_t from = 0, rest = flat;
    for (int d = p.shape.rank() - 1; d >= 0; --d) {
      from += rest % p.shape[d] * xs[d];
      rest /= p.shape[d];
    }
    out[at] = in[from] + in[from] + extra + (kFault == Fault::reads_y && out[at] > 0 ? 1.0f : 0.0f);
  });
  if (kFault == Fault::writes_one_more) out[last + 1] = 0;
  if (kFault == Fault::changes_its_input && out != in) in[0] = -in[0] + 1;
  if (kFault == Fault::overruns_workspace) std::memset(workspace.data, 0, workspace.bytes + 1);
  if (kFault == Fault::remembers_between_threads) inside.fetch_sub(1);
  return {};
}

std::string accept(const ToyProblem&) { return ""; }
std::size_t some_workspace(const ToyProblem&) { return 100; }
PrecisionGuarantee exact(const ToyProblem&) { return {}; }

template <Fault kFault>
constexpr Kernel<ToyProblem> row(std::string_view kernel) {
  return {kernel, DeviceKind::cpu, accept, some_workspace, exact, launch<kFault>};
}

constexpr Kernel<ToyProblem> kTable[] = {
    row<Fault::none>("cpu:right"),
// The address sanitizer ends the process at the first stray access, as it should.
#if !defined(__SANITIZE_ADDRESS__)
    row<Fault::ignores_strides>("cpu:ignores_strides"),
    row<Fault::writes_one_more>("cpu:writes_one_more"),
    row<Fault::overruns_workspace>("cpu:overruns_workspace"),
#endif
    row<Fault::skips_the_last>("cpu:skips_the_last"),
    row<Fault::changes_its_input>("cpu:changes_its_input"),
    row<Fault::depends_on_threads>("cpu:depends_on_threads"),
    row<Fault::depends_on_the_call>("cpu:depends_on_the_call"),
    row<Fault::allocates>("cpu:allocates"),
    row<Fault::reads_y>("cpu:reads_y"),
    row<Fault::remembers_between_threads>("cpu:remembers_between_threads"),
};
std::span<const Kernel<ToyProblem>> ToyProblem::kernels() const { return kTable; }

const std::vector<OpEntry>& toy_ops() {
  static const std::vector<OpEntry> entries = {
      {&kInfo,
       {{Dtype::f32, std::nullopt}},
       [](const OpInfo&, const Attributes&,
          const InputSpecs& inputs) -> Result<std::unique_ptr<AnyProblem>> {
         return std::unique_ptr<AnyProblem>(
             new ErasedProblem<ToyProblem>({inputs.find("x")->second.shape}));
       }}};
  return entries;
}

verify::Case toy_case(const Shape& shape, verify::Fill fill = verify::Fill::normal) {
  return {.op = "toy",
          .attributes = {},
          .inputs = {{.name = "x", .dtype = Dtype::f32, .shape = shape, .fill = fill}},
          .output_layouts = {},
          .seed = 7};
}

TEST(Harness, CatchesEveryFaultAndBlamesNoOther) {
  verify::Options options;
  options.allocations = allocation_counter();
  options.failure_folder = testing::TempDir() + "planck-harness";
  auto runner = verify::Runner::make(toy_ops(), options);
  ASSERT_TRUE(runner);
  for (int repeat = 0; repeat < 3; ++repeat) runner->run(toy_case({6, 7}));
  std::set<std::string> blamed;
  for (const std::string& failure : runner->report().failures) {
    const auto begin = failure.find("cpu:");
    blamed.insert(failure.substr(begin, failure.find(':', begin + 4) - begin));
    EXPECT_NE(failure.find("planck verify --device cpu --filter '^toy:"), failure.npos) << failure;
    EXPECT_NE(failure.find("planck run toy --in "), failure.npos) << failure;
  }
  for (const Kernel<ToyProblem>& kernel : kTable) {
    if (kernel.name == "cpu:allocates" && options.allocations == nullptr) continue;
    EXPECT_EQ(blamed.contains(std::string(kernel.name)), kernel.name != "cpu:right") << kernel.name;
  }
}

TEST(Harness, RefusesAnAbsentDevice) {
  verify::Options options;
  options.device = Device::cuda(99);
  const auto runner = verify::Runner::make(toy_ops(), options);
  ASSERT_FALSE(runner);
  EXPECT_EQ(runner.error().code, ErrorCode::device);
}

TEST(Values, AreHeldToTheStatedUlps) {
  const auto twice = [](const verify::Case&, const verify::NamedTensors& inputs) {
    const verify::HostTensor& x = inputs.find("x")->second;
    std::vector<double> y;
    for (std::int64_t i = 0; i < x.count(); ++i) y.push_back(2 * x.number(i));
    return verify::ReferenceOutputs{{"y", y}};
  };
  const auto wrong = [&](const verify::Case& c, const verify::NamedTensors& inputs) {
    auto outputs = twice(c, inputs);
    outputs["y"][3] *= 1 + 0x1p-22;  // two representable numbers of f32
    return outputs;
  };
  const verify::Case c = toy_case({5});
  const auto count = [&](const verify::Reference& reference, std::string_view kernel) {
    std::size_t failures = 0;
    for (const std::string& f : check_values(toy_ops(), c, Stream::cpu(1), reference).failures)
      failures += f.find(kernel) != f.npos;
    return failures;
  };
  EXPECT_EQ(count(twice, "cpu:right"), 0u);
  EXPECT_EQ(count(wrong, "cpu:right"), 1u);
  EXPECT_EQ(verify::ulps_apart(Dtype::f32, 1.0, 1.0 + 0x1p-23), 1);
  EXPECT_EQ(verify::ulps_apart(Dtype::f16, 65504.0, INFINITY), 1);
  EXPECT_EQ(verify::ulps_apart(Dtype::f32, 0.0, -0.0), 0);
  EXPECT_EQ(verify::ulps_apart(Dtype::f32, -0x1p-149, 0x1p-149), 2);
  EXPECT_EQ(verify::ulps_apart(Dtype::s8, 3, 4), INFINITY);
  EXPECT_EQ(verify::ulps_apart(Dtype::f32, NAN, NAN), 0);
  EXPECT_EQ(verify::ulps_apart(Dtype::f32, NAN, 1), INFINITY);
}

}  // namespace
}  // namespace planck::conformance
