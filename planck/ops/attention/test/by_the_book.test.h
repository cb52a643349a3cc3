// Attention as docs/numerics.md writes it down, one number after the other: what every kernel must
// give, bit for bit; and the same formulas in long double, for errors.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "planck/math/exp_terms.h"
#include "planck/math/log.h"
#include "planck/math/philox.h"
#include "planck/math/products/tensor_core.h"
#include "planck/math/sigmoid.h"
#include "planck/ops/attention/attention.h"

namespace planck::attention_test {

using Index = std::int64_t;

template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
double number(T x) {
  return static_cast<double>(static_cast<ComputeOf<T>>(x));
}

// Tensors of one problem, row-major; mask is what is added, -Inf where a key is hidden.
template <class T>
struct Inputs {
  AttentionProblem p;
  std::vector<T> q, k, v, dy;
  std::vector<ComputeOf<T>> mask;
};
template <class T>
struct Outputs {
  std::vector<T> y, dq, dk, dv;
  std::vector<ComputeOf<T>> lse;
};

// The slope of ALiBi: 2^-x as e^(-(fraction of x) ln 2) 2^-(whole part of x).
template <class C>
C alibi_slope(Index head, Index heads) {
  Index n = 1;
  while (n * 2 <= heads) n *= 2;
  const double x = head < n ? 8.0 * double(head + 1) / double(n)
                            : 8.0 * double(2 * (head - n) + 1) / double(2 * n);
  const double ln2 = 0.69314718055994530942;
  return static_cast<C>(std::ldexp(math::exp(-((x - std::floor(x)) * ln2)), -int(std::floor(x))));
}
// Whether dropout keeps probability `at` of [N, H, L, S]: the numbers of random_uniform.
template <class C>
bool kept(const ScaledDotProductOptions& o, Index at) {
  const auto i = static_cast<std::uint64_t>(at);
  const std::uint64_t counter = sizeof(C) == 4 ? i / 4 : i / 2;
  const auto w = philox({{std::uint32_t(counter), std::uint32_t(counter >> 32),
                          std::uint32_t(o.offset), std::uint32_t(o.offset >> 32)}},
                        std::uint32_t(o.seed), std::uint32_t(o.seed >> 32));
  if (sizeof(C) == 4)
    return static_cast<float>(w.v[i % 4] >> 8) * 0x1p-24f < static_cast<float>(1 - o.dropout);
  const std::uint64_t bits = std::uint64_t{w.v[i % 2 * 2]} << 32 | w.v[i % 2 * 2 + 1];
  return static_cast<double>(bits >> 11) * 0x1p-53 < 1 - o.dropout;
}

template <class T>
class Book {
 public:
  using C = ComputeOf<T>;
  using Format = std::conditional_t<
      std::is_same_v<T, bf16>, math::tensor_core::Bf16,
      std::conditional_t<std::is_same_v<T, f16>, math::tensor_core::F16, math::tensor_core::Tf32>>;
  using Bits = typename Format::Bits;

  explicit Book(const Inputs<T>& in) : in_(in), p_(in.p), scale_(static_cast<C>(p_.scale())) {}

  Outputs<T> forward() const {
    Outputs<T> out;
    for (Index n = 0; n < p_.batch(); ++n)
      for (Index h = 0; h < p_.heads(); ++h)
        for (Index i = 0; i < p_.queries(); ++i) row(n, h, i, out);
    return out;
  }

