// Bags of rows and their gradients: against the naive reference, worked examples, and finite
// differences. Bits, memory and errors are held by the conformance tests.
#include "planck/core/allocator.h"
#include "planck/ops/embedding/embedding.h"
#include "planck/ops/embedding/test/reference.test.h"
#include "planck/verify/gradient.h"

namespace planck {
namespace {

using namespace embedding_test;

// ---- the reference ---------------------------------------------------------------------------

struct Bagging {
  Bagging(const Case& c, const NamedTensors& in)
      : mode(c.attributes.contains("mode") ? c.attributes.find("mode")->second : "sum"),
        indices(integers(in.find("indices")->second)),
        padding(attribute(c, "padding_idx", -1)) {
    const auto count = static_cast<std::int64_t>(indices.size());
    const auto offsets = integers(in.find("offsets")->second);
    const bool last = c.attributes.contains("include_last_offset");
    std::int64_t start = 0;
    for (std::int64_t offset : offsets) {
      start = std::max(start, std::clamp<std::int64_t>(offset, 0, count));
      bad_offsets += start != offset;
      starts.push_back(start);
    }
    if (!last) starts.push_back(count);
    bags = static_cast<std::int64_t>(starts.size()) - 1;
  }
  bool valid(std::int64_t n, std::int64_t rows) const {
    const std::int64_t index = indices[static_cast<std::size_t>(n)];
    return index >= 0 && index < rows && index != padding;
  }
  std::vector<std::int64_t> entries(std::int64_t bag, std::int64_t rows) const {
    std::vector<std::int64_t> out;
    for (std::int64_t n = starts[static_cast<std::size_t>(bag)];
         n < starts[static_cast<std::size_t>(bag) + 1]; ++n)
      if (valid(n, rows)) out.push_back(n);
    return out;
  }
  double bad_indices(std::int64_t rows) const {
    double bad = 0;
    for (std::int64_t index : indices) bad += index < 0 || index >= rows;
    return bad;
  }
  std::string mode;
  std::vector<std::int64_t> indices, starts;
  std::int64_t padding, bags = 0;
  double bad_offsets = 0;
};

double product(double a, double b, bool f64) {
  return f64 ? a * b : static_cast<double>(static_cast<float>(a) * static_cast<float>(b));
}
double quotient(double a, double b, bool f64) {
  return f64 ? a / b : static_cast<double>(static_cast<float>(a) / static_cast<float>(b));
}

Outputs forward(const Case& c, const NamedTensors& in) {
  const Bagging bag(c, in);
  const HostTensor& table = in.find("weight")->second;
  const Numbers weight(in, "weight"), weights(in, "weights");
  const bool f64 = table.dtype == Dtype::f64;
  const std::int64_t rows = table.shape[0], dim = table.shape[1];
  Outputs out;
  out["bad_indices"] = {exactly(bag.bad_indices(rows))};
  out["bad_offsets"] = {exactly(bag.bad_offsets)};
  out["out"];
  if (bag.mode == "max") out["argmax"];
  for (std::int64_t b = 0; b < bag.bags; ++b) {
    const auto entries = bag.entries(b, rows);
    for (std::int64_t d = 0; d < dim; ++d) {
      Terms t;
      double largest = 0, winner = -1;
      for (std::int64_t n : entries) {
        const double x = weight[bag.indices[static_cast<std::size_t>(n)] * dim + d];
        const double w = weights.given ? weights[n] : 1;
        t.add(weights.given ? product(w, x, f64) : x,
              static_cast<long double>(w) * static_cast<long double>(x));
        const bool first = winner < 0;
        if (first || x > largest || (std::isnan(x) && !std::isnan(largest))) {
          largest = x;
          winner = static_cast<double>(n);
        }
      }
      if (bag.mode == "max") {
        out["out"].push_back(exactly(largest));
        out["argmax"].push_back(exactly(winner));
      } else {
        const bool mean = bag.mode == "mean" && !entries.empty();
        out["out"].push_back(
            summed(t, f64, nullptr, mean ? static_cast<double>(entries.size()) : 0));
      }
    }
  }
  return out;
}

Outputs backward(const Case& c, const NamedTensors& in) {
  const Bagging bag(c, in);
  const HostTensor& main = in.find("dout")->second;
  const Numbers dout(in, "dout"), weights(in, "weights"), weight(in, "weight");
  const Numbers old(in, "dweight");
  const std::vector<std::int64_t> argmax =
      in.contains("argmax") ? integers(in.find("argmax")->second) : std::vector<std::int64_t>();
  const bool f64 = main.dtype == Dtype::f64;
  const std::int64_t rows = attribute(c, "num_embeddings", 0), dim = main.shape[1];
  Outputs out;
  out["bad_indices"] = {exactly(bag.bad_indices(rows))};
  out["bad_offsets"] = {exactly(bag.bad_offsets)};
  std::vector<Terms> terms(static_cast<std::size_t>(rows * dim));
  const bool learns = weights.given && weight.given;
  if (learns) out["dweights"].assign(bag.indices.size(), exactly(0));
  for (std::int64_t b = 0; b < bag.bags; ++b) {
    const auto entries = bag.entries(b, rows);
    for (std::int64_t n : entries) {
      const std::int64_t row = bag.indices[static_cast<std::size_t>(n)];
      std::vector<double> wide;
      std::vector<float> narrow;
      Element dot{.bounded = true};
      for (std::int64_t d = 0; d < dim; ++d) {
        const double g = dout[b * dim + d];
        Terms& t = terms[static_cast<std::size_t>(row * dim + d)];
        const auto exact = static_cast<long double>(g);
        if (bag.mode == "max") {
          const bool won = argmax[static_cast<std::size_t>(b * dim + d)] == n;
          t.add(won ? g : 0, won ? exact : 0);
        } else if (bag.mode == "mean") {
          const auto m = static_cast<double>(entries.size());
          t.add(quotient(g, m, f64), exact / static_cast<long double>(m));
        } else {
          const double w = weights.given ? weights[n] : 1;
          t.add(weights.given ? product(g, w, f64) : g, exact * static_cast<long double>(w));
        }
        if (!learns) continue;
        const double p = product(g, weight[row * dim + d], f64);
        wide.push_back(p);
        narrow.push_back(static_cast<float>(p));
        dot.exact += exact * static_cast<long double>(weight[row * dim + d]);
        dot.magnitude += std::abs(exact * static_cast<long double>(weight[row * dim + d]));
      }
      if (!learns) continue;
      dot.promised = f64 ? pairwise_sum(wide, 0, wide.size())
                         : static_cast<double>(pairwise_sum(narrow, 0, narrow.size()));
      out["dweights"][static_cast<std::size_t>(n)] = dot;
    }
  }
  out["dweight"];
  for (std::size_t i = 0; i < terms.size(); ++i)
    out["dweight"].push_back(old.given && terms[i].computed.empty()
                                 ? copied(in.find("dweight")->second, static_cast<std::int64_t>(i))
                                 : summed(terms[i], f64, old.given ? &old.v[i] : nullptr));
  return out;
}

TEST(EmbeddingBag, EveryKernelAgreesWithTheReference) {
  expect_reference_on_all_cases("embedding_bag", true, [](const Case& c, const NamedTensors& in) {
    return c.op == "embedding_bag" ? forward(c, in) : backward(c, in);
  });
}

// ---- typed plans on host vectors ---------------------------------------------------------------

template <class PlanType, class Index>
void run(const typename PlanType::Descriptor& d,
         const typename PlanType::template Args<Index>& args) {
  const Stream stream = Stream::cpu();
  const auto plan = PlanType::select(stream, d);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace);
  const auto ran = plan->template run<Index>(stream, {workspace->data(), workspace->bytes()}, args);
  ASSERT_TRUE(ran) << ran.error().message;
}

using Floats = std::vector<float>;

// Four rows of two; bags {2, 0}, {}, {3, 1, 3} where row 1 is padding.
TEST(EmbeddingBag, WorkedExample) {
  const float weight[] = {1, 2, 3, 4, 5, -6, 7, 8};
  const std::int32_t indices[] = {2, 0, 3, 1, 3}, offsets[] = {0, 2, 2};
  const float weights[] = {2, -1, 0.5f, 9, 4};
  Floats out(6);
  std::vector<std::int64_t> argmax(6);
  EmbeddingBagDescriptor d{
      .num_embeddings = 4, .dim = 2, .indices = 5, .bags = 3, .padding_idx = 1};
  EmbeddingBagArgs<float, std::int32_t> args{.weight = {weight, {4, 2}},
                                             .indices = {indices, {5}},
                                             .offsets = {offsets, {3}},
                                             .out = {out.data(), {3, 2}}};
  run<EmbeddingBagPlan<float>, std::int32_t>(d, args);
  EXPECT_EQ(out, (Floats{6, -4, 0, 0, 14, 16}));
  d.mode = BagMode::mean;
  run<EmbeddingBagPlan<float>, std::int32_t>(d, args);
  EXPECT_EQ(out, (Floats{3, -2, 0, 0, 7, 8}));
  d.mode = BagMode::max;
  args.argmax = {argmax.data(), {3, 2}};
  run<EmbeddingBagPlan<float>, std::int32_t>(d, args);
  EXPECT_EQ(out, (Floats{5, 2, 0, 0, 7, 8}));
  EXPECT_EQ(argmax, (std::vector<std::int64_t>{0, 1, -1, -1, 2, 2}));  // the first 3 wins
  d.mode = BagMode::sum;
  d.weighted = true;
  args.weights = {weights, {5}};
  run<EmbeddingBagPlan<float>, std::int32_t>(d, args);
  EXPECT_EQ(out, (Floats{9, -14, 0, 0, 31.5f, 36}));

  const float dout[] = {1, 10, 2, 20, 3, 30};
  Floats dweight(8, 7), dweights(5, 7);
  d.weights_gradient = true;
  run<EmbeddingBagBackwardPlan<float>, std::int32_t>(d, {.dout = {dout, {3, 2}},
                                                         .indices = args.indices,
                                                         .offsets = args.offsets,
                                                         .weights = args.weights,
                                                         .weight = args.weight,
                                                         .dweight = {dweight.data(), {4, 2}},
                                                         .dweights = {dweights.data(), {5}}});
  EXPECT_EQ(dweight, (Floats{-1, -10, 0, 0, 2, 20, 13.5f, 135}));
  EXPECT_EQ(dweights, (Floats{-55, 21, 261, 0, 261}));
}

// What is not ascending within [0, 5] starts where the one before it does.
TEST(EmbeddingBag, WrongOffsetsAreCountedAndTakenAsTheLargestBefore) {
  const double weight[] = {1, 10, 100, 1000, 10000};
  const std::int64_t indices[] = {0, 1, 2, 3, 4}, offsets[] = {-3, 2, 1, 99, 3};
  double out[5];
  std::int64_t bad_offsets = 0, bad_indices = 7;
  run<EmbeddingBagPlan<double>, std::int64_t>(
      {.num_embeddings = 5, .dim = 1, .indices = 5, .bags = 5},
      {.weight = {weight, {5, 1}},
       .indices = {indices, {5}},
       .offsets = {offsets, {5}},
       .out = {out, {5, 1}},
       .bad_indices = {&bad_indices, {}},
       .bad_offsets = {&bad_offsets, {}}});
  EXPECT_EQ((std::vector<double>(out, out + 5)), (std::vector<double>{11, 0, 11100, 0, 0}));
  EXPECT_EQ(bad_offsets, 4);
  EXPECT_EQ(bad_indices, 0);
}

TEST(EmbeddingBag, RefusesWrongDescriptors) {
  const auto refused = [](const EmbeddingBagDescriptor& d, std::string_view words) {
    const auto plan = EmbeddingBagBackwardPlan<float>::select(Stream::cpu(1), d);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  };
  const EmbeddingBagDescriptor good{.num_embeddings = 5, .dim = 1, .indices = 5, .bags = 2};
  auto d = good;
  d.mode = BagMode::mean;
  d.weighted = true;
  refused(d, "mode is mean");
  d = good;
  d.weights_gradient = true;
  refused(d, "no weights");
  d = good;
  d.bags = -1;
  refused(d, "-1 bags");
}

void put_offsets(const Case&, NamedTensors& tensors) {
  HostTensor& offsets = tensors.find("offsets")->second;
  constexpr std::uint64_t kOffsets[] = {0, 4, 4, 9};
  for (std::int64_t b = 0; b < 4; ++b) offsets.set_pattern(b, kOffsets[b]);
}

TEST(EmbeddingBag, GradientsAreThoseOfFiniteDifferences) {
  verify::GradientCheck check{
      .forward = {.op = "embedding_bag",
                  .attributes = {{"padding_idx", "2"}},
                  .inputs = {{.name = "weight", .dtype = Dtype::f64, .shape = {6, 3}},
                             {.name = "indices",
                              .dtype = Dtype::i64,
                              .shape = {12},
                              .fill = verify::Fill::integers,
                              .range = {0, 6}},
                             {.name = "offsets", .dtype = Dtype::i64, .shape = {4}},
                             {.name = "weights", .dtype = Dtype::f64, .shape = {12}}},
                  .output_layouts = {},
                  .seed = 8,
                  .prepare = {"offsets", put_offsets}},
      .output = "out",
      .backward_op = "embedding_bag_backward",
      .backward_attributes = {{"padding_idx", "2"}, {"num_embeddings", "6"}},
      .cotangent = "dout",
      .pairs = {{"weight", "dweight"}, {"weights", "dweights"}}};
  EXPECT_EQ(check_gradients(all_ops(), check), "");
  check.forward.inputs.pop_back();
  check.pairs.pop_back();
  for (const char* mode : {"sum", "mean"}) {
    check.forward.attributes["mode"] = check.backward_attributes["mode"] = mode;
    EXPECT_EQ(check_gradients(all_ops(), check), "") << mode;
  }
}

}  // namespace
}  // namespace planck
