// The CUDA kernels of the matmul family: every tile and reading against the CPU's bits, the library
// within its bound, and more than 2^31 elements.
#include "planck/ops/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "planck/core/allocator.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/owned_tensor.h"
#include "planck/verify/on_device.test.h"
#include "planck/verify/tensors/fill.h"

namespace planck {
namespace {

using verify::Fill;
using verify::HostTensor;

// A tensor on the host with the values of a fill.
OwnedTensor values(Dtype dtype, const Shape& shape, Fill fill, std::uint64_t seed) {
  HostTensor made(dtype, shape);
  verify::fill(made, fill, seed, 0);
  auto t = OwnedTensor::empty(Stream::cpu(), dtype, shape);
  EXPECT_TRUE(t);
  std::copy(made.bytes.begin(), made.bytes.end(), t->as<std::byte>());
  return std::move(*t);
}

View swapped(View v) {  // the last two axes
  const int r = v.shape.rank();
  std::swap(v.shape[r - 2], v.shape[r - 1]);
  std::swap(v.strides[r - 2], v.strides[r - 1]);
  return v;
}

// Which operands are transposed in memory.
struct Transposed {
  bool a = false, b = false, c = false;
};

// What is added to a product, where it is; a residual may be transposed in memory, too.
struct AddedTo {
  const OwnedTensor *bias = nullptr, *residual = nullptr;
  bool transposed = false;
};

Result<OwnedTensor> multiply(const Stream& stream, const MatmulProblem& p, const OwnedTensor& a,
                             const OwnedTensor& b, Transposed t, std::string_view kernel,
                             const AddedTo& added = {}) {
  PlanPreference preference;
  if (!kernel.empty()) preference.kernel = kernel;
  const auto plan = Selection<MatmulProblem>::select(stream, p, preference);
  if (!plan) return tl::unexpected(plan.error());
  Shape shape = p.specs()[2].shape;
  const int r = shape.rank();
  if (t.c) std::swap(shape[r - 2], shape[r - 1]);
  auto c = OwnedTensor::empty(stream, p.output_dtype(), shape);
  const auto workspace = allocate(stream, plan->workspace_size());
  if (!c || !workspace) return fail(ErrorCode::device, "no memory");
  Operands operands = {t.a ? swapped(a.view()) : a.view(), t.b ? swapped(b.view()) : b.view(),
                       t.c ? swapped(c->view()) : c->view()};
  if (p.bias) operands[matmul_operand::bias] = added.bias->view();
  if (p.residual)
    operands[matmul_operand::residual] =
        added.transposed ? swapped(added.residual->view()) : added.residual->view();
  auto ok = plan->run(stream, {workspace->data(), workspace->bytes()}, operands);
  if (ok) ok = stream.synchronize();
  if (!ok) return tl::unexpected(ok.error());
  return c;
}

std::size_t wrong_bits(const OwnedTensor& x, const OwnedTensor& y) {
  const auto* a = x.as<std::byte>();
  const auto* b = y.as<std::byte>();
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < bytes_for(x.dtype(), numel(x.shape())); ++i) wrong += a[i] != b[i];
  return wrong;
}

Shape matrices(const Shape& batch, std::int64_t rows, std::int64_t columns, bool transposed) {
  Shape s = batch;
  s.push_back(transposed ? columns : rows);
  s.push_back(transposed ? rows : columns);
  return s;
}

// Every kernel of the device that promises them.
void expect_cpu_bits(const MatmulProblem& p, Transposed t, const OwnedTensor& a,
                     const OwnedTensor& b, Fill fill, bool residual_across) {
  const Stream host = Stream::cpu();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  const OwnedTensor bias = values(p.element_dtype, {p.n}, fill, 3),
                    residual = values(p.element_dtype, matrices(p.batch, p.m, p.n, residual_across),
                                      fill, 4);
  const auto expected = multiply(host, p, a, b, t, {}, {&bias, &residual, residual_across});
  const auto there_a = a.to(host, *stream), there_b = b.to(host, *stream),
             there_bias = bias.to(host, *stream), there_residual = residual.to(host, *stream);
  ASSERT_TRUE(expected && there_a && there_b && there_bias && there_residual);
  const AddedTo added{&*there_bias, &*there_residual, residual_across};
  std::ostringstream what;
  what << " " << name(p.element_dtype) << " " << name(p.math) << " " << to_string(p.batch) << " "
       << p.m << " " << p.n << " " << p.k << " " << t.a << t.b << t.c << (p.bias ? " bias " : " ")
       << name(p.activation) << (p.residual ? " residual" : "")
       << (residual_across ? " across" : "");
  for (const Kernel<MatmulProblem>& kernel : p.kernels()) {
    if (kernel.device != DeviceKind::cuda || !kernel.reject(p).empty()) continue;
    if (kernel.guarantee(p).reproducibility != Reproducibility::cross_device) continue;
    if (!plan_detail::unfit(kernel, p, Device::cuda(0)).empty()) continue;
    SCOPED_TRACE(std::string(kernel.name) + what.str());
    const auto made = multiply(*stream, p, *there_a, *there_b, t, kernel.name, added);
    ASSERT_TRUE(made) << made.error().message;
    const auto got = made->to(*stream, host);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(wrong_bits(*expected, *got), 0u);
  }
}
void expect_cpu_bits(const MatmulProblem& p, Transposed t, Fill fill,
                     bool residual_across = false) {
  if (p.element_dtype == Dtype::s8) fill = Fill::integers;
  expect_cpu_bits(p, t, values(p.element_dtype, matrices(p.batch, p.m, p.k, t.a), fill, 1),
                  values(p.element_dtype, matrices(p.batch, p.k, p.n, t.b), fill, 2), fill,
                  residual_across);
}

TEST(MatmulCuda, EveryTileAndReadingGivesTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  const Size sizes[] = {{{}, 1, 1, 1},          {{}, 1, 513, 70},      {{}, 17, 40, 33},
                        {{}, 700, 516, 68},     {{}, 701, 515, 67},    {{}, 1408, 1280, 96},
                        {{}, 1411, 1283, 101},  {{}, 1408, 1280, 100}, {{4}, 520, 768, 36},
                        {{3, 2}, 130, 200, 50}, {{}, 2000, 3, 64},     {{2}, 33, 900, 1},
                        {{}, 37, 45, 1027},     {{2}, 64, 96, 256}};
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16, Dtype::s8})
    for (const Size& s : sizes)
      for (int mask = 0; mask < 8; ++mask)
        for (const ProductMath math : kAllProductMath) {
          if (!serves(math, dtype)) continue;
          // Tensor cores have a path for each way in which operands can lie.
          const bool few = dtype != Dtype::f32 && math == ProductMath::chain;
          if (few && mask != 0 && mask != 3 && mask != 5) continue;
          expect_cpu_bits({dtype, s.batch, s.m, s.n, s.k, math},
                          {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0},
                          mask == 3 || mask == 6 ? Fill::adversarial : Fill::normal);
        }
}