  void backward(Outputs<T>& out) const {
    const Index d = p_.width(), e = p_.out_width();
    std::vector<C> dk(in_.k.size()), dv(in_.v.size());
    out.dq.resize(in_.q.size()), out.dk.resize(dk.size()), out.dv.resize(dv.size());
    for (Index n = 0; n < p_.batch(); ++n)
      for (Index h = 0; h < p_.heads(); ++h) {
        std::vector<std::vector<C>> p(size(p_.keys())), ds(size(p_.keys()));  // [key][query]
        for (Index i = 0; i < p_.queries(); ++i) {
          std::vector<C> of_query;
          const T *y = at(out.y, row_of(n, h, i) * size(e)),
                  *dy = at(in_.dy, row_of(n, h, i) * size(e));
          const C delta = pairwise(dy, y, e);
          const C lse = out.lse[row_of(n, h, i)];
          for (Index j = 0; j < p_.keys(); ++j) {
            const C t = score(n, h, i, j), hidden = -inf();
            C z = t - lse;
            if (z > 0) z = 0;
            C probability = power(z);
            if (!(lse < inf()) && t != hidden) probability = std::numeric_limits<C>::quiet_NaN();
            C dp = product(dy, at(in_.v, key_of(n, h, j) * size(e)), e);
            if (p_.options.dropout > 0) dp = keeps(n, h, i, j) ? dp * enlarged() : C(0);
            C slope = probability == 0 ? C(0) : probability * (dp - delta);
            if (p_.options.soft_cap > 0 && slope != 0) {
              const C u = before_cap(n, h, i, j);
              slope *= std::fma(-u, u, C(1));
            }
            p[size(j)].push_back(keeps(n, h, i, j) ? probability : C(0));
            ds[size(j)].push_back(slope);
            of_query.push_back(ds[size(j)].back());
          }
          for (Index c = 0; c < d; ++c) {
            C sum = 0;
            add(sum, of_query, 0, p_.keys(), at(in_.k, key_of(n, h, 0) * size(d) + size(c)), d);
            out.dq[row_of(n, h, i) * size(d) + size(c)] = finished(sum * scale_);
          }
        }
        for (Index j = 0; j < p_.keys(); ++j) {
          const std::size_t key = key_of(n, h, j);
          for (Index c = 0; c < d; ++c)
            add(dk[key * size(d) + size(c)], ds[size(j)], 0, p_.queries(),
                at(in_.q, row_of(n, h, 0) * size(d) + size(c)), d);
          for (Index c = 0; c < e; ++c)
            add(dv[key * size(e) + size(c)], p[size(j)], 0, p_.queries(),
                at(in_.dy, row_of(n, h, 0) * size(e) + size(c)), e);
        }
      }
    for (std::size_t i = 0; i < dk.size(); ++i) out.dk[i] = finished(dk[i] * scale_);
    for (std::size_t i = 0; i < dv.size(); ++i)
      out.dv[i] = finished(p_.options.dropout > 0 ? dv[i] * enlarged() : dv[i]);
  }

 private:
  static std::size_t size(Index i) { return static_cast<std::size_t>(i); }
  // Element i of a tensor; where it has none, nothing is read there.
  static const T* at(const std::vector<T>& x, std::size_t i) {
    return x.data() + std::min(i, x.size());
  }
  static C inf() { return std::numeric_limits<C>::infinity(); }
  std::size_t row_of(Index n, Index h, Index i) const {
    return size((n * p_.heads() + h) * p_.queries() + i);
  }
  std::size_t key_of(Index n, Index h, Index j) const {
    return size((n * p_.groups() + h / p_.in_group()) * p_.keys() + j);
  }
  static C power(C z) {
    return z >= (sizeof(C) == 4 ? C(-86) : C(-700)) ? math::exp_term_near(z) : C(0);
  }
  static T finished(C x) {
    x += C(0);
    return T(x == x ? x : std::numeric_limits<C>::quiet_NaN());
  }
  bool chain() const { return p_.math() == ProductMath::chain; }
  static Bits bits(T x) {
    if constexpr (sizeof(T) == 2) return x.bits;
    if constexpr (sizeof(T) == 4) return math::bits_of(x);
    return {};
  }

