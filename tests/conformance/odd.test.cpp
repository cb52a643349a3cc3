// Every op × every dtype of every operand × odd shapes × odd attributes: taken with a right result,
// or refused with one line; never a signal.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

#include "planck/core/cuda/runtime.h"
#include "planck/ops/ops.h"
#include "tests/conformance/isolated.h"
#include "tests/conformance/odd_cases.h"

namespace planck::conformance {
namespace {

void expect_none(const std::vector<std::string>& failures) {
  for (std::size_t k = 0; k < failures.size() && k < 20; ++k) ADD_FAILURE() << failures[k];
  EXPECT_EQ(failures.size(), 0u);
}

std::vector<OddCase> cases_of(const OpEntry& entry) {
  std::vector<OddCase> cases;
  for_each_odd_case(entry, [&](const OddCase& c) { cases.push_back(c); });
  return cases;
}

class Odd : public testing::TestWithParam<std::string> {};

TEST_P(Odd, CasesAreTakenOrRefusedInOneLine) {
  for (const OpFamily& family : op_families()) {
    if (family.name != GetParam()) continue;
    for (const OpEntry& entry : family.ops) {
      const std::vector<OddCase> cases = cases_of(entry);
      EXPECT_GT(cases.size(), 50u);
      std::vector<IsolatedCase> isolated;
      for (const OddCase& c : cases)
        isolated.push_back(
            {[&c](Counted& counted) { return run_odd_case(c, Stream::cpu(1), counted); },
             [&c] { return c.text(); }});
      const IsolatedReport report = run_isolated(isolated, 60);
      expect_none(report.failures);
      const auto& [taken, compared] = report.counted;
      EXPECT_GT(taken, 10u) << "odd cases of " << entry.info->name << " that are taken";
      const bool naive = family.name == "reduce" || family.name == "index" ||
                         family.name == "sort" || family.name == "pool";
      EXPECT_GE(compared, naive ? 10u : 0u) << "odd cases of " << entry.info->name;
    }
  }
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const OpFamily& family : op_families()) names.emplace_back(family.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Families, Odd, testing::ValuesIn(family_names()),
                         [](const auto& family) { return family.param; });

// A device does not outlive a fork: there the case is printed by a handler when a signal comes.
std::string running;
void print_running(int number) {
  std::fputs(("while running " + running + "\n").c_str(), stderr);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

TEST(Cuda, TakesOrRefusesOddCasesInOneLine) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const auto stream = Stream::on({DeviceKind::cuda, 0});
  ASSERT_TRUE(stream);
  for (int number : {SIGSEGV, SIGFPE, SIGABRT, SIGBUS}) std::signal(number, print_running);
  std::vector<std::string> failures;
  Counted counted;
  for (const OpEntry& entry : all_ops()) {
    for (const OddCase& c : cases_of(entry)) {
      running = c.text();
      if (const std::string fault = run_odd_case(c, *stream, counted); !fault.empty())
        failures.push_back(c.text() + ": " + fault);
      if (failures.size() > 20) break;
    }
    if (failures.size() > 20) break;  // after an illegal access nothing else can be run
  }
  expect_none(failures);
  EXPECT_GT(counted.taken, 10 * all_ops().size());
}

// What finds crashes must be able to.
TEST(Isolated, NamesTheCaseOfASignalAndGoesOn) {
  const auto named = [](const char* name, auto f) { return IsolatedCase{f, [=] { return name; }}; };
  const auto [failures, counted] = run_isolated(
      {named("fine", [](Counted& n) { return n.taken += 2, ++n.compared, std::string(); }),
       named("crash",
             [](Counted&) {
               std::raise(SIGSEGV);
               return std::string();
             }),
       named("wrong", [](Counted& n) { return ++n.taken, std::string("is wrong"); }),
       named("leaves", [](Counted&) -> std::string { std::_Exit(3); }),
       named("throws", [](Counted&) -> std::string { throw std::runtime_error("no"); })},
      60);
  EXPECT_EQ(counted.taken, 3u);
  EXPECT_EQ(counted.compared, 1u);
  ASSERT_EQ(failures.size(), 4u);
  EXPECT_EQ(failures[0].substr(0, 16), "crash: signal 11");
  EXPECT_EQ(failures[1], "leaves: ended with status 3");
  EXPECT_EQ(failures[2], "wrong: is wrong");
  EXPECT_EQ(failures[3], "throws: threw: no");
}

}  // namespace
}  // namespace planck::conformance
