// softmax and cross_entropy against naive loops in long double, and their bits against the written
// order of sums. Memory, layouts, threads and errors are held by the conformance tests.
#include "planck/loops/rows/test/rows.test.h"
#include "planck/math/exp_terms.h"
#include "planck/math/log.h"

namespace planck {
namespace {

using namespace rows_test;

template <class C>
C largest_of(const std::vector<C>& v) {
  C m = -std::numeric_limits<C>::infinity();
  for (C x : v) m = std::isnan(x) || std::isnan(m) ? C(NAN) : std::max(m, x);
  return m;
}

template <class C>
void softmax_row(const Case& c, const std::vector<C>& a, const std::vector<C>& b, Vector& out,
                 Vector& value, Vector& scale) {
  const std::size_t n = a.size();
  if (c.op.ends_with("_backward")) {
    const bool log = c.op.starts_with("log");
    std::vector<C> terms;
    long double exact = 0, magnitude = 0;
    for (std::size_t i = 0; i < n; ++i) {
      terms.push_back(log ? b[i] : b[i] * a[i]);
      const long double t = log ? static_cast<long double>(b[i])
                                : static_cast<long double>(b[i]) * static_cast<long double>(a[i]);
      exact += t;
      magnitude += std::abs(t);
    }
    const C sum = pairwise_sum(terms);
    for (std::size_t i = 0; i < n; ++i) {
      const long double y = a[i], dy = b[i];
      out.push_back(log ? b[i] - math::exp(a[i]) * sum : (b[i] - sum) * a[i]);
      const long double f = log ? std::exp(y) : y;
      value.push_back(static_cast<double>(log ? dy - f * exact : (dy - exact) * y));
      scale.push_back(static_cast<double>(log ? std::abs(dy) + f * magnitude
                                              : (std::abs(dy) + magnitude) * std::abs(y)));
    }
    return;
  }
  const C m = largest_of(a);
  std::vector<C> e;
  long double exact = 0;
  for (C x : a) {
    e.push_back(math::exp(x - m));
    exact += std::exp(static_cast<long double>(x) - static_cast<long double>(m));
  }
  const C s = pairwise_sum(e);
  for (std::size_t i = 0; i < n; ++i) {
    const long double shifted = static_cast<long double>(a[i]) - static_cast<long double>(m);
    if (c.op == "softmax") {
      out.push_back(e[i] * (C(1) / s));
      value.push_back(static_cast<double>(std::exp(shifted) / exact));
      // x - m is rounded: what exp makes of it grows with its magnitude.
      scale.push_back(value.back() * (1 + static_cast<double>(std::abs(shifted))));
    } else {
      out.push_back((a[i] - m) - math::log(s));
      value.push_back(static_cast<double>(shifted - std::log(exact)));
      scale.push_back(std::abs(value.back()) + 1);
    }
  }
}

template <class C>
Expected softmax_reference(const Case& c, const NamedTensors& in) {
  const bool backward = c.op.ends_with("_backward");
  const HostTensor& main = in.find(backward ? "y" : "x")->second;
  const int axis = std::stoi(attribute(c, "axis", "-1"));
  const auto rows = rows_of(main.shape, 1u << (axis < 0 ? main.shape.rank() - 1 : axis));
  const Vector a = numbers(main), b = backward ? numbers(in.find("dy")->second) : Vector{};
  const std::string name = backward ? "dx" : "y";
  Expected e;
  Vector &bits = e.bits[name], &values = e.values[name], &scales = e.scales[name];
  bits.resize(a.size());
  values.resize(a.size());
  scales.resize(a.size());
  for (const auto& at : rows) {
    Vector out, value, scale;
    softmax_row<C>(c, typed<C>(a, at), backward ? typed<C>(b, at) : std::vector<C>{}, out, value,
                   scale);
    put(bits, at, out);
    put(values, at, value);
    put(scales, at, scale);
  }
  return e;
}

template <class C>
Expected entropy_reference(const Case& c, const NamedTensors& in) {
  const bool backward = c.op.ends_with("_backward");
  const HostTensor& x = in.find("x")->second;
  const HostTensor& targets = in.find("targets")->second;
  const std::int64_t rows = x.shape[0], classes = x.shape[1];
  const std::int64_t ignore = std::stoll(attribute(c, "ignore_index", "-100"));
  Expected e;
  double bad = 0;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto pattern = targets.pattern(r);
    const std::int64_t t = targets.dtype == Dtype::i32
                               ? static_cast<std::int32_t>(static_cast<std::uint32_t>(pattern))
                               : static_cast<std::int64_t>(pattern);
    const bool inside = t >= 0 && t < classes, counts = inside && t != ignore;
    bad += !inside && t != ignore;
    std::vector<C> v;
    for (std::int64_t i = 0; i < classes; ++i)
      v.push_back(static_cast<C>(x.number(r * classes + i)));
    if (backward) {
      const C lse = static_cast<C>(in.find("lse")->second.number(r));
      const C g = static_cast<C>(in.find("dloss")->second.number(r));
      for (std::int64_t i = 0; i < classes; ++i) {
        const C p = math::exp(v[static_cast<std::size_t>(i)] - lse);
        e.bits["dx"].push_back(!counts ? C(0) : g * (i == t ? p - C(1) : p));
      }
      continue;
    }
    const C m = largest_of(v);
    std::vector<C> exps;
    const C center = math::center_of_terms(m);
    for (C a : v) exps.push_back(math::exp_term(a - center));
    const C log_sum = math::log(pairwise_sum(exps) / math::exp_term(m - center));
    e.bits["lse"].push_back(std::isfinite(m) ? m + log_sum : m);
    e.bits["loss"].push_back(counts ? (m - v[static_cast<std::size_t>(t)]) + log_sum : C(0));
  }
  if (!backward) e.bits["bad_targets"] = {bad};
  return e;
}

template <class C>
Expected reference(const Case& c, const NamedTensors& in) {
  if (c.op.starts_with("cross")) return entropy_reference<C>(c, in);
  return softmax_reference<C>(c, in);
}

TEST(Softmax, EveryKernelAgreesWithTheReference) {
  std::size_t cases = 0;
  for (const Case& c : verify::softmax_cases(verify::ListSize::usual)) {
    const NamedTensors in = c.make_inputs();
    expect_outputs(
        c, in,
        c.inputs[0].dtype == Dtype::f64 ? reference<double>(c, in) : reference<float>(c, in));
    ++cases;
    if (HasFailure()) return;
  }
  EXPECT_GT(cases, 400u);
}

// exp and log of the reference are the library's: these are not.
TEST(Softmax, WorkedExamples) {
  Case c = one("softmax", {}, {{.name = "x", .dtype = Dtype::f64, .shape = {3}}});
  NamedTensors in = c.make_inputs();
  const double xs[] = {1, 2, 4};
  for (int i = 0; i < 3; ++i) in.find("x")->second.set_number(i, xs[i]);
  const double s = std::exp(-3.0) + std::exp(-2.0) + 1;
  with_outputs(c, in, [&](const NamedTensors& out, const KernelStatus&) {
    for (int i = 0; i < 3; ++i)
      EXPECT_NEAR(out.find("y")->second.number(i), std::exp(xs[i] - 4) / s, 1e-15);
  });
  c = one("cross_entropy", {{"ignore_index", "2"}},
          {{.name = "x", .dtype = Dtype::f64, .shape = {4, 3}},
           {.name = "targets", .dtype = Dtype::i64, .shape = {4}}});
  in = c.make_inputs();
  const std::int64_t targets[] = {0, 2, 3, -1};
  for (int i = 0; i < 12; ++i) in.find("x")->second.set_number(i, xs[i % 3]);
  for (int i = 0; i < 4; ++i)
    in.find("targets")->second.set_pattern(i, static_cast<std::uint64_t>(targets[i]));
  with_outputs(c, in, [&](const NamedTensors& out, const KernelStatus&) {
    EXPECT_NEAR(out.find("loss")->second.number(0), 3 + std::log(s), 1e-14);
    for (int i = 1; i < 4; ++i) EXPECT_EQ(out.find("loss")->second.number(i), 0);
    EXPECT_NEAR(out.find("lse")->second.number(3), 4 + std::log(s), 1e-14);
    EXPECT_EQ(out.find("bad_targets")->second.pattern(0), 2u);
  });
}

}  // namespace
}  // namespace planck