  C score(Index n, Index h, Index i, Index j) const {
    const Index last = i + p_.keys() - p_.queries();
    if (p_.options.causal && j > last) return -inf();
    if (p_.options.window > 0 && j <= last - p_.options.window) return -inf();
    const C s = before_cap(n, h, i, j);
    const C scale = p_.options.soft_cap > 0 ? static_cast<C>(p_.options.soft_cap) : scale_;
    if (in_.mask.empty() && !p_.options.alibi) return s * scale;
    C added = in_.mask.empty() ? C(0) : in_.mask[row_of(n, h, i) * size(p_.keys()) + size(j)];
    if (p_.options.alibi)
      added -= alibi_slope<C>(h, p_.heads()) * static_cast<C>(std::abs(last - j));
    return added == -inf() ? added : std::fma(s, scale, added);
  }
  // The product, or with a cap tanh(score / cap).
  C before_cap(Index n, Index h, Index i, Index j) const {
    const Index d = p_.width();
    const C s =
        product(at(in_.q, row_of(n, h, i) * size(d)), at(in_.k, key_of(n, h, j) * size(d)), d);
    if (p_.options.soft_cap == 0) return s;
    return math::tanh(s * scale_ / static_cast<C>(p_.options.soft_cap));
  }
  bool keeps(Index n, Index h, Index i, Index j) const {
    return p_.options.dropout == 0 || kept<C>(p_.options, Index(row_of(n, h, i)) * p_.keys() + j);
  }
  C enlarged() const { return static_cast<C>(1 / (1 - p_.options.dropout)); }
  C product(const T* a, const T* b, Index n) const {
    C c = 0;
    if (chain()) {
      for (Index i = 0; i < n; ++i) c = std::fma(static_cast<C>(a[i]), static_cast<C>(b[i]), c);
      return c;
    }
    if constexpr (!std::is_same_v<T, double>)
      for (Index at = 0; at < n; at += Format::kBlock) {
        Bits x[Format::kBlock] = {}, y[Format::kBlock] = {};
        for (Index i = 0; i < Format::kBlock && at + i < n; ++i)
          x[i] = bits(a[at + i]), y[i] = bits(b[at + i]);
        c = math::tensor_core::add_block<Format>(c, x, y);
      }
    return c;
  }
  // Adds weights[from … to) times x, whose first element belongs to weight 0.
  void add(C& c, const std::vector<C>& weights, Index from, Index to, const T* x,
           Index step) const {
    if (chain()) {
      for (Index i = from; i < to; ++i)
        if (weights[size(i)] != 0) c = std::fma(weights[size(i)], static_cast<C>(x[i * step]), c);
      return;
    }
    if constexpr (!std::is_same_v<T, double>)
      for (Index at = from; at < to; at += Format::kBlock) {
        Bits a[Format::kBlock] = {}, b[Format::kBlock] = {};
        for (Index i = 0; i < Format::kBlock && at + i < to; ++i) {
          a[i] = bits(T(weights[size(at + i)]));
          if constexpr (sizeof(T) == 4) a[i] &= 0xffffe000u;
          if (static_cast<Bits>(a[i] << 1) != 0) b[i] = bits(x[(at + i) * step]);
        }
        c = math::tensor_core::add_block<Format>(c, a, b);
      }
  }
  static C pairwise(const T* a, const T* b, Index n) {
    if (n == 1) return static_cast<C>(a[0]) * static_cast<C>(b[0]);
    Index half = 1;
    while (2 * half < n) half *= 2;
    return pairwise(a, b, half) + pairwise(a + half, b + half, n - half);
  }

  void row(Index n, Index h, Index i, Outputs<T>& out) const {
    const Index e = p_.out_width();
    C m = -inf(), l[8] = {};
    std::vector<C> y(size(e));
    for (Index start = 0; start < p_.keys(); start += 128) {
      const Index end = std::min<Index>(start + 128, p_.keys());
      std::vector<C> t(size(p_.keys()));
      C now = m;
      for (Index j = start; j < end; ++j) {
        t[size(j)] = score(n, h, i, j);
        if (t[size(j)] > now || t[size(j)] != t[size(j)]) now = t[size(j)];
      }
      const C factor = power(m - now);
      m = now;
      for (C& part : l) part *= factor;
      for (C& sum : y) sum *= factor;
      for (Index j = start; j < end; ++j) {
        t[size(j)] = power(t[size(j)] - m);
        l[j % 8] += t[size(j)];
        if (!keeps(n, h, i, j)) t[size(j)] = 0;
      }
      for (Index c = 0; c < e; ++c)
        add(y[size(c)], t, start, end, at(in_.v, key_of(n, h, 0) * size(e) + size(c)), e);
    }
    const C sum = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
    const C nan = std::numeric_limits<C>::quiet_NaN();
    C factor = m == -inf() ? C(0) : m < inf() ? 1 / sum : nan;
    if (p_.options.dropout > 0) factor *= enlarged();
    out.lse.push_back(m == -inf() ? m : m < inf() ? m + math::log(sum) : m == m ? m : nan);
    for (C x : y) out.y.push_back(finished(x * factor));
  }

