// The CUDA kernels of the embedding family against the CPU's, bit for bit: shapes that take every
// loop they have, hot rows, views, graphs, and more than 2^31 elements.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/math/philox.h"
#include "planck/ops/embedding/embedding.problem.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::DeviceRun;
using verify::Fill;
using verify::HostTensor;
using verify::Layout;
using verify::TestTensors;

// Operands of a problem, outputs as they are before the run.
struct Inputs {
  Fill indices = Fill::integers;       // zeros: all the same one
  bool stray = false, narrow = false;  // some outside the table; i32
  std::uint64_t seed = 1;
};

TestTensors make_tensors(const EmbeddingProblem& p, const Inputs& in) {
  const auto specs = p.specs();
  TestTensors all(p.info().operands.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!specs[i].used) continue;
    const std::string_view name = p.info().operands[i].name;
    HostTensor t(specs[i].dtype, specs[i].shape);
    const bool integers = name == "indices" || name == "offsets";
    if (integers && in.narrow) t = HostTensor(Dtype::i32, t.shape);
    if (name == "indices")
      fill(t,
           in.stray                    ? Fill::stray_integers
           : in.indices == Fill::zeros ? Fill::integers
                                       : in.indices,
           in.seed, i,
           {in.indices == Fill::zeros ? p.num_embeddings / 3 : 0,
            in.indices == Fill::zeros ? p.num_embeddings / 3 : p.num_embeddings - 1});
    else if (name == "offsets")
      fill(t, in.stray ? Fill::stray_integers : Fill::ascending, in.seed, i, {0, p.count()});
    else if (name == "argmax")
      fill(t, Fill::integers, in.seed, i, {-1, p.count() - 1});
    else if (t.dtype != Dtype::i64)
      fill(t, Fill::normal, in.seed, i);
    all[i] = std::move(t);
  }
  return all;
}

TestTensors on_cpu(const EmbeddingProblem& p, const TestTensors& before) {
  return verify::after_run(Stream::cpu(), p, before);
}

// Runs the default CUDA kernel, alone and as a graph, and compares every output with the CPU's.
void check(const EmbeddingProblem& p, const Inputs& in, Layout layout = Layout::contiguous) {
  SCOPED_TRACE(std::string(p.info().name) + " V=" + std::to_string(p.num_embeddings) +
               " D=" + std::to_string(p.dim) + " N=" + std::to_string(p.count()) + " mode=" +
               std::to_string(static_cast<int>(p.mode)) + " " + std::string(verify::name(layout)) +
               " " + std::string(name(p.element_dtype)) + " seed=" + std::to_string(in.seed));
  const DeviceRun alone = verify::laid_out(layout);
  DeviceRun replayed = alone;
  replayed.replays = 1;
  verify::expect_cpu_bits(p, make_tensors(p, in), {alone, replayed});
}

struct Where {
  const char* what;
  std::int64_t rows, dim, count;
};
const Where kWhere[] = {
    {"nothing", 5, 4, 0},
    {"no columns", 5, 0, 7},
    {"one of each", 1, 1, 1},
    {"one row, a chunk and one more", 1, 8, 65},
    {"few entries, odd rows", 7, 3, 100},
    {"as many as one block sorts", 100, 65, 4096},
    {"more than one block sorts", 100, 64, 4097},
    {"two digits, vectors", 50257, 96, 20000},
    {"one digit, long odd rows", 300, 257, 9000},
    {"hot rows of two levels", 3, 260, 30000},
    {"tiles of several items per thread", 70000, 8, 140000},
    {"long rows, in thirds of a warp's reach", 2000, 768, 6000},
    {"long rows with a rest", 500, 520, 6000},
};

EmbeddingProblem problem(const Where& w, TableOp kind, Dtype element) {
  EmbeddingProblem p;
  p.kind = kind;
  p.element_dtype = element;
  p.num_embeddings = w.rows;
  p.dim = w.dim;
  p.indices = {w.count};
  if (p.is_bag()) p.bags = w.count / 40 + 1;
  return p;
}

class EmbeddingCuda : public testing::TestWithParam<Dtype> {};

