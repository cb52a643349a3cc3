// Naive references of the row-wise families, for their tests. They share no code with the library.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/placed_run.h"

namespace planck::rows_test {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

// The rule as it is written down: sum(a[0 … n)) = sum(a[0 … p)) + sum(a[p … n)), p the largest
// power of two below n.
template <class C, class F>
C pairwise(const std::vector<C>& v, std::size_t begin, std::size_t n, C nothing, const F& join) {
  if (n == 0) return nothing;
  if (n == 1) return v[begin];
  std::size_t p = 1;
  while (2 * p < n) p *= 2;
  return join(pairwise(v, begin, p, nothing, join), pairwise(v, begin + p, n - p, nothing, join));
}
template <class C>
C pairwise_sum(const std::vector<C>& v) {
  return pairwise(v, 0, v.size(), C(0), [](C a, C b) { return a + b; });
}

inline std::string attribute(const Case& c, std::string_view key, std::string_view otherwise) {
  const auto it = c.attributes.find(key);
  return std::string(it == c.attributes.end() ? otherwise : std::string_view(it->second));
}

inline std::vector<double> numbers(const HostTensor& t) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < t.count(); ++i) v.push_back(t.number(i));
  return v;
}

// One unit in the last place of a dtype at a value.
inline double ulp_at(Dtype t, double value) {
  const int digits = t == Dtype::f64 ? 53 : t == Dtype::f32 ? 24 : t == Dtype::f16 ? 11 : 8;
  const int least = t == Dtype::f64 ? -1022 : t == Dtype::f16 ? -14 : -126;
  const int exponent =
      value == 0 || !std::isfinite(value) ? least : std::max(least, std::ilogb(value));
  return std::ldexp(1.0, exponent - digits + 1);
}

// Runs every kernel of the case's table on the CPU and, where there is one, on a GPU, and hands the
// outputs by name to `check`.
using Check = std::function<void(const NamedTensors& outputs, const KernelStatus& kernel)>;
inline void with_outputs(const Case& c, const NamedTensors& inputs, const Check& check) {
  static const std::vector<Stream> streams = [] {
    std::vector<Stream> all = {Stream::cpu()};
    if (auto cuda = Stream::cuda()) all.push_back(*cuda);
    return all;
  }();
  const auto problem = verify::parse_problem(all_ops(), c);
  ASSERT_TRUE(problem) << c.id() << ": " << problem.error().message;
  verify::Subject subject{&c, problem->get(), nullptr, (*problem)->specs()};
  for (const Stream& stream : streams)
    for (const KernelStatus& kernel : (*problem)->kernels()) {
      if (!kernel.reject.empty() || kernel.device != stream.device().kind) continue;
      const auto plan =
          (*problem)->select(stream, {.at_least = Reproducibility::none, .kernel = kernel.name});
      ASSERT_TRUE(plan) << plan.error().message;
      subject.plan = plan->get();
      const verify::Outcome outcome =
          verify::execute(subject, stream, inputs, {.what = "values", .layouts = {}});
      ASSERT_EQ(outcome.fault, "") << c.id();
      NamedTensors outputs;
      for (std::size_t i = 0; i < subject.specs.size(); ++i)
        if (subject.info().operands[i].role == Role::output && subject.specs[i].used)
          outputs.emplace(subject.info().operands[i].name, outcome.outputs[i]);
      check(outputs, kernel);
    }
}

}  // namespace planck::rows_test