  const Inputs<T>& in_;
  const AttentionProblem& p_;
  C scale_;
};

// The value of each output, and what its error is relative to.
struct Exact {
  std::vector<long double> value, scale;
};

// y, dq, dk, dv in long double, with the library's y and lse nowhere.
template <class T>
std::array<Exact, 4> exact(const Inputs<T>& in) {
  const AttentionProblem& p = in.p;
  const Index d = p.width(), e = p.out_width(), L = p.queries(), S = p.keys();
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  const long double scale = p.scale();
  std::array<Exact, 4> out;
  for (auto [o, n] : {std::pair(0, p.batch() * p.heads() * L * e), std::pair(1, Index(in.q.size())),
                      std::pair(2, Index(in.k.size())), std::pair(3, Index(in.v.size()))})
    out[at(o)] = {std::vector<long double>(at(n)), std::vector<long double>(at(n))};
  for (Index n = 0; n < p.batch(); ++n)
    for (Index h = 0; h < p.heads(); ++h)
      for (Index i = 0; i < L; ++i) {
        const Index row = (n * p.heads() + h) * L + i;
        const Index keys = (n * p.groups() + h / p.in_group()) * S;
        std::vector<long double> t(at(S)), dp(at(S)), size_dp(at(S)), past(at(S), 1), z(at(S), 1);
        long double most = -INFINITY, sizes = 0, sum = 0, largest = 0;
        for (Index j = 0; j < S; ++j) {
          long double s = 0, size = 0;
          for (Index c = 0; c < d; ++c) {
            const long double term =
                scale * number(in.q[at(row * d + c)]) * number(in.k[at((keys + j) * d + c)]);
            s += term, size += std::abs(term);
          }
          const Index last = i + S - L;
          const long double cap = p.options.soft_cap;
          if (cap > 0) {
            const long double u = std::tanh(s / cap);
            s = cap * u, past[at(j)] = 1 - u * u;
            size *= std::max<long double>(1, 2 / cap);
          }
          if (p.options.dropout > 0)  // what is kept, enlarged
            z[at(j)] =
                kept<ComputeOf<T>>(p.options, row * S + j) ? 1 / (1.0L - p.options.dropout) : 0.0L;
          long double mask = in.mask.empty() ? 0 : in.mask[at(row * S + j)];
          if (p.options.alibi)
            mask -= alibi_slope<double>(row / L % p.heads(), p.heads()) *
                    static_cast<long double>(std::abs(last - j));
          if (p.options.causal &&
              (j > last || (p.options.window > 0 && j <= last - p.options.window)))
            mask = -INFINITY;
          t[at(j)] = s + mask;
          if (mask == -INFINITY) continue;
          most = std::max(most, t[at(j)]);
          sizes = std::max(sizes, size + std::abs(mask));
          for (Index c = 0; c < e; ++c)
            largest =
                std::max<long double>(largest, std::abs(number(in.v[at((keys + j) * e + c)])));
        }
        for (long double& x : t) sum += x = most == -INFINITY ? 0 : std::exp(x - most);
        largest /= 1 - p.options.dropout;
        long double delta = 0, size_delta = 0;
        for (Index c = 0; c < e; ++c) {
          long double y = 0;
          for (Index j = 0; j < S; ++j)
            if (t[at(j)] != 0)
              y += z[at(j)] * t[at(j)] / sum * number(in.v[at((keys + j) * e + c)]);
          out[0].value[at(row * e + c)] = y;
          out[0].scale[at(row * e + c)] = (1 + sizes) * largest;
          const long double dy = number(in.dy[at(row * e + c)]);
          delta += dy * y;
          size_delta += std::abs(dy) * largest;
          for (Index j = 0; j < S; ++j) {
            const long double v = number(in.v[at((keys + j) * e + c)]);
            dp[at(j)] += z[at(j)] * dy * v;
            size_dp[at(j)] += z[at(j)] * std::abs(dy * v);
            if (t[at(j)] == 0) continue;
            const long double weight = z[at(j)] * t[at(j)] / sum;
            out[3].value[at((keys + j) * e + c)] += weight * dy;
            out[3].scale[at((keys + j) * e + c)] += (1 + sizes) * weight * std::abs(dy);
          }
        }
        for (Index j = 0; j < S; ++j) {
          if (t[at(j)] == 0) continue;
          const long double x = t[at(j)] / sum, ds = x * (dp[at(j)] - delta) * past[at(j)] * scale;
          const long double size =
              (1 + sizes) * x * (size_dp[at(j)] + size_delta) * std::abs(scale);
          for (Index c = 0; c < d; ++c) {
            const long double q = number(in.q[at(row * d + c)]);
            const long double k = number(in.k[at((keys + j) * d + c)]);
            out[1].value[at(row * d + c)] += ds * k;
            out[1].scale[at(row * d + c)] += size * std::abs(k);
            out[2].value[at((keys + j) * d + c)] += ds * q;
            out[2].scale[at((keys + j) * d + c)] += size * std::abs(q);
          }
        }
      }
  return out;
}

}  // namespace planck::attention_test
