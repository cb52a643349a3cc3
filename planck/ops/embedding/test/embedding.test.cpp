// Embedding, dense and row-sparse gradients: against the naive reference, and what the case lists
// do not reach. Bits, memory and errors are held by the conformance tests.
#include "planck/ops/embedding/embedding.h"

#include <cstring>

#include "planck/core/allocator.h"
#include "planck/math/philox.h"
#include "planck/ops/embedding/test/reference.test.h"

namespace planck {
namespace {

using namespace embedding_test;

// ---- the reference ---------------------------------------------------------------------------

Outputs reference(const Case& c, const NamedTensors& in) {
  const bool backward = c.op != "embedding", sparse = c.op == "embedding_sparse_backward";
  const HostTensor& main = in.find(backward ? "dout" : "weight")->second;
  const Numbers rows(in, backward ? "dout" : "weight"), old(in, "dweight");
  const bool f64 = main.dtype == Dtype::f64;
  const std::int64_t dim = main.shape[main.shape.rank() - 1];
  const std::int64_t padding = attribute(c, "padding_idx", -1);
  const std::int64_t table = backward ? attribute(c, "num_embeddings", 0) : main.shape[0];
  const std::vector<std::int64_t> indices = integers(in.find("indices")->second);
  Outputs out;
  double bad = 0;
  std::map<std::int64_t, std::vector<std::int64_t>> hits;  // positions by row
  for (std::size_t n = 0; n < indices.size(); ++n) {
    const std::int64_t index = indices[n];
    const bool outside = index < 0 || index >= table;
    bad += outside;
    if (!outside && index != padding) hits[index].push_back(static_cast<std::int64_t>(n));
    if (!backward)
      for (std::int64_t d = 0; d < dim; ++d)
        out["out"].push_back(outside || index == padding ? exactly(0)
                                                         : copied(main, index * dim + d));
  }
  out["bad_indices"] = {exactly(bad)};
  if (!backward) {
    out["out"];
    return out;
  }
  const auto row_sum = [&](std::int64_t row, std::int64_t d) {
    Terms t;
    if (const auto it = hits.find(row); it != hits.end())
      for (std::int64_t n : it->second)
        t.add(rows[n * dim + d], static_cast<long double>(rows[n * dim + d]));
    if (old.given && t.computed.empty()) return copied(in.find("dweight")->second, row * dim + d);
    const double before = old.given ? old[row * dim + d] : 0;
    return summed(t, f64, old.given ? &before : nullptr);
  };
  if (!sparse) {
    out["dweight"];
    for (std::int64_t row = 0; row < table; ++row)
      for (std::int64_t d = 0; d < dim; ++d) out["dweight"].push_back(row_sum(row, d));
    return out;
  }
  out["count"] = {exactly(static_cast<double>(hits.size()))};
  out["rows"];
  out["values"];
  for (const auto& [row, positions] : hits) {
    out["rows"].push_back(exactly(static_cast<double>(row)));
    for (std::int64_t d = 0; d < dim; ++d) out["values"].push_back(row_sum(row, d));
  }
  out["rows"].resize(indices.size(), exactly(-1));
  out["values"].resize(indices.size() * static_cast<std::size_t>(dim), exactly(0));
  return out;
}

TEST(Embedding, EveryKernelAgreesWithTheReference) {
  expect_reference_on_all_cases("embedding", false, reference);
}

// ---- typed plans on host vectors ---------------------------------------------------------------

template <class PlanType, class Index, class Args>
void run(const typename PlanType::Descriptor& d, const Args& args,
         const Stream& stream = Stream::cpu()) {
  const auto plan = PlanType::select(stream, d);
  ASSERT_TRUE(plan) << plan.error().message;
  const auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace);
  const auto ran = plan->template run<Index>(stream, {workspace->data(), workspace->bytes()}, args);
  ASSERT_TRUE(ran) << ran.error().message;
}

TEST(Embedding, KeepsTheBitsOfItsRows) {
  constexpr std::uint32_t kPatterns[] = {0x7f800001, 0xffc12345, 0x80000000,
                                         0x00000001, 0x7f800000, 0x3f800000};
  float weight[6], out[8];
  std::memcpy(weight, kPatterns, sizeof weight);
  const std::int32_t indices[] = {2, 0, 1, 0};
  run<EmbeddingPlan<float>, std::int32_t>(
      {.num_embeddings = 3, .dim = 2, .indices = {2, 2}},
      EmbeddingArgs<float, std::int32_t>{
          .weight = {weight, {3, 2}}, .indices = {indices, {2, 2}}, .out = {out, {2, 2, 2}}});
  for (int n = 0; n < 4; ++n)
    EXPECT_EQ(std::memcmp(out + 2 * n, weight + 2 * indices[n], 8), 0) << n;
}

// dweight of the worked example: rows 0 and 2 are hit, 5 and −1 are outside, 1 is padding.
TEST(Embedding, WorkedExample) {
  const double dout[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::int64_t indices[] = {2, 1, 0, 5, 2, -1};
  double dweight[8] = {100, 100, 100, 100, 100, 100, 100, 100};
  std::int64_t bad = 0;
  EmbeddingBackwardArgs<double, std::int64_t> args{.dout = {dout, {6, 2}},
                                                   .indices = {indices, {6}},
                                                   .dweight = {dweight, {4, 2}},
                                                   .bad_indices = {&bad, {}}};
  EmbeddingDescriptor d{.num_embeddings = 4, .dim = 2, .indices = {6}, .padding_idx = 1};
  d.accumulate = true;
  run<EmbeddingBackwardPlan<double>, std::int64_t>(d, args);
  EXPECT_EQ((std::vector<double>(dweight, dweight + 8)),
            (std::vector<double>{105, 106, 100, 100, 110, 112, 100, 100}));
  EXPECT_EQ(bad, 2);
  d.accumulate = false;
  run<EmbeddingBackwardPlan<double>, std::int64_t>(d, args);
  EXPECT_EQ((std::vector<double>(dweight, dweight + 8)),
            (std::vector<double>{5, 6, 0, 0, 10, 12, 0, 0}));
  std::int64_t rows[6], count = 0;
  double values[12];
  run<EmbeddingSparseBackwardPlan<double>, std::int64_t>(
      d, EmbeddingSparseBackwardArgs<double, std::int64_t>{.dout = args.dout,
                                                           .indices = args.indices,
                                                           .rows = {rows, {6}},
                                                           .values = {values, {6, 2}},
                                                           .count = {&count, {}}});
  EXPECT_EQ(count, 2);
  EXPECT_EQ((std::vector<std::int64_t>(rows, rows + 6)),
            (std::vector<std::int64_t>{0, 2, -1, -1, -1, -1}));
  EXPECT_EQ((std::vector<double>(values, values + 12)),
            (std::vector<double>{5, 6, 10, 12, 0, 0, 0, 0, 0, 0, 0, 0}));
}

template <class T>
std::vector<T> random_values(std::size_t n, std::uint64_t seed) {
  const PhiloxStream random{seed, 5};
  std::vector<T> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = T(static_cast<float>(static_cast<std::int32_t>(random.words(i).v[0])) * 0x1p-31f);
  return v;
}

template <class T>
void expect_sum_of_one_row(std::int64_t count, std::int64_t dim) {
  const auto dout = random_values<T>(static_cast<std::size_t>(count * dim), 3);
  const std::vector<std::int32_t> indices(static_cast<std::size_t>(count), 1);
  std::vector<T> dweight(static_cast<std::size_t>(3 * dim), T(9.0f));
  for (int threads : {1, 2, 5}) {
    run<EmbeddingBackwardPlan<T>, std::int32_t>(
        {.num_embeddings = 3, .dim = dim, .indices = {count}},
        EmbeddingBackwardArgs<T, std::int32_t>{.dout = {dout.data(), {count, dim}},
                                               .indices = {indices.data(), {count}},
                                               .dweight = {dweight.data(), {3, dim}}},
        Stream::cpu(threads));
    for (std::int64_t d = 0; d < dim; ++d) {
      std::vector<float> column;
      for (std::int64_t n = 0; n < count; ++n)
        column.push_back(static_cast<float>(dout[static_cast<std::size_t>(n * dim + d)]));
      const T expected(canonical_sum(column));
      const T got = dweight[static_cast<std::size_t>(dim + d)];
      EXPECT_EQ(static_cast<float>(got), static_cast<float>(expected)) << d;
      EXPECT_EQ(static_cast<float>(dweight[static_cast<std::size_t>(2 * dim + d)]), 0);
    }
  }
}

TEST(Embedding, ARowThatIsHitAMillionTimes) {
  expect_sum_of_one_row<float>(1 << 20, 3);
  expect_sum_of_one_row<bf16>(1 << 20, 2);
  expect_sum_of_one_row<f16>((1 << 16) + 65, 5);  // just above what is cut into single chunks
}

// Most entries fall to a few neighbouring rows, which several threads must sort; with many rows in
// two passes.
TEST(Embedding, CrowdedRowsOfALargeTable) {
  constexpr std::int64_t kDim = 3, kCount = 150'000;
  const auto dout = random_values<float>(kCount * kDim, 7);
  for (const std::int64_t rows : {5000, 9'000'000}) {
    std::vector<std::int32_t> indices(kCount);
    std::map<std::int64_t, std::vector<std::size_t>> hits;
    for (std::size_t n = 0; n < kCount; ++n) {
      const Philox4 r = PhiloxStream{3, 4}.words(n);
      const std::uint32_t span =
          r.v[0] % 9 == 0 ? static_cast<std::uint32_t>(rows) : 800 >> r.v[2] % 9;
      indices[n] = static_cast<std::int32_t>(r.v[1] % span);
      hits[indices[n]].push_back(n);
    }
    std::vector<float> dweight(static_cast<std::size_t>(rows * kDim), 1);
    for (int threads : {1, 3}) {
      run<EmbeddingBackwardPlan<float>, std::int32_t>(
          {.num_embeddings = rows, .dim = kDim, .indices = {kCount}},
          EmbeddingBackwardArgs<float, std::int32_t>{.dout = {dout.data(), {kCount, kDim}},
                                                     .indices = {indices.data(), {kCount}},
                                                     .dweight = {dweight.data(), {rows, kDim}}},
          Stream::cpu(threads));
      std::vector<float> expected(dweight.size(), 0);
      for (const auto& [row, positions] : hits)
        for (std::size_t d = 0; d < kDim; ++d) {
          std::vector<float> terms;
          for (std::size_t n : positions) terms.push_back(dout[n * kDim + d]);
          expected[static_cast<std::size_t>(row) * kDim + d] = canonical_sum(terms);
        }
      EXPECT_EQ(std::memcmp(expected.data(), dweight.data(), expected.size() * 4), 0)
          << rows << " rows, " << threads << " threads";
    }
  }
}

// Outputs so large that they are written past the caches, with rows of any alignment.
template <class T>
void expect_large_outputs(std::int64_t dim) {
  const std::int64_t rows = 9'000'000 / (dim * static_cast<std::int64_t>(sizeof(T))) + 7;
  const std::int64_t count = rows + 5;
  const auto values = random_values<T>(static_cast<std::size_t>(count * dim), 8);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::map<std::int64_t, std::vector<std::int64_t>> hits;
  for (std::int64_t n = 0; n < count; ++n) {
    const Philox4 r = PhiloxStream{9, 1}.words(static_cast<std::uint64_t>(n));
    const std::int64_t index = static_cast<std::int64_t>(r.v[1]) % (r.v[0] % 3 == 0 ? 9 : rows + 3);
    indices[static_cast<std::size_t>(n)] = index;
    if (index < rows) hits[index].push_back(n);
  }
  const auto size = static_cast<std::size_t>(dim);
  std::vector<T> dweight(static_cast<std::size_t>(rows * dim), T(1.0f)),
      out(values.size(), T(1.0f));
  run<EmbeddingBackwardPlan<T>, std::int64_t>(
      {.num_embeddings = rows, .dim = dim, .indices = {count}},
      EmbeddingBackwardArgs<T, std::int64_t>{.dout = {values.data(), {count, dim}},
                                             .indices = {indices.data(), {count}},
                                             .dweight = {dweight.data(), {rows, dim}}});
  run<EmbeddingPlan<T>, std::int64_t>(
      {.num_embeddings = rows, .dim = dim, .indices = {count}},
      EmbeddingArgs<T, std::int64_t>{.weight = {values.data(), {rows, dim}},
                                     .indices = {indices.data(), {count}},
                                     .out = {out.data(), {count, dim}}});
  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<T> expected(dweight.size(), T(0.0f));
  for (const auto& [row, positions] : hits)
    for (std::size_t d = 0; d < size; ++d) {
      std::vector<C> terms;
      for (std::int64_t n : positions)
        terms.push_back(static_cast<C>(values[static_cast<std::size_t>(n) * size + d]));
      expected[static_cast<std::size_t>(row) * size + d] = T(canonical_sum(terms));
    }
  EXPECT_EQ(std::memcmp(expected.data(), dweight.data(), expected.size() * sizeof(T)), 0) << dim;
  const std::vector<T> zeros(size, T(0.0f));
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t index = indices[static_cast<std::size_t>(n)];
    const T* row = index < rows ? values.data() + index * dim : zeros.data();
    ASSERT_EQ(std::memcmp(row, out.data() + n * dim, size * sizeof(T)), 0) << dim << " " << n;
  }
}

TEST(Embedding, OutputsPastTheCaches) {
  for (const std::int64_t dim : {5, 33, 64, 1500}) expect_large_outputs<float>(dim);
  expect_large_outputs<double>(33);
  for (const std::int64_t dim : {33, 64}) {
    expect_large_outputs<f16>(dim);
    expect_large_outputs<bf16>(dim);
  }
}

TEST(Embedding, AThousandRunsGiveTheSameBits) {
  constexpr std::int64_t kRows = 700, kDim = 9, kCount = 12000;
  const auto dout = random_values<float>(kCount * kDim, 4);
  std::vector<std::int64_t> indices(kCount);
  for (std::size_t n = 0; n < kCount; ++n)
    indices[n] = static_cast<std::int64_t>(PhiloxStream{1, 2}.words(n).v[0] % kRows) *
                 static_cast<std::int64_t>(n % 3 != 0);
  const Stream stream = Stream::cpu(3);
  const auto plan = EmbeddingBackwardPlan<float>::select(
      stream, {.num_embeddings = kRows, .dim = kDim, .indices = {kCount}});
  ASSERT_TRUE(plan);
  const auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace);
  std::vector<float> first;
  for (int repeat = 0; repeat < 1000; ++repeat) {
    std::vector<float> dweight(kRows * kDim, static_cast<float>(repeat));
    ASSERT_TRUE(plan->run(stream, {workspace->data(), workspace->bytes()},
                          {.dout = {dout.data(), {kCount, kDim}},
                           .indices = {indices.data(), {kCount}},
                           .dweight = {dweight.data(), {kRows, kDim}}}));
    if (first.empty()) first = dweight;
    ASSERT_EQ(std::memcmp(first.data(), dweight.data(), first.size() * 4), 0) << repeat;
  }
}

