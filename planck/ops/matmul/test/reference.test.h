// Products by a plain loop, as their math says, and what follows them, step by step.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "planck/math/activation.h"
#include "planck/math/products/exact_product.h"
#include "planck/math/products/tensor_core.h"
#include "planck/ops/matmul/matmul.problem.h"
#include "planck/verify/case.h"

namespace planck {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

struct Sizes {
  std::int64_t batches, m, n, k;
};

inline Sizes sizes_of(const NamedTensors& inputs) {
  const Shape &a = inputs.find("a")->second.shape, &b = inputs.find("b")->second.shape;
  const int rank = a.rank();
  std::int64_t batches = 1;
  for (int d = 0; d < rank - 2; ++d) batches *= a[d];
  return {batches, a[rank - 2], b[rank - 1], a[rank - 1]};
}

// Calls f(index in C, a(k), b(k)) for every element of C.
template <class F>
void for_each_sum(const NamedTensors& inputs, F&& f) {
  const auto numbers = [&](std::string_view operand) {
    const HostTensor& t = inputs.find(operand)->second;
    std::vector<double> all(static_cast<std::size_t>(t.count()));
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = t.number(static_cast<std::int64_t>(i));
    return all;
  };
  const std::vector<double> all_a = numbers("a"), all_b = numbers("b");
  const double *a = all_a.data(), *b = all_b.data();
  const Sizes s = sizes_of(inputs);
  for (std::int64_t t = 0; t < s.batches; ++t)
    for (std::int64_t i = 0; i < s.m; ++i)
      for (std::int64_t j = 0; j < s.n; ++j)
        f((t * s.m + i) * s.n + j, s.k, [=](std::int64_t k) { return a[(t * s.m + i) * s.k + k]; },
          [=](std::int64_t k) { return b[(t * s.k + k) * s.n + j]; });
}

template <class C>
inline HostTensor chain(const NamedTensors& inputs, Dtype output, const Shape& shape) {
  HostTensor c(output, shape);
  for_each_sum(inputs, [&](std::int64_t at, std::int64_t count, auto a, auto b) {
    C sum = 0;
    for (std::int64_t k = 0; k < count; ++k)
      if constexpr (std::is_integral_v<C>)
        sum += static_cast<C>(a(k)) * static_cast<C>(b(k));
      else
        sum = std::fma(static_cast<C>(a(k)), static_cast<C>(b(k)), sum);
    if constexpr (std::is_same_v<C, double>) {
      c.set_pattern(at, sum != sum ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(sum));
    } else if constexpr (std::is_same_v<C, float>) {
      const float v = sum != sum ? std::bit_cast<float>(0x7fc00000u) : sum;
      c.set_pattern(at, output == Dtype::f32   ? std::bit_cast<std::uint32_t>(v)
                        : output == Dtype::f16 ? f16(v).bits
                                               : bf16(v).bits);
    } else {
      c.set_number(at, static_cast<double>(sum));
    }
  });
  return c;
}

// Elements of an operand as they are stored; make(at, count, a, a_step, b, b_step) gives C's bits.
template <class Bits, class Make>
inline HostTensor by_definition(const NamedTensors& inputs, const MatmulProblem& p, Make make) {
  HostTensor c(p.output_dtype(), p.specs()[matmul_operand::c].shape);
  const auto* a = reinterpret_cast<const Bits*>(inputs.find("a")->second.bytes.data());
  const auto* b = reinterpret_cast<const Bits*>(inputs.find("b")->second.bytes.data());
  for (std::int64_t at = 0; at < numel(p.batch) * p.m * p.n; ++at) {
    const std::int64_t j = at % p.n, row = at / p.n, t = row / p.m;
    c.set_pattern(at, p.k == 0 ? make(a, b) : make(a + row * p.k, b + t * p.k * p.n + j));
  }
  return c;
}

inline HostTensor product_of(const NamedTensors& inputs, const MatmulProblem& p) {
  namespace rule = math::tensor_core;
  namespace exact = math::exact;
  if (p.math == ProductMath::tensor_core) {
    const auto sum = [&]<class Format>(Format, const auto* a, const auto* b) {
      return rule::product<Format>(a, 1, b, p.n, p.k);
    };
    if (p.element_dtype == Dtype::bf16)
      return by_definition<std::uint16_t>(
          inputs, p, [&](auto* a, auto* b) { return bf16(sum(rule::Bf16{}, a, b)).bits; });
    if (p.element_dtype == Dtype::f16)
      return by_definition<std::uint16_t>(
          inputs, p, [&](auto* a, auto* b) { return f16(sum(rule::F16{}, a, b)).bits; });
    return by_definition<std::uint32_t>(
        inputs, p, [&](auto* a, auto* b) { return math::bits_of(sum(rule::Tf32{}, a, b)); });
  }
  if (p.math == ProductMath::exact && p.element_dtype == Dtype::f32)
    return by_definition<float>(inputs, p, [&](const float* a, const float* b) {
      std::uint32_t row = 0, column = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        row = std::max(row, exact::magnitude_of(a[k]));
        column = std::max(column, exact::magnitude_of(b[k * p.n]));
      }
      return math::bits_of(
          exact::product(a, 1, exact::exponent_of(row), b, p.n, exact::exponent_of(column), p.k));
    });
  const Shape shape = p.specs()[matmul_operand::c].shape;
  if (p.element_dtype == Dtype::s8) return chain<std::int64_t>(inputs, Dtype::i32, shape);
  if (p.element_dtype == Dtype::f64) return chain<double>(inputs, Dtype::f64, shape);
  return chain<float>(inputs, p.element_dtype, shape);
}

