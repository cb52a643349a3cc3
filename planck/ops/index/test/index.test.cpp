// The index family against naive loops, bit for bit, on every case of its list; worked examples;
// what the case lists do not reach. Layouts, memory and errors are held by the conformance tests.
#include "planck/ops/index/index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "planck/core/allocator.h"
#include "planck/ops/embedding/test/reference.test.h"
#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

using embedding_test::attribute;
using embedding_test::canonical_sum;
using embedding_test::integers;
using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

const HostTensor* find(const NamedTensors& in, std::string_view name) {
  const auto it = in.find(name);
  return it == in.end() ? nullptr : &it->second;
}

// Coordinates of a flat position, and back.
std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> c(static_cast<std::size_t>(shape.rank()));
  for (int d = shape.rank(); d-- > 0;) {
    c[static_cast<std::size_t>(d)] = flat % shape[d];
    flat /= shape[d];
  }
  return c;
}
std::int64_t flat(const Shape& shape, const std::vector<std::int64_t>& c) {
  std::int64_t at = 0;
  for (int d = 0; d < shape.rank(); ++d) at = at * shape[d] + c[static_cast<std::size_t>(d)];
  return at;
}

std::uint64_t pattern_of(Dtype t, double value) {
  HostTensor one(t, {1});
  one.set_number(0, std::isnan(value) ? std::nan("") : value);
  return one.pattern(0);
}

// x + sum, as the contract says: compute type, one rounding, integers modulo their size.
std::uint64_t summed(Dtype t, const std::uint64_t* x, const std::vector<std::uint64_t>& terms) {
  if (!is_float(t)) {
    std::uint64_t sum = x == nullptr ? 0 : *x;
    for (std::uint64_t v : terms) sum += v;
    return t == Dtype::i32 ? sum & 0xffffffffu : sum;
  }
  if (terms.empty()) return x == nullptr ? 0 : *x;
  const auto number = [&](std::uint64_t bits) {
    HostTensor one(t, {1});
    one.set_pattern(0, bits);
    return one.number(0);
  };
  if (t == Dtype::f64) {
    std::vector<double> v;
    for (std::uint64_t bits : terms) v.push_back(number(bits));
    const double sum = canonical_sum(v);
    return pattern_of(t, x == nullptr ? sum : number(*x) + sum);
  }
  std::vector<float> v;
  for (std::uint64_t bits : terms) v.push_back(static_cast<float>(number(bits)));
  const float sum = canonical_sum(v);
  const float all = x == nullptr ? sum : static_cast<float>(number(*x)) + sum;
  return pattern_of(t, static_cast<double>(all));
}

using Patterns = std::map<std::string, std::vector<std::uint64_t>, std::less<>>;

Patterns masks(const Case& c, const NamedTensors& in) {
  const HostTensor &mask = *find(in, "mask"), *x = find(in, "x"), *values = find(in, "values");
  Patterns out;
  std::uint64_t count = 0;
  const bool scatters = c.op == "mask_scatter";
  auto& list = out[scatters ? "out" : c.op == "nonzero" ? "positions" : "values"];
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const bool chosen = mask.pattern(i) != 0;
    if (scatters)
      list.push_back(chosen         ? values->pattern(static_cast<std::int64_t>(count))
                     : x != nullptr ? x->pattern(i)
                                    : 0);
    else if (chosen)
      list.push_back(c.op == "nonzero" ? static_cast<std::uint64_t>(i) : x->pattern(i));
    count += chosen;
  }
  list.resize(static_cast<std::size_t>(mask.count()),
              c.op == "nonzero" ? ~std::uint64_t{0} : std::uint64_t{0});
  if (!scatters) out["count"] = {count};
  return out;
}

Patterns reference(const Case& c, const NamedTensors& in) {
  if (find(in, "mask") != nullptr) return masks(c, in);
  const HostTensor& index = *find(in, "index");
  const HostTensor *x = find(in, "x"), *source = find(in, "source");
  const std::vector<std::int64_t> indices = integers(index);
  Patterns out;
  auto& result = out["out"];
  std::uint64_t bad = 0;
  if (c.op == "one_hot") {
    const std::int64_t classes = attribute(c, "classes", 0);
    const Dtype t = *parse_dtype(c.attributes.find("dtype")->second);
    for (std::int64_t i : indices) {
      bad += i < 0 || i >= classes;
      for (std::int64_t k = 0; k < classes; ++k) result.push_back(pattern_of(t, i == k ? 1 : 0));
    }
    out["bad_indices"] = {bad};
    return out;
  }
  const HostTensor& main = x != nullptr ? *x : *source;
  const std::int64_t given = attribute(c, "axis", 0);
  const int axis = static_cast<int>(given < 0 ? given + main.shape.rank() : given);
  Shape shape = main.shape;
  if (x == nullptr) shape[axis] = attribute(c, "extent", 0);
  const bool slices = c.op.starts_with("index_");
  Shape items = slices ? shape : index.shape;
  if (slices) items[axis] = index.shape[0];
  for (std::int64_t i : indices) bad += i < 0 || i >= shape[axis];
  out["bad_indices"] = {bad};
  const bool writes = source != nullptr;
  std::vector<std::vector<std::uint64_t>> terms(writes ? static_cast<std::size_t>(numel(shape))
                                                       : 0);
  for (std::int64_t p = 0; p < numel(items); ++p) {
    std::vector<std::int64_t> at = coordinates(items, p);
    const std::int64_t chosen =
        indices[static_cast<std::size_t>(slices ? at[static_cast<std::size_t>(axis)] : p)];
    const bool wrong = chosen < 0 || chosen >= shape[axis];
    at[static_cast<std::size_t>(axis)] = chosen;
    if (!writes)
      result.push_back(wrong ? 0 : x->pattern(flat(shape, at)));
    else if (!wrong)
      terms[static_cast<std::size_t>(flat(shape, at))].push_back(source->pattern(p));
  }
  if (!writes) return out;
  for (std::int64_t p = 0; p < numel(shape); ++p) {
    const auto& all = terms[static_cast<std::size_t>(p)];
    const std::uint64_t start = x == nullptr ? 0 : x->pattern(p);
    if (c.op == "scatter")
      result.push_back(all.empty() ? start : all.back());
    else
      result.push_back(summed(main.dtype, x == nullptr ? nullptr : &start, all));
  }
  return out;
}

