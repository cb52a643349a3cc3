// Naive references of the embedding family, for its tests. They share no code with the library.
//
// Every output element is given as the list of its terms. From the list follow the bits that the
// contract promises (the canonical order, in the compute type, rounded once) and the exact value
// with a bound on the error of any order.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planck/verify/with_outputs.test.h"

namespace planck::embedding_test {

using verify::Case;
using verify::HostTensor;
using verify::NamedTensors;

// The rule, as it is written down: chunks of 64 from left to right, then the chunks' sums likewise.
template <class C>
C canonical_sum(std::vector<C> v) {
  if (v.empty()) return 0;
  do {
    std::vector<C> sums;
    for (std::size_t begin = 0; begin < v.size(); begin += 64) {
      C sum = v[begin];
      for (std::size_t i = begin + 1; i < std::min(v.size(), begin + 64); ++i) sum += v[i];
      sums.push_back(sum);
    }
    v = sums;
  } while (v.size() > 1);
  return v[0];
}

// sum(a[0 … n)) = sum(a[0 … p)) + sum(a[p … n)), p the largest power of two below n.
template <class C>
C pairwise_sum(const std::vector<C>& v, std::size_t begin, std::size_t n) {
  if (n == 0) return 0;
  if (n == 1) return v[begin];
  std::size_t p = 1;
  while (2 * p < n) p *= 2;
  return pairwise_sum(v, begin, p) + pairwise_sum(v, begin + p, n - p);
}

struct Element {
  double promised = 0;        // before the rounding at the store
  long double exact = 0;      // of exact sums and products
  long double magnitude = 0;  // the sum of the magnitudes of all terms; 0: exact is promised
  bool bounded = false;
  std::optional<std::uint64_t> pattern = {};  // a copy of these very bits
};
using Outputs = std::map<std::string, std::vector<Element>, std::less<>>;

// What one element is the sum of: terms as computed, and exactly.
struct Terms {
  std::vector<double> computed;
  std::vector<long double> exact;
  void add(double c, long double e) {
    computed.push_back(c);
    exact.push_back(e);
  }
};

inline Element copied(const HostTensor& from, std::int64_t i) {
  return {.pattern = from.pattern(i)};
}
inline Element exactly(double value) { return {.promised = value, .exact = value}; }

// old: null where nothing is added to.
inline Element summed(const Terms& t, bool f64, const double* old = nullptr, double divisor = 0) {
  Element e{.bounded = true};
  if (f64) {
    e.promised = canonical_sum(t.computed);
    if (divisor != 0) e.promised /= divisor;
    if (old != nullptr && !t.computed.empty()) e.promised = *old + e.promised;
  } else {
    std::vector<float> narrow(t.computed.begin(), t.computed.end());
    float sum = canonical_sum(narrow);
    if (divisor != 0) sum /= static_cast<float>(divisor);
    if (old != nullptr && !t.computed.empty()) sum = static_cast<float>(*old) + sum;
    e.promised = static_cast<double>(sum);
  }
  for (long double x : t.exact) {
    e.exact += x;
    e.magnitude += std::abs(x);
  }
  if (divisor != 0) {
    e.exact /= static_cast<long double>(divisor);
    e.magnitude /= static_cast<long double>(divisor);
  }
  if (old != nullptr) {
    if (t.computed.empty()) e.promised = *old;
    e.exact += static_cast<long double>(*old);
    e.magnitude += std::abs(static_cast<long double>(*old));
  }
  return e;
}

// An input's values, row-major.
struct Numbers {
  Numbers(const NamedTensors& in, std::string_view name) {
    const auto it = in.find(name);
    given = it != in.end();
    if (!given) return;
    for (std::int64_t i = 0; i < it->second.count(); ++i) v.push_back(it->second.number(i));
  }
  bool given;
  std::vector<double> v;
  double operator[](std::int64_t i) const { return v[static_cast<std::size_t>(i)]; }
};

// Integers keep all 64 bits.
inline std::vector<std::int64_t> integers(const HostTensor& t) {
  std::vector<std::int64_t> out;
  for (std::int64_t i = 0; i < t.count(); ++i) {
    const std::uint64_t p = t.pattern(i);
    out.push_back(t.dtype == Dtype::i32 ? static_cast<std::int64_t>(static_cast<std::int32_t>(
                                              static_cast<std::uint32_t>(p)))
                                        : static_cast<std::int64_t>(p));
  }
  return out;
}

inline std::int64_t attribute(const Case& c, const char* key, std::int64_t otherwise) {
  const auto it = c.attributes.find(key);
  return it == c.attributes.end() ? otherwise : std::stoll(it->second);
}

inline long double ulp_of(Dtype t, long double value) {
  const int digits = t == Dtype::f64 ? 53 : t == Dtype::f32 ? 24 : t == Dtype::f16 ? 11 : 8;
  const int least = t == Dtype::f64 ? -1022 : t == Dtype::f16 ? -14 : -126;
  const int exponent = value == 0 ? least : std::max(least, std::ilogb(value));
  return std::ldexp(1.0L, exponent - digits + 1);
}

// "" where a kernel's output is what the reference says: bit for bit where it promises bits, and
// within half an ulp plus the bound of its sums.
inline std::string difference(const HostTensor& actual, const std::vector<Element>& expected,
                              const PrecisionGuarantee& g, std::size_t entries, bool ordinary) {
  if (static_cast<std::int64_t>(expected.size()) != actual.count())
    return "has " + std::to_string(actual.count()) + " elements, the reference " +
           std::to_string(expected.size());
  HostTensor promised(actual.dtype, actual.shape);
  for (std::int64_t i = 0; i < promised.count(); ++i) {
    const Element& e = expected[static_cast<std::size_t>(i)];
    const double value = e.promised;
    if (e.pattern)
      promised.set_pattern(i, *e.pattern);
    else
      promised.set_number(i, std::isnan(value) ? std::nan("") : value);
  }
  if (g.deterministic())
    if (std::string d = verify::bit_difference(promised, actual); !d.empty()) return d;
  if (!ordinary || !is_float(actual.dtype)) return "";
  // Roundings on the way: of a term, of up to 63 additions per level, of the division and of the
  // old value's addition.
  double steps = 3;
  for (std::size_t m = entries; m > 1; m = (m + 63) / 64) steps += 63;
  if (!g.deterministic()) steps = static_cast<double>(entries) + 3;
  const long double unit = g.accumulator == Dtype::f64 ? 0x1p-53L : 0x1p-24L;
  for (std::int64_t i = 0; i < actual.count(); ++i) {
    const Element& e = expected[static_cast<std::size_t>(i)];
    if (!e.bounded) continue;
    const long double error = std::abs(static_cast<long double>(actual.number(i)) - e.exact);
    const long double bound = ulp_of(actual.dtype, e.exact) / 2 +
                              static_cast<long double>(steps) * unit * e.magnitude * 1.001L;
    if (!(error <= bound))
      return "[" + std::to_string(i) + "] is " + std::to_string(actual.number(i)) + ", exactly " +
             std::to_string(static_cast<double>(e.exact)) + ": further off than the bound";
  }
  return "";
}

using Reference = std::function<Outputs(const Case&, const NamedTensors&)>;

// Every kernel of the table that runs on the stream's device.
inline void expect_reference(const Case& c, const Reference& reference) {
  const NamedTensors inputs = c.make_inputs();
  const Outputs expected = reference(c, inputs);
  bool ordinary = true;
  for (const verify::CaseInput& in : c.inputs) ordinary &= in.fill != verify::Fill::adversarial;
  const auto entries = static_cast<std::size_t>(inputs.find("indices")->second.count());
  verify::with_outputs(c, inputs, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    for (const auto& [output, values] : expected) {
      const auto actual = outputs.find(output);
      ASSERT_NE(actual, outputs.end()) << output;
      ASSERT_EQ(difference(actual->second, values, kernel.guarantee, entries, ordinary), "")
          << output;
    }
  });
}

inline void expect_reference_on_all_cases(std::string_view prefix, bool bags,
                                          const Reference& reference) {
  std::size_t cases = 0;
  for (const Case& c : verify::all_cases(verify::ListSize::usual)) {
    if (!c.op.starts_with(prefix) || c.op.starts_with("embedding_bag") != bags) continue;
    ++cases;
    expect_reference(c, reference);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(cases, 60u);
}

}  // namespace planck::embedding_test
