// Every kernel of every registered op, held to what it promises on the shared case list.
#include <gtest/gtest.h>

#include <string>

#include "planck/core/cuda/runtime.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/checks/sweep.h"
#include "planck/verify/runner.h"
#include "tests/conformance/allocation_counter.h"

namespace planck::conformance {
namespace {

constexpr std::size_t kShown = 10;  // failures printed of one test

void expect_no_failures(const std::vector<std::string>& failures) {
  for (std::size_t k = 0; k < failures.size() && k < kShown; ++k) ADD_FAILURE() << failures[k];
  EXPECT_EQ(failures.size(), 0u);
}

void hold_promises(Device device, std::string_view op, verify::ListSize size) {
  verify::Options options;
  options.device = device;
  options.allocations = allocation_counter();
  options.failure_folder = testing::TempDir() + "planck-conformance";
  auto runner = verify::Runner::make(all_ops(), options);
  ASSERT_TRUE(runner) << runner.error().message;
  for (const verify::Case& c : verify::all_cases(size))
    if (op.empty() || c.op == op) runner->run(c);
  const verify::OpCounts total = runner->report().total();
  EXPECT_GT(total.cases, 0u) << "no case for " << op;
  EXPECT_GT(total.checks, total.cases);
  expect_no_failures(runner->report().failures);
  for (const auto& [reason, count] : runner->report().skipped)
    testing::Test::RecordProperty("skipped " + reason, static_cast<int>(count));
}

class Cpu : public testing::TestWithParam<std::string> {};

TEST_P(Cpu, HoldsItsPromises) { hold_promises(Device::cpu(), GetParam(), verify::ListSize::usual); }

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const OpEntry& entry : all_ops()) names.emplace_back(entry.info->name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Ops, Cpu, testing::ValuesIn(op_names()),
                         [](const auto& op) { return op.param; });

TEST(Cpu, GivesTheSameBitsOnManyValues) {
  const auto report = verify::sweep(
      all_ops(),
      {.device = Device::cpu(), .values = 2'000'000, .threads = 3, .wanted = {}, .progress = {}});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GE(report->values, 2'000'000);
  expect_no_failures(report->failures);
}

TEST(Long, CpuHoldsItsPromisesOnTheLongList) {
  hold_promises(Device::cpu(), "", verify::ListSize::lengthy);
}

TEST(Cuda, HoldsItsPromises) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  hold_promises(Device::cuda(), "", verify::ListSize::usual);
}

TEST(Cuda, GivesTheBitsOfTheCpuOnManyValues) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto report = verify::sweep(
      all_ops(),
      {.device = Device::cuda(), .values = 20'000'000, .threads = 0, .wanted = {}, .progress = {}});
  ASSERT_TRUE(report) << report.error().message;
  expect_no_failures(report->failures);
}

// The lists themselves: what is not in them is not tested.
TEST(CaseList, CoversEveryOpAndPairOfDtypes) {
  std::map<std::string, std::size_t> seen;
  for (const verify::Case& c : verify::all_cases(verify::ListSize::usual)) {
    const auto problem = verify::parse_problem(all_ops(), c);
    ASSERT_TRUE(problem) << c.id() << ": " << problem.error().message;
    const auto plan = (*problem)->select(Stream::cpu(1));
    ASSERT_TRUE(plan) << c.id() << ": " << plan.error().message;
    const KernelSku sku = (*plan)->sku();
    ++seen[c.op + std::string(name(sku.element)) + std::string(sku.aux ? name(*sku.aux) : "")];
  }
  for (const OpEntry& entry : all_ops())
    for (const DtypePair& pair : entry.dtypes)
      EXPECT_GT(seen[std::string(entry.info->name) + std::string(name(pair.element)) +
                     std::string(pair.aux ? name(*pair.aux) : "")],
                0u)
          << entry.info->name << " " << name(pair.element);
}

TEST(CaseList, IdsAreUniqueAndCasesRepeatable) {
  std::map<std::string, int> ids;
  for (const verify::Case& c : verify::all_cases(verify::ListSize::usual))
    EXPECT_EQ(ids[c.id()]++, 0) << c.id();
  const verify::Case c = verify::all_cases(verify::ListSize::usual)[40];
  const auto once = c.make_inputs(), again = c.make_inputs();
  for (const auto& [operand, tensor] : once)
    EXPECT_EQ(verify::bit_difference(tensor, again.find(operand)->second), "") << operand;
}

}  // namespace
}  // namespace planck::conformance