TEST(Index, EveryKernelAgreesWithTheReference) {
  const auto cases = verify::index_cases(verify::ListSize::usual);
  EXPECT_GT(cases.size(), 600u);
  for (const Case& c : cases) {
    const NamedTensors inputs = c.make_inputs();
    const Patterns expected = reference(c, inputs);
    verify::with_outputs(c, inputs, [&](const NamedTensors& outputs, const KernelStatus&) {
      for (const auto& [output, patterns] : expected) {
        const HostTensor& actual = outputs.find(output)->second;
        ASSERT_EQ(actual.count(), static_cast<std::int64_t>(patterns.size()));
        for (std::int64_t i = 0; i < actual.count(); ++i)
          ASSERT_EQ(actual.pattern(i), patterns[static_cast<std::size_t>(i)])
              << output << "[" << i << "]";
      }
    });
    if (testing::Test::HasFailure()) return;
  }
}

template <class PlanType, class Args>
void run_indexed(const typename PlanType::Descriptor& d, const Args& args) {
  const Stream stream = Stream::cpu();
  const auto plan = PlanType::select(stream, d);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace);
  const auto ran =
      plan->template run<std::int64_t>(stream, {workspace->data(), workspace->bytes()}, args);
  ASSERT_TRUE(ran) << ran.error().message;
}

// The examples of torch.gather and torch.scatter_add_.
TEST(Index, WorkedExamples) {
  const float x[] = {1, 2, 3, 4};
  const std::int64_t index[] = {0, 0, 1, 0};
  float out[4] = {};
  run_indexed<GatherPlan<float>>(
      {.x = {2, 2}, .index = {2, 2}, .axis = 1},
      GatherArgs<float, std::int64_t>{{x, {2, 2}}, {index, {2, 2}}, {out, {2, 2}}});
  const float gathered[] = {1, 1, 4, 3};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], gathered[i]) << i;

  const std::int64_t positions[] = {0, 1, 2, 0, 0};
  const float ones[] = {1, 1, 1, 1, 1};
  float sums[15] = {};
  run_indexed<ScatterAddPlan<float>>(
      {.x = {3, 5}, .index = {1, 5}, .axis = 0, .with_x = false},
      ScatterArgs<float, std::int64_t>{{}, {positions, {1, 5}}, {ones, {1, 5}}, {sums, {3, 5}}});
  const float added[] = {1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0};
  for (int i = 0; i < 15; ++i) EXPECT_EQ(sums[i], added[i]) << i;
}

TEST(Index, CountsBadIndicesOnceForASlice) {
  const std::int64_t index[] = {7, 0, -1};
  const double x[6] = {1, 2, 3, 4, 5, 6};
  double out[9] = {};
  std::int64_t bad = 0;
  run_indexed<IndexSelectPlan<double>>(
      {.x = {3, 2}, .index = {3}, .axis = 1},
      GatherArgs<double, std::int64_t>{{x, {3, 2}}, {index, {3}}, {out, {3, 3}}, {&bad, Shape{}}});
  EXPECT_EQ(bad, 2);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[0], 0);
}

TEST(Index, RefusesWhatItCannotMean) {
  IndexProblem p{.kind = IndexKind::gather, .x = {4, 5}, .index = {4, 6}, .axis = 0};
  ASSERT_FALSE(p.check());
  EXPECT_EQ(p.check().error().message,
            "gather: index has shape [4, 6], which must not exceed x's [4, 5] off axis 0");
  p.axis = 1;
  EXPECT_TRUE(p.check());
  p.axis = 2;
  EXPECT_EQ(p.check().error().message, "gather: axis is 2, x has 2 axes");
  p = {.kind = IndexKind::scatter_add, .element_dtype = Dtype::boolean, .x = {4}, .index = {4}};
  EXPECT_EQ(p.check().error().message, "scatter_add: element dtype bool is not supported");
}

}  // namespace
}  // namespace planck