TEST(Embedding, RefusesWrongDescriptors) {
  const auto refused = [](const EmbeddingDescriptor& d, std::string_view words) {
    const auto plan = EmbeddingPlan<float>::select(Stream::cpu(1), d);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message.find(words), std::string::npos) << plan.error().message;
  };
  refused({.num_embeddings = 4, .dim = 2, .indices = {3}, .padding_idx = 4}, "padding_idx is 4");
  refused({.num_embeddings = 4, .dim = 2, .indices = {3}, .padding_idx = -2}, "padding_idx is -2");
  refused({.num_embeddings = -1, .dim = 2, .indices = {3}}, "-1");
  refused({.num_embeddings = 4, .dim = 2, .indices = {1, 1, 1, 1, 1, 1, 1, 1}}, "8 axes");
}

// ---- more than 2^31 elements -------------------------------------------------------------------

TEST(Long, EmbeddingTableOfMoreThan2To31Elements) {
  constexpr std::int64_t kDim = 1031, kRows = (std::int64_t{1} << 31) / kDim + 1000;
  constexpr std::int64_t kCount = 3000;
  const Stream stream = Stream::cpu();
  const auto dout = random_values<f16>(kCount * kDim, 6);
  std::vector<std::int64_t> indices(kCount);
  for (std::int64_t n = 0; n < kCount; ++n)
    indices[static_cast<std::size_t>(n)] = n % 3 == 0 ? kRows - 1 - n / 6 : n * (kRows / kCount);
  auto table = allocate(stream, static_cast<std::size_t>(kRows * kDim) * 2);
  ASSERT_TRUE(table);
  auto* weight = static_cast<f16*>(table->data());
  std::memset(table->data(), 0x55, table->bytes());
  run<EmbeddingBackwardPlan<f16>, std::int64_t>(
      {.num_embeddings = kRows, .dim = kDim, .indices = {kCount}},
      EmbeddingBackwardArgs<f16, std::int64_t>{.dout = {dout.data(), {kCount, kDim}},
                                               .indices = {indices.data(), {kCount}},
                                               .dweight = {weight, {kRows, kDim}}});
  std::map<std::int64_t, std::vector<std::int64_t>> hits;
  for (std::int64_t n = 0; n < kCount; ++n) hits[indices[static_cast<std::size_t>(n)]].push_back(n);
  for (std::int64_t row = 0; row < kRows; ++row) {
    const auto it = hits.find(row);
    const f16* got = weight + row * kDim;
    for (std::int64_t d = 0; d < kDim; ++d) {
      std::vector<float> terms;
      if (it != hits.end())
        for (std::int64_t n : it->second)
          terms.push_back(static_cast<float>(dout[static_cast<std::size_t>(n * kDim + d)]));
      ASSERT_EQ(got[d].bits, terms.empty() ? 0 : f16(canonical_sum(terms)).bits) << row << " " << d;
    }
  }
  std::vector<f16> out(kCount * kDim);
  run<EmbeddingPlan<f16>, std::int64_t>(
      {.num_embeddings = kRows, .dim = kDim, .indices = {kCount}},
      EmbeddingArgs<f16, std::int64_t>{.weight = {weight, {kRows, kDim}},
                                       .indices = {indices.data(), {kCount}},
                                       .out = {out.data(), {kCount, kDim}}});
  for (std::int64_t n = 0; n < kCount; ++n)
    ASSERT_EQ(std::memcmp(out.data() + n * kDim,
                          weight + indices[static_cast<std::size_t>(n)] * kDim, 2 * kDim),
              0)
        << n;
}

}  // namespace
}  // namespace planck
