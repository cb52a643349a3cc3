// Convolutions as plain loops over their terms, for each meaning of a product. It knows shapes and
// values, nothing of the library; docs/numerics.md has the formulas.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <vector>

#include "planck/ops/conv/conv.problem.h"
#include "planck/verify/case_lists.h"

namespace planck {

struct Term {
  double a, b;
};
// The products of one output element, in order; every chunk is a sum of its own.
using Chunked = std::vector<std::vector<Term>>;

class ConvReference {
 public:
  ConvReference(const ConvProblem& problem, const verify::NamedTensors& inputs) : p(problem) {
    const auto numbers = [&](std::string_view operand) {
      const verify::HostTensor& t = inputs.find(operand)->second;
      std::vector<double> all;
      for (std::int64_t i = 0; i < t.count(); ++i) all.push_back(t.number(i));
      return all;
    };
    first = numbers(p.kind == ConvKind::conv2d_input ? "dy" : "x");
    second = numbers(p.kind == ConvKind::conv2d_weight ? "dy" : "weight");
    if (p.math == ProductMath::exact) find_exponents();
  }

  Shape output() const {
    return p.kind == ConvKind::conv2d ? p.y() : p.kind == ConvKind::conv2d_input ? p.x : p.weight;
  }
  verify::HostTensor expected() const;
  Chunked terms(std::int64_t flat) const;
  // The largest finite magnitudes that share the exponents of an element's factors; exact alone.
  std::array<double, 2> largest(std::int64_t flat) const {
    const auto [image, other] = keys(flat);
    return {largest_first.at(image), largest_second.at(other)};
  }

 private:
  struct Element {
    std::int64_t d0, d1, d2, d3;
  };
  Element element(std::int64_t flat) const {
    const Shape o = output();
    return {flat / o[3] / o[2] / o[1], flat / o[3] / o[2] % o[1], flat / o[3] % o[2], flat % o[3]};
  }
  static double at(const std::vector<double>& v, const Shape& s, std::int64_t a, std::int64_t b,
                   std::int64_t c, std::int64_t d) {
    return v[static_cast<std::size_t>(((a * s[1] + b) * s[2] + c) * s[3] + d)];
  }
  static double or_zero(const std::vector<double>& v, const Shape& s, std::int64_t a,
                        std::int64_t b, std::int64_t c, std::int64_t d) {
    return c < 0 || d < 0 || c >= s[2] || d >= s[3] ? 0 : at(v, s, a, b, c, d);
  }
  std::int64_t filters() const { return p.weight[0] / p.options.groups; }
  std::int64_t block() const { return p.element_dtype == Dtype::f32 ? 8 : 16; }

  // What shares an exponent, as numbers of exact's groups: of the image (x or dy) and of the other.
  std::array<std::int64_t, 2> keys(std::int64_t flat) const {
    const Element e = element(flat);
    const std::int64_t groups = p.options.groups;
    if (p.kind == ConvKind::conv2d) return {e.d0 * groups + e.d1 / filters(), e.d1};
    if (p.kind == ConvKind::conv2d_input) return {e.d0 * groups + e.d1 / p.weight[1], e.d1};
    return {e.d0 / filters() * p.weight[1] + e.d1, e.d0};
  }
  void find_exponents();
  std::vector<Term> summed(const Element& e) const;
  float tensor_core(const Chunked& terms) const;
  float exact(std::int64_t flat) const;

  const ConvProblem& p;
  std::vector<double> first, second;
  std::map<std::int64_t, double> largest_first, largest_second;
};

// The terms of y and dx; of dweight over all places.
inline std::vector<Term> ConvReference::summed(const Element& e) const {
  const auto [d0, d1, d2, d3] = e;
  const Shape y = p.y();
  const auto [sh, sw] = p.options.stride;
  const auto [ph, pw] = p.options.padding;
  const auto [dh, dw] = p.options.dilation;
  const std::int64_t kh = p.weight[2], kw = p.weight[3], channels = p.weight[1];
  std::vector<Term> all;
  if (p.kind == ConvKind::conv2d_weight) {  // [f, c, u, v]
    const std::int64_t group = d0 / filters();
    for (std::int64_t n = 0; n < y[0]; ++n)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j)
          all.push_back(
              {at(second, y, n, d0, i, j), or_zero(first, p.x, n, group * channels + d1,
                                                   i * sh + d2 * dh - ph, j * sw + d3 * dw - pw)});
    return all;
  }
  const bool forward = p.kind == ConvKind::conv2d;  // [n, f, i, j] or [n, c, h, w]
  const std::int64_t inner = forward ? channels : filters();
  const std::int64_t group = d1 / (forward ? filters() : channels);
  const auto add = [&](std::int64_t c, std::int64_t u, std::int64_t v) {
    if (forward) {
      all.push_back({at(second, p.weight, d1, c, u, v),
                     or_zero(first, p.x, d0, group * channels + c, d2 * sh + u * dh - ph,
                             d3 * sw + v * dw - pw)});
      return;
    }
    const std::int64_t h = d2 + ph - u * dh, w = d3 + pw - v * dw;
    if (h % sh != 0 || w % sw != 0) return;
    all.push_back({at(second, p.weight, group * filters() + c, d1 % channels, u, v),
                   or_zero(first, y, d0, group * filters() + c, h / sh, w / sw)});
  };
  if (p.math != ProductMath::tensor_core) {
    for (std::int64_t c = 0; c < inner; ++c)
      for (std::int64_t u = 0; u < kh; ++u)
        for (std::int64_t v = 0; v < kw; ++v) add(c, u, v);
    return all;
  }
  for (std::int64_t u = 0; u < kh; ++u)
    for (std::int64_t v = 0; v < kw; ++v) {
      const std::size_t before = all.size();
      for (std::int64_t c = 0; c < inner; ++c) add(c, u, v);
      while (inner >= block() && all.size() > before &&
             static_cast<std::int64_t>(all.size()) % block() != 0)
        all.push_back({0, 0});
    }
  return all;
}