// Whole tiles and their edges, chunks and single elements, residuals that lie along rows of C and
// across them, C of either layout, batches.
TEST(MatmulCuda, WhatFollowsHasTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  const Size sizes[] = {{{}, 1, 1, 1},      {{}, 3, 520, 40},      {{}, 520, 3, 40},
                        {{}, 136, 264, 64}, {{}, 131, 267, 70},    {{}, 257, 64, 200},
                        {{}, 700, 768, 96}, {{3, 2}, 72, 136, 48}, {{2}, 65, 33, 17},
                        {{}, 5, 7, 0},      {{}, 1030, 2064, 136}};
  struct Follows {
    bool bias, residual;
    Activation activation;
  };
  std::vector<Follows> all;
  for (const Activation activation : kAllActivations)
    for (int mask = 0; mask < 4; ++mask)
      if (mask != 0 || activation != Activation::none)
        all.push_back({(mask & 1) != 0, (mask & 2) != 0, activation});
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
    for (const ProductMath math : kAllProductMath)
      for (std::size_t i = 0, at = 0; i < std::size(sizes) && serves(math, dtype); ++i)
        for (const Follows& f : all) {
          const Size& s = sizes[i];
          const std::size_t turn = at++;  // layouts, one after the other
          // Large ones take all tiles; what follows them in every way has been seen by then.
          if (s.m > 700 && turn % 4 != 3) continue;
          const bool lies_across = dtype == Dtype::f64 || turn % 5 == 4;
          expect_cpu_bits({dtype, s.batch, s.m, s.n, s.k, math, f.bias, f.activation, f.residual},
                          {turn % 3 == 1, turn % 2 == 1, turn % 7 == 3},
                          turn % 6 == 5 ? Fill::adversarial : Fill::normal,
                          f.residual && lies_across);
          if (testing::Test::HasFatalFailure()) return;  // the device is gone
        }
}

// Few tiles and a long k, in parts that are added up: whole chunks of 16 bytes, copies of operands
// that lie across, C of either layout.
TEST(MatmulCuda, BytesThatAreCutAlongKHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{{}, 1, 4096, 4096},
                        {{}, 3, 500, 6144},
                        {{}, 130, 70, 16'384},
                        {{}, 256, 256, 7168},
                        {{}, 200, 100, 5000},
                        {{2}, 100, 90, 4096}})
    for (int mask = 0; mask < 8; ++mask)
      expect_cpu_bits({Dtype::s8, s.batch, s.m, s.n, s.k, ProductMath::exact},
                      {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0}, Fill::integers);
}

