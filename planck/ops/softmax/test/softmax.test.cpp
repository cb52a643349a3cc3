// softmax, cross_entropy and the norms against naive loops in long double, and their bits against
// the written order of sums. Memory, layouts, threads and errors are held by the conformance tests.
#include "planck/math/exp_terms.h"
#include "planck/math/log.h"
#include "planck/ops/reduce/test/reference.test.h"

namespace planck {
namespace {

using namespace rows_test;
using Vector = std::vector<double>;

// Rows as lists of flat positions, along the marked axes.
std::vector<std::vector<std::int64_t>> rows_of(const Shape& shape, unsigned along) {
  std::int64_t rows = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (!((along >> d) & 1u)) rows *= shape[d];
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < numel(shape); ++i) {
    std::int64_t rest = i, row = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!((along >> d) & 1u)) {
        row += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    all[static_cast<std::size_t>(row)].push_back(i);
  }
  return all;
}

struct Expected {
  std::map<std::string, Vector> bits;    // as promised, before the rounding at the store
  std::map<std::string, Vector> values;  // in long double; NaN where nothing is said
  std::map<std::string, Vector> scales;  // what an ulp is one of
};

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
std::vector<C> typed(const Vector& v, const std::vector<std::int64_t>& at) {
  std::vector<C> out;
  for (std::int64_t i : at) out.push_back(static_cast<C>(v[static_cast<std::size_t>(i)]));
  return out;
}

void put(Vector& to, const std::vector<std::int64_t>& at, const Vector& from) {
  for (std::size_t i = 0; i < at.size(); ++i) to[static_cast<std::size_t>(at[i])] = from[i];
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
Expected norm_reference(const Case& c, const NamedTensors& in) {
  const bool backward = c.op.ends_with("_backward"), layer = c.op.starts_with("layer");
  const HostTensor& main = in.find("x")->second;
  const int axes = std::stoi(attribute(c, "axes", "1")), rank = main.shape.rank();
  unsigned along = 0;
  for (int d = rank - axes; d < rank; ++d) along |= 1u << d;
  const auto rows = rows_of(main.shape, along);
  const auto given = [&](std::string_view name) {
    const auto it = in.find(name);
    return it == in.end() ? Vector{} : numbers(it->second);
  };
  const Vector x = numbers(main), dy = given("dy"), weight = given("weight"), bias = given("bias");
  const Vector means = given("mean"), rstds = given("rstd");
  std::size_t length = 1;
  for (int d = rank - axes; d < rank; ++d) length *= static_cast<std::size_t>(main.shape[d]);
  const C n = static_cast<C>(length), eps = static_cast<C>(std::stod(attribute(c, "eps", "1e-5")));
  Expected e;
  Vector& y = e.bits[backward ? "dx" : "y"];
  y.resize(x.size());
  std::vector<std::vector<C>> hats(length), dys(length);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<C> v = typed<C>(x, rows[r]);
    const auto w = [&](std::size_t i) { return weight.empty() ? C(1) : static_cast<C>(weight[i]); };
    Vector out;
    if (!backward) {
      const C mean = layer ? pairwise_sum(v) / n : C(0);
      std::vector<C> squares;
      for (C a : v) squares.push_back((a - mean) * (a - mean));
      const C rstd = C(1) / std::sqrt(pairwise_sum(squares) / n + eps);
      if (layer) e.bits["mean"].push_back(mean);
      e.bits["rstd"].push_back(rstd);
      for (std::size_t i = 0; i < length; ++i) {
        const C scaled = ((v[i] - mean) * rstd) * w(i);
        out.push_back(bias.empty() ? scaled : scaled + static_cast<C>(bias[i]));
      }
    } else {
      const std::vector<C> g0 = typed<C>(dy, rows[r]);
      const C mean = layer ? static_cast<C>(means[r]) : C(0), rstd = static_cast<C>(rstds[r]);
      std::vector<C> g, gx;
      for (std::size_t i = 0; i < length; ++i) {
        const C hat = (v[i] - mean) * rstd;
        g.push_back(g0[i] * w(i));
        gx.push_back(g[i] * hat);
        hats[i].push_back(g0[i] * hat);
        dys[i].push_back(g0[i]);
      }
      const C a = layer ? pairwise_sum(g) / n : C(0), b = pairwise_sum(gx) / n;
      for (std::size_t i = 0; i < length; ++i)
        out.push_back(((g[i] - a) - ((v[i] - mean) * rstd) * b) * rstd);
    }
    put(y, rows[r], out);
  }
  if (backward && !weight.empty())
    for (const auto& column : hats) e.bits["dweight"].push_back(pairwise_sum(column));
  if (backward && attribute(c, "bias", "false") == "true")
    for (const auto& column : dys) e.bits["dbias"].push_back(pairwise_sum(column));
  return e;
}

template <class C>
Expected reference(const Case& c, const NamedTensors& in) {
  if (c.op.find("_norm") != c.op.npos) return norm_reference<C>(c, in);
  if (c.op.starts_with("cross")) return entropy_reference<C>(c, in);
  return softmax_reference<C>(c, in);
}

void check(const Case& c) {
  const NamedTensors in = c.make_inputs();
  const Dtype element = c.inputs[0].dtype;
  const Expected e = element == Dtype::f64 ? reference<double>(c, in) : reference<float>(c, in);
  with_outputs(c, in, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    for (const auto& [name, bits] : e.bits) {
      const auto found = outputs.find(name);
      ASSERT_NE(found, outputs.end()) << c.id() << " " << name;
      const HostTensor& out = found->second;
      ASSERT_EQ(out.count(), static_cast<std::int64_t>(bits.size())) << c.id() << " " << name;
      HostTensor expected(out.dtype, out.shape);
      for (std::int64_t i = 0; i < out.count(); ++i) {
        const double v = bits[static_cast<std::size_t>(i)];
        if (out.dtype == Dtype::i64)
          expected.set_pattern(i, static_cast<std::uint64_t>(v));
        else
          expected.set_number(i, std::isnan(v) ? std::nan("") : v);
      }
      ASSERT_EQ(verify::bit_difference(expected, out), "")
          << c.id() << " " << kernel.name << " " << name;
    }
    if (c.inputs[0].fill == verify::Fill::adversarial) return;  // the bits say it all
    for (const auto& [name, values] : e.values) {
      const HostTensor& out = outputs.find(name)->second;
      for (std::int64_t i = 0; i < out.count(); ++i) {
        const double want = values[static_cast<std::size_t>(i)], got = out.number(i);
        const double scale = e.scales.find(name)->second[static_cast<std::size_t>(i)];
        if (!std::isfinite(want) || !std::isfinite(scale) || !std::isfinite(got)) continue;
        const double unit = element == Dtype::f64 ? 0x1p-53 : 0x1p-24;
        ASSERT_LE(std::abs(got - want), ulp_at(out.dtype, want) + 32 * unit * scale)
            << c.id() << " " << kernel.name << " " << name << " " << i;
      }
    }
  });
}