// Rounds elements of C after a step, in the compute type: step(at, c).
template <class Step>
void round_after(HostTensor& c, Step step) {
  for (std::int64_t at = 0; at < c.count(); ++at) {
    if (c.dtype == Dtype::f64) {
      const double v = step(at, c.number(at));
      c.set_pattern(at, v != v ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(v));
      continue;
    }
    const float made = step(at, static_cast<float>(c.number(at)));
    const float v = made != made ? std::bit_cast<float>(0x7fc00000u) : made;
    c.set_pattern(at, c.dtype == Dtype::f32   ? std::bit_cast<std::uint32_t>(v)
                      : c.dtype == Dtype::f16 ? f16(v).bits
                                              : bf16(v).bits);
  }
}
template <class T, class C>
C activated(Activation a, C x) {
  if (a == Activation::relu) return math::activated<T, Activation::relu>(x);
  return a == Activation::gelu ? math::activated<T, Activation::gelu>(x)
                               : math::activated<T, Activation::silu>(x);
}

// The product, rounded, and then what follows: each step is rounded, as ops would have it.
inline HostTensor expected_of(const NamedTensors& inputs, const MatmulProblem& p) {
  HostTensor c = product_of(inputs, p);
  const auto add = [&](std::string_view operand, std::int64_t period) {
    const HostTensor& other = inputs.find(operand)->second;
    round_after(c, [&](std::int64_t at, auto v) {
      return v + static_cast<decltype(v)>(other.number(at % period));
    });
  };
  if (p.bias) add("bias", p.n);
  if (p.activation != Activation::none)
    visit_float(c.dtype, [&](auto type) {
      using T = typename decltype(type)::type;
      using C = std::conditional_t<std::is_same_v<T, double>, double, float>;
      round_after(c, [&](std::int64_t, auto v) {
        return static_cast<decltype(v)>(activated<T>(p.activation, static_cast<C>(v)));
      });
    });
  if (p.residual) add("residual", c.count());
  return c;
}

inline MatmulProblem problem_of(const Case& c, const NamedTensors& inputs) {
  const HostTensor& a = inputs.find("a")->second;
  const Sizes s = sizes_of(inputs);
  MatmulProblem p{a.dtype, {}, s.m, s.n, s.k, default_product_math(a.dtype)};
  if (const auto math = c.attributes.find("math"); math != c.attributes.end())
    p.math = *parse_product_math(math->second);
  for (int d = 0; d < a.shape.rank() - 2; ++d) p.batch.push_back(a.shape[d]);
  p.bias = inputs.contains("bias");
  p.residual = inputs.contains("residual");
  if (const auto of = c.attributes.find("activation"); of != c.attributes.end())
    p.activation = *parse_activation(of->second);
  return p;
}

}  // namespace planck
