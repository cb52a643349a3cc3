// The norms against naive loops in the written order of sums, bit for bit. Memory, layouts, threads
// and errors are held by the conformance tests.
#include "planck/loops/rows/test/rows.test.h"

namespace planck {
namespace {

using namespace rows_test;

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

TEST(Norm, EveryKernelAgreesWithTheReference) {
  std::size_t cases = 0;
  for (const Case& c : verify::norm_cases(verify::ListSize::usual)) {
    const NamedTensors in = c.make_inputs();
    expect_outputs(c, in,
                   c.inputs[0].dtype == Dtype::f64 ? norm_reference<double>(c, in)
                                                   : norm_reference<float>(c, in));
    ++cases;
    if (HasFailure()) return;
  }
  EXPECT_GT(cases, 250u);
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