inline Chunked ConvReference::terms(std::int64_t flat) const {
  const std::vector<Term> all = summed(element(flat));
  if (p.kind != ConvKind::conv2d_weight) return {all};
  // At most 64 chunks of equal length, 512 or longer, at most 2^22 sums of chunks.
  const auto places = static_cast<std::int64_t>(all.size());
  std::int64_t chunks = std::max<std::int64_t>(1, (places + 511) / 512);
  chunks =
      std::min({chunks, std::int64_t{64}, std::max<std::int64_t>(1, 4194304 / numel(p.weight))});
  std::int64_t length = std::max<std::int64_t>(1, (places + chunks - 1) / chunks);
  if (p.math == ProductMath::tensor_core) length = (length + 63) / 64 * 64;
  if (p.math == ProductMath::exact) length = std::max<std::int64_t>(places, 1);
  Chunked cut;
  for (std::int64_t k = 0; k == 0 || k < places; k += length)
    cut.emplace_back(all.begin() + k, all.begin() + std::min(places, k + length));
  return cut;
}

template <class C>
C chain(const Chunked& terms) {
  C total = 0;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    C sum = 0;
    for (const Term& term : terms[t])
      if constexpr (std::is_integral_v<C>)
        sum += static_cast<C>(term.a) * static_cast<C>(term.b);
      else
        sum = std::fma(static_cast<C>(term.a), static_cast<C>(term.b), sum);
    total = t == 0 ? sum : total + sum;
  }
  return total;
}

// x 2^-unit, toward zero, of what is below 2^62.
inline double cut_at(double x, int unit) {
  return std::ldexp(std::trunc(std::ldexp(x, -unit)), unit);
}

// c and a block of products at 25 bits below the largest exponent, in f64, where all is exact: a
// product has 22 bits, a sum of those that are cut 31.
inline float ConvReference::tensor_core(const Chunked& terms) const {
  const int smallest = p.element_dtype == Dtype::f16 ? -14 : -126;
  const auto factor = [&](double x) {
    if (p.element_dtype != Dtype::f32) return x;
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    return static_cast<double>(std::bit_cast<float>(bits & ~0x1fffu));
  };
  const auto exponent = [](double x, int least) { return std::max(std::ilogb(x), least); };
  float total = 0;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    double c = 0;
    const auto size = static_cast<std::int64_t>(terms[t].size());
    for (std::int64_t k = 0; k < size; k += block()) {
      std::vector<double> all = {c};
      int largest = c == 0 || !std::isfinite(c) ? -133 : exponent(c, -126);
      for (std::int64_t i = k; i < std::min(size, k + block()); ++i) {
        const Term& term = terms[t][static_cast<std::size_t>(i)];
        const double a = factor(term.a), b = factor(term.b), product = a * b;
        all.push_back(product);
        if (product != 0 && std::isfinite(product))
          largest = std::max(largest, exponent(a, smallest) + exponent(b, smallest));
      }
      double sum = 0;
      bool finite = true;
      for (double x : all) finite = finite && std::isfinite(x);
      if (!finite) {  // IEEE 754's sum of those alone
        for (double x : all) sum += std::isfinite(x) ? 0 : x;
        c = sum;
        continue;
      }
      for (double x : all) sum += x == 0 ? 0 : cut_at(x, largest - 25);
      if (sum == 0) {
        c = 0;
        continue;
      }
      c = cut_at(sum, std::max(std::ilogb(sum) - 23, -149)) + 0.0;
      if (std::abs(c) > 0x1.fffffep127) c = std::copysign(INFINITY, c);
    }
    const auto part = static_cast<float>(c);
    total = t == 0 ? part : total + part;
  }
  return total;
}