TEST(Softmax, EveryKernelAgreesWithTheReference) {
  std::size_t cases = 0;
  for (const Case& c : verify::softmax_cases(verify::ListSize::usual)) {
    check(c);
    ++cases;
    if (HasFailure()) return;
  }
  EXPECT_GT(cases, 500u);
}

Case one(std::string op, Attributes attributes, std::vector<verify::CaseInput> inputs) {
  return {.op = std::move(op),
          .attributes = std::move(attributes),
          .inputs = std::move(inputs),
          .output_layouts = {},
          .seed = 1};
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

TEST(LayerNorm, WorkedExample) {
  Case c = one("layer_norm", {{"eps", "0"}},
               {{.name = "x", .dtype = Dtype::f64, .shape = {1, 4}},
                {.name = "weight", .dtype = Dtype::f64, .shape = {4}},
                {.name = "bias", .dtype = Dtype::f64, .shape = {4}}});
  NamedTensors in = c.make_inputs();
  for (int i = 0; i < 4; ++i) {
    in.find("x")->second.set_number(i, i < 2 ? 1 : 5);
    in.find("weight")->second.set_number(i, i + 1);
    in.find("bias")->second.set_number(i, 10);
  }
  with_outputs(c, in, [&](const NamedTensors& out, const KernelStatus&) {
    const double want[] = {9, 8, 13, 14};
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out.find("y")->second.number(i), want[i]);
    EXPECT_EQ(out.find("mean")->second.number(0), 3);
    EXPECT_EQ(out.find("rstd")->second.number(0), 0.5);
  });
}

}  // namespace
}  // namespace planck
