// Products worth timing, against the library's: large squares, transposed operands as backward has
// them, thin ones, batches, and small ones for the cost of a call.
#include <fmt/format.h>

#include "planck/core/activation.h"
#include "planck/verify/bench/bench.h"
#include "planck/verify/case_lists.h"

namespace planck::verify {

namespace {

struct Product {
  Dtype dtype;
  Shape batch;
  std::int64_t m, n, k;
  double share = 0;  // of the peer, where one is aimed at
  Layout a = Layout::contiguous, b = Layout::contiguous;
  bool call = false;
  ProductMath math = default_product_math(dtype);
  bool bias = false;
  Activation activation = Activation::none;
  bool residual = false;
};

BenchCase make_bench(DeviceKind device, const Product& p) {
  Shape a = p.batch, b = p.batch;
  double flops = 2;
  for (std::int64_t extent : p.batch) flops *= static_cast<double>(extent);
  for (std::int64_t extent : {p.m, p.n, p.k}) flops *= static_cast<double>(extent);
  for (std::int64_t extent : {p.m, p.k}) a.push_back(extent);
  for (std::int64_t extent : {p.k, p.n}) b.push_back(extent);
  const Fill fill = p.dtype == Dtype::s8 ? Fill::integers : Fill::normal;
  BenchCase bench{
      .test_case =
          {.op = "matmul",
           .attributes = p.math == default_product_math(p.dtype)
                             ? Attributes{}
                             : Attributes{{"math", std::string(name(p.math))}},
           .inputs = {{.name = "a", .dtype = p.dtype, .shape = a, .fill = fill, .layout = p.a},
                      {.name = "b", .dtype = p.dtype, .shape = b, .fill = fill, .layout = p.b}},
           .output_layouts = {},
           .seed = 1},
      .call = p.call,
      .cpu_share = p.share,
      .note = fmt::format(
          "x {}{}{}{}{}", to_string(b), p.b == Layout::contiguous ? "" : " transposed",
          p.bias ? " + bias" : "",
          p.activation == Activation::none ? "" : fmt::format(", {}", name(p.activation)),
          p.residual ? " + residual" : ""),
      .flops = p.call ? 0 : flops};
  Case& made = bench.test_case;
  if (p.bias)
    made.inputs.push_back({.name = "bias", .dtype = p.dtype, .shape = {p.n}, .fill = fill});
  if (p.activation != Activation::none) made.attributes["activation"] = name(p.activation);
  if (p.residual) {
    Shape c = p.batch;
    c.push_back(p.m), c.push_back(p.n);
    made.inputs.push_back({.name = "residual", .dtype = p.dtype, .shape = c, .fill = fill});
  }
  // The libraries copy what is not dense, which would not be a fair comparison; exact has no peer.
  const bool alone = !p.bias && !p.residual && p.activation == Activation::none;
  if (alone && p.math != ProductMath::exact && p.dtype != Dtype::s8 && p.a == Layout::contiguous &&
      p.b == Layout::contiguous)
    bench.peer = device == DeviceKind::cpu ? "cpu:openblas" : "cuda:cublaslt";
  return bench;
}

// What a GPT of 124 million parameters multiplies, 8,192 tokens at a time: y = x Wᵀ, dx = dy W and
// dW = dyᵀ x, with what follows the first.
void add_gpt(std::vector<Product>& all) {
  constexpr Layout kDense = Layout::contiguous, kTransposed = Layout::transposed;
  constexpr std::int64_t kTokens = 8192;
  struct Layer {
    std::int64_t out, in;
    bool bias, residual;
    Activation activation;
  };
  constexpr Activation kNone = Activation::none;
  for (const auto& [dtype, math] : {std::pair(Dtype::bf16, ProductMath::tensor_core),
                                    std::pair(Dtype::f32, ProductMath::exact)}) {
    for (const Layer& l :
         {Layer{2304, 768, true, false, kNone}, Layer{768, 768, true, true, kNone},
          Layer{3072, 768, true, false, kNone}, Layer{3072, 768, true, false, Activation::gelu},
          Layer{768, 3072, true, true, kNone}, Layer{50304, 768, false, false, kNone}})
      all.push_back({dtype,
                     {},
                     kTokens,
                     l.out,
                     l.in,
                     0,
                     kDense,
                     kTransposed,
                     false,
                     math,
                     l.bias,
                     l.activation,
                     l.residual});
    for (const auto& [out, in] : {std::pair<std::int64_t, std::int64_t>{2304, 768},
                                  {768, 768},
                                  {3072, 768},
                                  {768, 3072},
                                  {50304, 768}}) {
      all.push_back({dtype, {}, kTokens, in, out, 0, kDense, kDense, false, math});
      all.push_back({dtype, {}, out, in, kTokens, 0, kTransposed, kDense, false, math});
    }
  }
}

}  // namespace

std::vector<BenchCase> matmul_benches(DeviceKind device) {
  constexpr Layout kDense = Layout::contiguous, kTransposed = Layout::transposed;
  const bool on_cpu = device == DeviceKind::cpu;
  const std::int64_t side = on_cpu ? 2048 : 4096;
  std::vector<Product> all = {
      {Dtype::f32, {}, side, side, side, 0.8},
      {Dtype::f32, {}, side, side, side, 0, kDense, kTransposed},
      {Dtype::f32, {}, side, side, side, 0, kTransposed, kDense},
      {Dtype::f32, {}, side, side, side, 0, kTransposed, kTransposed},
      {Dtype::f64, {}, side / 2, side / 2, side / 2},
      {Dtype::f32, {}, 512, 512, 512},
      {Dtype::f32, {}, 256, 256, 256},
      {Dtype::f32, {}, 128, 128, 128},
      {Dtype::f32, {}, 1, 4096, 4096},
      {Dtype::f32, {}, 1, 4096, 4096, 0, kDense, kTransposed},
      {Dtype::f32, {}, 8, 4096, 4096},
      {Dtype::f32, {}, 32, 4096, 4096},
      {Dtype::f32, {}, 100'000, 16, 64},
      {Dtype::f32, {}, 100'000, 64, 64},
      {Dtype::f32, {}, 4096, 1, 4096},
      {Dtype::f32, {64}, 64, 64, 64},
      {Dtype::f32, {16}, 512, 64, 512},
  };
  for (const std::int64_t each : {side / 2, side, 2 * side}) {
    if (on_cpu && each == 2 * side) continue;
    for (const Dtype half : {Dtype::bf16, Dtype::f16}) all.push_back({half, {}, each, each, each});
    all.push_back({Dtype::s8, {}, each, each, each});
    all.push_back({Dtype::s8, {}, each, each, each, 0, kDense, kTransposed});
    for (const ProductMath math : {ProductMath::exact, ProductMath::tensor_core})
      all.push_back({Dtype::f32, {}, each, each, each, 0, kDense, kDense, false, math});
  }
  all.push_back({Dtype::bf16, {}, side, side, side, 0, kDense, kTransposed});
  all.push_back({Dtype::bf16, {}, side, side, side, 0, kTransposed, kDense});
  all.push_back({Dtype::bf16,
                 {},
                 side / 2,
                 side / 2,
                 side / 2,
                 0,
                 kDense,
                 kDense,
                 false,
                 ProductMath::chain});
  for (const std::int64_t rows : {1, 8, 32, 64})
    all.push_back({Dtype::bf16, {}, rows, 4096, 4096, 0, kDense, kTransposed});
  for (std::int64_t small : {1, 4, 16, 64})
    all.push_back({Dtype::f32, {}, small, small, small, 0, kDense, kDense, true});
  if (!on_cpu) add_gpt(all);
  std::vector<BenchCase> benches;
  for (const Product& p : all) benches.push_back(make_bench(device, p));
  return benches;
}

}  // namespace planck::verify