inline void ConvReference::find_exponents() {
  const auto note = [](std::map<std::int64_t, double>& to, std::int64_t key, double x) {
    double& most = to[key];
    if (std::isfinite(x)) most = std::max(most, std::abs(x));
  };
  const Shape a = p.kind == ConvKind::conv2d_input ? p.y() : p.x;
  const Shape b = p.kind == ConvKind::conv2d_weight ? p.y() : p.weight;
  const std::int64_t groups = p.options.groups, in_group = a[1] / groups;
  for (std::int64_t key = 0; key < std::max(a[0] * groups, a[1]); ++key)
    note(largest_first, key, 0);
  for (std::int64_t key = 0; key < std::max(p.x[1], p.weight[0]); ++key)
    note(largest_second, key, 0);
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto plane = static_cast<std::int64_t>(i) / (a[2] * a[3]);
    const std::int64_t n = plane / a[1], c = plane % a[1];
    note(largest_first, p.kind == ConvKind::conv2d_weight ? c : n * groups + c / in_group,
         first[i]);
  }
  for (std::size_t i = 0; i < second.size(); ++i) {
    const auto plane = static_cast<std::int64_t>(i) / (b[2] * b[3]);
    const std::int64_t outer = plane / b[1], inner = plane % b[1];
    note(largest_second,
         p.kind == ConvKind::conv2d         ? outer
         : p.kind == ConvKind::conv2d_input ? outer / filters() * p.weight[1] + inner
                                            : inner,
         second[i]);
  }
}

// Integers in 128 bits; a long double holds what is rounded once.
inline float ConvReference::exact(std::int64_t flat) const {
  const auto [of_image, of_other] = largest(flat);
  const auto exponent = [](double most) { return most == 0 ? 0 : std::ilogb(most) + 1; };
  const int image = exponent(of_image), other = exponent(of_other);
  __int128 sum = 0;
  double special = 0;
  const Chunked all = terms(flat);
  for (const Term& t : all[0]) {
    if (!std::isfinite(t.a) || !std::isfinite(t.b)) {
      special += t.a * t.b;
      continue;
    }
    sum += static_cast<__int128>(std::nearbyint(std::ldexp(t.a, 22 - other))) *
           static_cast<__int128>(std::nearbyint(std::ldexp(t.b, 22 - image)));
  }
  if (special != 0) return static_cast<float>(special);  // NaN too
  return static_cast<float>(std::ldexp(static_cast<long double>(sum), image + other - 44)) + 0.0f;
}

inline verify::HostTensor ConvReference::expected() const {
  verify::HostTensor out(p.kind == ConvKind::conv2d ? p.output_dtype() : p.element_dtype, output());
  for (std::int64_t i = 0; i < out.count(); ++i) {
    if (p.element_dtype == Dtype::s8) {
      out.set_number(i, static_cast<double>(chain<std::int64_t>(terms(i))));
    } else if (p.element_dtype == Dtype::f64) {
      const double v = chain<double>(terms(i));
      out.set_pattern(i, v != v ? 0x7ff8000000000000u : std::bit_cast<std::uint64_t>(v));
    } else {
      float v = p.math == ProductMath::chain         ? chain<float>(terms(i))
                : p.math == ProductMath::tensor_core ? tensor_core(terms(i))
                                                     : exact(i);
      if (v != v) v = std::bit_cast<float>(0x7fc00000u);
      out.set_pattern(i, out.dtype == Dtype::f32   ? std::bit_cast<std::uint32_t>(v)
                         : out.dtype == Dtype::f16 ? f16(v).bits
                                                   : bf16(v).bits);
    }
  }
  return out;
}

inline ConvProblem problem_of(const verify::Case& c) {
  const auto numbers = [&](const char* attribute, std::int64_t otherwise) {
    std::array<std::int64_t, 2> v{otherwise, otherwise};
    if (const auto it = c.attributes.find(attribute); it != c.attributes.end()) {
      v[0] = std::stoll(it->second);
      v[1] = std::stoll(it->second.substr(it->second.find('x') + 1));
    }
    return v;
  };
  const Conv2dOptions o{numbers("stride", 1), numbers("padding", 0), numbers("dilation", 1),
                        numbers("groups", 1)[0]};
  const Shape &a = c.inputs[0].shape, &b = c.inputs[1].shape;
  const Dtype t = c.inputs[0].dtype;
  const auto asked = c.attributes.find("math");
  const ProductMath math =
      asked == c.attributes.end() ? default_product_math(t) : *parse_product_math(asked->second);
  if (c.op == "conv2d") return {ConvKind::conv2d, t, a, b, o, math};
  if (c.op == "conv2d_input") {
    const auto size = numbers("size", 0);
    return {ConvKind::conv2d_input, t, {a[0], b[1] * o.groups, size[0], size[1]}, b, o, math};
  }
  const auto kernel = numbers("kernel", 0);
  return {ConvKind::conv2d_weight, t, a, {b[1], a[1] / o.groups, kernel[0], kernel[1]}, o, math};
}

}  // namespace planck