// Few tiles and a long k: tiles of the last round are shared.
TEST(MatmulCuda, ExactProductsThatAreCutAlongKHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  std::size_t cut = 0;
  for (const Size& s : {Size{{}, 200, 100, 5000},
                        {{}, 256, 128, 2048},
                        {{}, 129, 300, 44'000},
                        {{}, 700, 390, 2056},
                        {{2}, 130, 140, 3000},
                        {{}, 4400, 513, 1400}})
    for (int mask = 0; mask < 8; mask += 3) {
      MatmulProblem p{Dtype::f32, s.batch, s.m, s.n, s.k, ProductMath::exact};
      const auto* digits =
          &*std::ranges::find(p.kernels(), "cuda:digits", &Kernel<MatmulProblem>::name);
      MatmulProblem short_k = p;
      short_k.k = 64;
      cut += digits->workspace(p) - digits->workspace(short_k) > (std::size_t{32} << 20) ? 1 : 0;
      p.bias = p.residual = mask == 3;
      expect_cpu_bits(p, {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0},
                      mask == 6 ? Fill::adversarial : Fill::normal);
    }
  EXPECT_GE(cut, 12u) << "shapes that are not cut";
}

// Operands that lie across k: by clusters of one block to eight, in one pass, and in two where k is
// longer than those hold or rows do not begin at 16 bytes.
TEST(MatmulCuda, ExactOperandsThatLieAcrossHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{{}, 4, 20, 3},
                        {{}, 36, 100, 129},
                        {{}, 36, 20, 1000},
                        {{}, 4400, 260, 1000},
                        {{}, 4400, 260, 1040},
                        {{3}, 52, 68, 2050},
                        {{}, 20, 24, 8192},
                        {{}, 20, 24, 8200},
                        {{}, 21, 24, 700}})
    for (int mask = 0; mask < 4; ++mask)
      for (const Fill fill : {Fill::normal, Fill::adversarial})
        expect_cpu_bits({Dtype::f32, s.batch, s.m, s.n, s.k, ProductMath::exact},
                        {(mask & 1) != 0, (mask & 2) != 0, false}, fill);
}

// Whole tiles, which are stored from registers with what is added there: sums small and large, and
// exponents that powers of two do not serve.
TEST(MatmulCuda, ExactSumsThatAreStoredFromRegistersHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  for (const auto& [k, fill] : {std::pair{100, Fill::normal},
                                {1000, Fill::cancelling},
                                {1000, Fill::ones},
                                {200, Fill::wide},
                                {200, Fill::rare}})
    for (int mask = 0; mask < 4; ++mask) {
      MatmulProblem p{Dtype::f32, {}, 272, 384, k, ProductMath::exact};
      p.bias = (mask & 1) != 0, p.residual = (mask & 2) != 0;
      expect_cpu_bits(p, {false, true, false}, fill);
    }
}

// More products than sums of 32 bits hold, in tiles that are not cut since there is one for each
// cluster of an H200: parts of k wait for one another.
TEST(MatmulCuda, ExactProductsOfAVeryLongKHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  for (const std::int64_t k : {64'500, 130'000})
    for (const Fill fill : {Fill::normal, Fill::adversarial})
      expect_cpu_bits({Dtype::f32, {66}, 2, 3, k, ProductMath::exact}, {false, true, false}, fill);
}

