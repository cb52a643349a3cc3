// Gradients of large tables of rows of 64, on lines: buckets without entries, with few, with so
// many that several threads sort them; rows with none, one, up to 64, up to 4,096 and more entries.
#include <cstring>

#include "planck/core/allocator.h"
#include "planck/math/philox.h"
#include "planck/ops/embedding/embedding.h"
#include "planck/ops/embedding/test/reference.test.h"

namespace planck {
namespace {

using embedding_test::canonical_sum;

constexpr std::int64_t kDim = 64;

// crowded: entries that fall to rows 0 … 299, more than half of them to the first 8.
std::vector<std::int64_t> some_indices(std::int64_t rows, std::int64_t count, bool crowded) {
  std::vector<std::int64_t> indices;
  for (std::int64_t n = 0; n < count; ++n) {
    const Philox4 r = PhiloxStream{9, 2}.words(static_cast<std::uint64_t>(n));
    std::int64_t index = static_cast<std::int64_t>(r.v[1]) % (rows + 3);  // the last 3 are outside
    if (index >= rows / 3 && index < rows / 2) index /= 3;
    if (crowded && r.v[0] % 4 != 0) index = r.v[1] % (r.v[2] % 3 == 0 ? 300 : 8);
    indices.push_back(index);
  }
  return indices;
}

template <class T>
void expect_sums(std::int64_t count, bool crowded) {
  const std::int64_t rows = (std::int64_t{9} << 20) / (kDim * std::int64_t{sizeof(T)}) + 7;
  const std::vector<std::int64_t> indices = some_indices(rows, count, crowded);
  std::vector<T> dout;
  for (std::int64_t i = 0; i < count * kDim; ++i) {
    const Philox4 r = PhiloxStream{4, 5}.words(static_cast<std::uint64_t>(i));
    dout.push_back(T(static_cast<float>(static_cast<std::int32_t>(r.v[0])) * 0x1p-31f));
  }
  dout[7] = T(-0.0f);
  dout[9] = T(-__builtin_nanf("5"));  // comes out as the canonical one

  using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::map<std::int64_t, std::vector<std::int64_t>> hits;
  for (std::int64_t n = 0; n < count; ++n)
    if (const std::int64_t row = indices[static_cast<std::size_t>(n)]; row < rows)
      hits[row].push_back(n);
  std::vector<T> expected(static_cast<std::size_t>(rows * kDim), T(0.0f));
  for (const auto& [row, positions] : hits)
    for (std::int64_t d = 0; d < kDim; ++d) {
      std::vector<C> terms;
      for (std::int64_t n : positions)
        terms.push_back(static_cast<C>(dout[static_cast<std::size_t>(n * kDim + d)]));
      const C sum = canonical_sum(terms);
      expected[static_cast<std::size_t>(row * kDim + d)] =
          T(sum == sum ? sum : C(__builtin_nanf("")));
    }

  for (int threads : {1, 2, 5}) {
    const Stream stream = Stream::cpu(threads);
    const std::size_t bytes = expected.size() * sizeof(T);
    const auto memory = allocate(stream, bytes);  // begins on a line
    ASSERT_TRUE(memory);
    std::memset(memory->data(), 0x5a, bytes);
    auto plan = EmbeddingBackwardPlan<T>::select(
        stream, {.num_embeddings = rows, .dim = kDim, .indices = {count}});
    ASSERT_TRUE(plan) << plan.error().message;
    const auto workspace = allocate(stream, plan->workspace_size());
    const auto done = plan->template run<std::int64_t>(
        stream, Workspace{workspace->data(), workspace->bytes()},
        EmbeddingBackwardArgs<T, std::int64_t>{
            .dout = {dout.data(), {count, kDim}},
            .indices = {indices.data(), {count}},
            .dweight = {static_cast<T*>(memory->data()), {rows, kDim}}});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(std::memcmp(expected.data(), memory->data(), bytes), 0)
        << count << " entries, " << threads << " threads";
  }
}

TEST(EmbeddingBuckets, FewEntries) {
  expect_sums<float>(1, false);
  expect_sums<float>(3000, false);
  expect_sums<double>(3000, false);
}
TEST(EmbeddingBuckets, CrowdedRows) {
  expect_sums<float>(150'000, true);  // beside heavy rows of several units
  expect_sums<float>(50'000, true);   // heavy from 512 entries on
  expect_sums<bf16>(90'000, true);
  expect_sums<f16>(90'000, true);
  expect_sums<double>(90'000, true);
}
TEST(EmbeddingBuckets, ManyRows) {
  expect_sums<float>(100'000, false);
  expect_sums<f16>(40'000, false);
}

}  // namespace
}  // namespace planck