TEST_P(EmbeddingCuda, HasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  std::uint64_t seed = 1;
  for (const Where& w : kWhere)
    for (int kind = 0; kind < 5; ++kind)
      for (Fill indices : {Fill::integers, Fill::zipf, Fill::zeros}) {
        ++seed;
        EmbeddingProblem p = problem(w, static_cast<TableOp>(kind), GetParam());
        const bool backward = kind == 1 || kind == 4;
        p.accumulate = backward && seed % 2 == 0;
        if (seed % 3 == 0) p.padding_idx = w.rows / 2;
        if (p.is_bag()) {
          p.mode = static_cast<BagMode>(seed % 3);
          p.weighted = p.mode == BagMode::sum && seed % 2 == 0;
          p.weights_gradient = kind == 4 && p.weighted;
          p.include_last_offset = seed % 4 == 0;
          if (seed % 7 == 0) p.bags = 2;  // long ones
        }
        const Inputs in = {indices, seed % 4 == 1, seed % 2 == 1, seed};
        check(p, in);
        if (w.count < 20000)
          check(p, in, verify::kAllLayouts[1 + seed % 6]);  // not those that broadcast
      }
}
INSTANTIATE_TEST_SUITE_P(All, EmbeddingCuda,
                         testing::Values(Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16));

TEST(EmbeddingCudaHot, RowOfAMillion) {
  PLANCK_NEEDS_GPU();
  const Where w = {"", 1000, 8, 1 << 20};
  check(problem(w, TableOp::add, Dtype::f32), {Fill::zeros});
  check(problem(w, TableOp::add_sparse, Dtype::bf16), {Fill::zipf});
  EmbeddingProblem bags = problem(w, TableOp::read_bags, Dtype::f32);
  bags.bags = 3;
  check(bags, {});
}

TEST(EmbeddingCudaRepeats, AThousandRunsGiveTheSameBits) {
  PLANCK_NEEDS_GPU();
  const EmbeddingProblem p = problem({"", 300, 20, 6000}, TableOp::add, Dtype::f32);
  const std::vector<DeviceRun> thousand(1000, verify::laid_out(Layout::contiguous));
  verify::expect_cpu_bits(p, make_tensors(p, {Fill::zipf}), thousand);
}

TEST(EmbeddingCudaWide, RowsOfMoreThan32Bits) {
  PLANCK_NEEDS_GPU();
  for (std::int64_t count : {70, 5000, 40000})
    for (Fill indices : {Fill::integers, Fill::zipf, Fill::zeros})
      check(problem({"", std::int64_t{1} << 52, 5, count}, TableOp::add_sparse, Dtype::f32),
            {indices});
}