// Sums that seven residues tell, sums that take eight, and tiles of both kinds in one product:
// whole tiles and edges, k that is no multiple of a step, batches, what follows.
TEST(MatmulCuda, ExactProductsByResiduesHaveTheBitsOfTheCpu) {
  PLANCK_NEEDS_GPU();
  struct Size {
    Shape batch;
    std::int64_t m, n, k;
  };
  for (const Size& s : {Size{{}, 256, 256, 128},
                        {{}, 300, 520, 6500},
                        {{}, 1000, 777, 1100},
                        {{3}, 257, 255, 2056},
                        {{2, 2}, 40, 300, 6001},
                        {{}, 20, 30, 65'536}})
    for (int mask = 0; mask < 8; mask += 3) {
      MatmulProblem p{Dtype::f32, s.batch, s.m, s.n, s.k, ProductMath::exact};
      p.bias = p.residual = mask == 3;
      const Transposed t{(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
      for (const Fill fill : {Fill::normal, Fill::ones, Fill::rare, Fill::wide})
        expect_cpu_bits(p, t, fill);
      // Rows of the largest integers among others: 300 of them, and one column.
      OwnedTensor a = values(Dtype::f32, matrices(s.batch, s.m, s.k, t.a), Fill::normal, 1),
                  b = values(Dtype::f32, matrices(s.batch, s.k, s.n, t.b), Fill::normal, 2);
      const float largest = std::nextafter(1.0f, 0.0f);
      for (std::int64_t k = 0; k < s.k; ++k) {
        for (std::int64_t i = s.m / 2; i < std::min(s.m, s.m / 2 + 300); ++i)
          a.as<float>()[t.a ? k * s.m + i : i * s.k + k] = k % 2 != 0 ? largest : -largest;
        b.as<float>()[t.b ? (s.n - 1) * s.k + k : k * s.n + s.n - 1] =
            k % 2 != 0 ? largest : -largest;
      }
      expect_cpu_bits(p, t, a, b, Fill::normal, false);
      if (testing::Test::HasFatalFailure()) return;
    }
}

TEST(MatmulCuda, TheLibraryKeepsItsBound) {
  PLANCK_NEEDS_GPU();
  const Stream host = Stream::cpu();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    const MatmulProblem p{dtype, {2}, 130, 72, 200, ProductMath::chain};
    const OwnedTensor a = values(dtype, {2, 130, 200}, Fill::uniform, 1);
    const OwnedTensor b = values(dtype, {2, 200, 72}, Fill::uniform, 2);
    const auto expected = multiply(host, p, a, b, {}, "cpu:fma_chain");
    const auto there_a = a.to(host, *stream), there_b = b.to(host, *stream);
    ASSERT_TRUE(expected && there_a && there_b);
    const auto made = multiply(*stream, p, *there_a, *there_b, {}, "cuda:cublaslt");
    ASSERT_TRUE(made) << made.error().message;
    const auto got = made->to(*stream, host);
    ASSERT_TRUE(got);
    const auto number = [&](const OwnedTensor& t, std::int64_t i) {
      return visit_float(dtype, [&](auto type) {
        return static_cast<double>(t.as<typename decltype(type)::type>()[i]);
      });
    };
    // Sums of 200 products below 1: both are within the bound of either.
    const int digits = dtype == Dtype::f64   ? 53
                       : dtype == Dtype::f32 ? 24
                       : dtype == Dtype::f16 ? 11
                                             : 8;
    double worst = 0;
    for (std::int64_t i = 0; i < numel(got->shape()); ++i)
      worst = std::max(worst, std::abs(number(*got, i) - number(*expected, i)));
    const double bound = Selection<MatmulProblem>::select(*stream, p, {.kernel = "cuda:cublaslt"})
                             ->precision_guarantee()
                             .max_ulp;
    EXPECT_LE(worst, 2 * bound * 200 * std::ldexp(1.0, 1 - digits)) << name(dtype);
    EXPECT_LE(worst, dtype == Dtype::f64 ? 1e-12 : dtype == Dtype::f32 ? 1e-4 : 0.2) << name(dtype);
  }
}

TEST(Long, MatmulPast2To31ElementsOnCuda) {
  PLANCK_NEEDS_GPU();
  const auto stream = Stream::cuda();
  ASSERT_TRUE(stream);
  constexpr std::int64_t kM = (std::int64_t{1} << 25) + 77, kK = 65, kN = 3, kTail = 100;
  const Stream host = Stream::cpu();
  const OwnedTensor part = values(Dtype::s8, {kTail, kK}, Fill::integers, 1);
  const OwnedTensor b = values(Dtype::s8, {kK, kN}, Fill::integers, 2);
  auto a = OwnedTensor::empty(*stream, Dtype::s8, {kM, kK});
  const auto there_b = b.to(host, *stream);
  ASSERT_TRUE(a && there_b);
  for (std::int64_t at : {std::int64_t{0}, kM - kTail})
    ASSERT_TRUE(cuda::copy_to_device(0, stream->native(), a->as<std::byte>() + at * kK,
                                     part.as<std::byte>(), kTail * kK));
  const auto expected =
      multiply(host, {Dtype::s8, {}, kTail, kN, kK, ProductMath::exact}, part, b, {}, {});
  const auto made =
      multiply(*stream, {Dtype::s8, {}, kM, kN, kK, ProductMath::exact}, *a, *there_b, {}, {});
  ASSERT_TRUE(expected && made);
  const auto got = made->to(*stream, host);
  ASSERT_TRUE(got);
  for (std::int64_t at : {std::int64_t{0}, kM - kTail})
    EXPECT_TRUE(std::equal(expected->as<std::int32_t>(), expected->as<std::int32_t>() + kTail * kN,
                           got->as<std::int32_t>() + at * kN))
        << at;
}

}  // namespace
}  // namespace planck
