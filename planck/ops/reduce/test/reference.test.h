// Naive references of the row-wise families, for their tests. They share no code with the library
// but exp and log.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "planck/math/exp_terms.h"
#include "planck/math/log.h"
#include "planck/verify/with_outputs.test.h"

namespace planck::rows_test {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;
using verify::Where;
using verify::with_outputs;

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

// var and logsumexp by chunks of 512 elements, joined pairwise (docs/numerics.md).
template <class C>
std::vector<std::vector<C>> chunks_of(const std::vector<C>& v) {
  std::vector<std::vector<C>> chunks;
  for (std::size_t i = 0; i < v.size(); ++i) {
    if (i % 512 == 0) chunks.emplace_back();
    chunks.back().push_back(v[i]);
  }
  return chunks;
}
template <class C>
C chunked_var(const std::vector<C>& v, std::int64_t correction) {
  const auto n = static_cast<std::int64_t>(v.size());
  if (n <= correction) return std::numeric_limits<C>::quiet_NaN();
  struct Chunk {
    C n, mean, squares;
  };
  std::vector<Chunk> found;
  for (const std::vector<C>& chunk : chunks_of(v)) {
    const C count = static_cast<C>(chunk.size()), mean = pairwise_sum(chunk) / count;
    std::vector<C> squares;
    for (C x : chunk) squares.push_back((x - mean) * (x - mean));
    found.push_back({count, mean, pairwise_sum(squares)});
  }
  const Chunk all = pairwise(found, 0, found.size(), Chunk{}, [](Chunk a, Chunk b) {
    const C both = a.n + b.n, part = b.n / both, d = b.mean - a.mean;
    const C between = d * part;
    return Chunk{both, std::fma(d, part, a.mean),
                 std::fma(between, d * a.n, a.squares + b.squares)};
  });
  return all.squares / static_cast<C>(n - correction);
}
// exp, log and e(z) are the library's, which have tests of their own.
template <class C>
C chunked_logsumexp(const std::vector<C>& v) {
  constexpr C kInfinity = std::numeric_limits<C>::infinity();
  const auto center_of = [](C largest) { return std::abs(largest) < 64 ? 0 : largest; };
  struct Chunk {
    C largest, sum;
  };
  std::vector<Chunk> found;
  for (const std::vector<C>& chunk : chunks_of(v)) {
    C largest = -kInfinity;
    for (C x : chunk) largest = std::isnan(x) || std::isnan(largest) ? NAN : std::max(largest, x);
    std::vector<C> terms;
    for (C x : chunk) terms.push_back(math::exp_term(x - center_of(largest)));
    found.push_back({largest, largest == -kInfinity ? 0 : pairwise_sum(terms)});
  }
  const Chunk all = pairwise(found, 0, found.size(), Chunk{-kInfinity, 0}, [&](Chunk a, Chunk b) {
    if (std::isnan(a.largest) || std::isnan(b.largest)) return Chunk{NAN, 0};
    if (a.largest < b.largest) std::swap(a, b);
    const C above = center_of(a.largest), below = center_of(b.largest);
    if (above == below) return Chunk{a.largest, a.sum + b.sum};
    return Chunk{a.largest, std::fma(b.sum, math::exp(below - above), a.sum)};
  });
  if (!std::isfinite(all.largest)) return all.largest;
  const C top = math::exp_term(all.largest - center_of(all.largest));
  return all.largest + math::log(all.sum / top);
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

// Row-major positions of the elements that become output i of a reduction, in row-major order.
inline std::vector<std::vector<std::int64_t>> members(const Case& c, const Shape& shape) {
  const std::string axes = attribute(c, "axes", c.op == "cumsum" ? "0" : "all");
  const auto reduced = [&](int d) {
    return axes == "all" || axes.find(static_cast<char>('0' + d)) != std::string::npos;
  };
  std::int64_t outputs = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (!reduced(d)) outputs *= shape[d];
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(outputs));
  for (std::int64_t i = 0; i < numel(shape); ++i) {
    std::int64_t rest = i, out = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!reduced(d)) {
        out += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    all[static_cast<std::size_t>(out)].push_back(i);
  }
  return all;
}

}  // namespace planck::rows_test