// A table of more than 2^31 elements, on the device alone. A row's sum is that of the same entries
// in a table of the rows that occur, which the CPU computes.
TEST(EmbeddingCudaLong, TableOfMoreThan31Bits) {
  PLANCK_NEEDS_TIME();
  const Where where = {"", (std::int64_t{1} << 31) / 512 + 100, 512, 5000};
  const EmbeddingProblem p = problem(where, TableOp::add, Dtype::f16);
  const HostTensor given = *make_tensors(
      problem({"", 1, where.dim, where.count}, p.kind, p.element_dtype), {Fill::zeros})[0];
  std::vector<std::int64_t> rows(static_cast<std::size_t>(where.count));
  for (std::size_t n = 0; n < rows.size(); ++n)  // the last ones often
    rows[n] = n % 3 == 0 ? where.rows - 1 - static_cast<std::int64_t>(n % 40)
                         : static_cast<std::int64_t>(PhiloxStream{1, 2}.words(n).v[0]) % where.rows;
  std::vector<std::int64_t> present = rows;
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  const auto number_of = [&](std::int64_t row) {
    return std::lower_bound(present.begin(), present.end(), row) - present.begin();
  };
  const EmbeddingProblem small =
      problem({"", std::ssize(present), where.dim, where.count}, p.kind, p.element_dtype);
  TestTensors of_small = make_tensors(small, {Fill::zeros});
  of_small[0] = given;
  for (std::size_t n = 0; n < rows.size(); ++n)
    of_small[1]->set_number(static_cast<std::int64_t>(n), static_cast<double>(number_of(rows[n])));
  const HostTensor sums = *on_cpu(small, of_small)[2];

  const Stream stream = Stream::cuda().value();
  const std::size_t row_bytes = static_cast<std::size_t>(where.dim) * 2;
  const auto on_device = [&](const void* from, std::size_t bytes) {
    Buffer b = std::move(*allocate(stream, bytes));
    if (from != nullptr) {
      EXPECT_TRUE(cuda::copy_to_device(0, stream.native(), b.data(), from, bytes).has_value());
    }
    return b;
  };
  const Buffer dout = on_device(given.bytes.data(), given.bytes.size());
  const Buffer indices = on_device(rows.data(), rows.size() * 8);
  const Buffer table = on_device(nullptr, static_cast<std::size_t>(where.rows) * row_bytes);
  ASSERT_TRUE(cuda::fill(0, stream.native(), table.data(), 0x5a, table.bytes()).has_value());
  const auto view = [](const Buffer& b, Dtype t, const Shape& shape) {
    return View{b.data(), t, shape, row_major(shape), true};
  };
  const Shape table_shape = {where.rows, where.dim}, entries = {where.count, where.dim};
  const auto launch = [&](const EmbeddingProblem& of, const Operands& operands) {
    const auto plan = Selection<EmbeddingProblem>::select(stream, of, {});
    ASSERT_TRUE(plan) << plan.error().message;
    const auto workspace = allocate(stream, plan->workspace_size());
    ASSERT_TRUE(workspace.has_value());
    const auto ran = plan->run(stream, {workspace->data(), workspace->bytes()}, operands);
    ASSERT_TRUE(ran.has_value()) << ran.error().message;
    ASSERT_TRUE(stream.synchronize().has_value());
  };
  launch(p, {view(dout, Dtype::f16, entries), view(indices, Dtype::i64, p.indices),
             view(table, Dtype::f16, table_shape)});
  // Every row that occurs, and one after it that does not.
  std::vector<std::byte> row(row_bytes);
  const auto fetch = [&](std::int64_t r) {
    const std::byte* at =
        static_cast<const std::byte*>(table.data()) + static_cast<std::size_t>(r) * row_bytes;
    ASSERT_TRUE(cuda::copy_to_host(0, stream.native(), row.data(), at, row_bytes).has_value());
    ASSERT_TRUE(stream.synchronize().has_value());
  };
  for (std::size_t k = 0; k < present.size(); ++k) {
    fetch(present[k]);
    ASSERT_EQ(std::memcmp(row.data(), sums.bytes.data() + k * row_bytes, row_bytes), 0)
        << present[k];
    const std::int64_t next = present[k] + 1;
    if (next >= where.rows || std::binary_search(present.begin(), present.end(), next)) continue;
    fetch(next);
    ASSERT_TRUE(std::all_of(row.begin(), row.end(), [](std::byte b) { return b == std::byte{0}; }))
        << next;
  }
  const Buffer out = on_device(nullptr, rows.size() * row_bytes);
  launch(problem(where, TableOp::read, Dtype::f16),
         {view(table, Dtype::f16, table_shape), view(indices, Dtype::i64, p.indices),
          view(out, Dtype::f16, entries)});
  std::vector<std::byte> gathered(out.bytes());
  ASSERT_TRUE(
      cuda::copy_to_host(0, stream.native(), gathered.data(), out.data(), out.bytes()).has_value());
  ASSERT_TRUE(stream.synchronize().has_value());
  for (std::size_t n = 0; n < rows.size(); ++n)
    ASSERT_EQ(
        std::memcmp(gathered.data() + n * row_bytes,
                    sums.bytes.data() + static_cast<std::size_t>(number_of(rows[n])) * row_bytes,
                    row_bytes),
        0)
        << n;
}

// The kernel that promises no order: whole numbers, whose sums are exact in any.
TEST(EmbeddingCudaAtomic, AddsEveryEntryOnce) {
  PLANCK_NEEDS_GPU();
  EmbeddingProblem p = problem({"", 40, 33, 5000}, TableOp::add, Dtype::f32);
  for (bool accumulate : {false, true}) {
    p.accumulate = accumulate;
    TestTensors tensors = make_tensors(p, {.stray = true, .seed = 3});
    for (std::size_t i : {0u, 2u})
      for (std::int64_t e = 0; e < tensors[i]->count(); ++e)
        tensors[i]->set_number(e, static_cast<double>(e * 7 % 101 - 50));
    DeviceRun atomic;
    atomic.preference.kernel = "cuda:atomic";
    atomic.preference.at_least = Reproducibility::none;
    verify::expect_cpu_bits(p, tensors, {atomic});
  }
}

}  // namespace
}  // namespace planck
