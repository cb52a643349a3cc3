// var and logsumexp: the bits of their definition around the edges of chunks, whichever way the
// elements lie and threads share them; and how good the definition is.
#include "planck/ops/reduce/reduce.problem.h"
#include "planck/ops/reduce/test/reference.test.h"

namespace planck {
namespace {

using namespace rows_test;
using verify::Fill;
using verify::Layout;

constexpr std::int64_t kLengths[] = {1, 2, 511, 512, 513, 1023, 1024, 1025, 5000, 100000};

Case make(std::string op, Dtype dtype, Shape shape, std::string axes, Fill fill = Fill::normal) {
  Case c{.op = std::move(op),
         .attributes = {{"axes", std::move(axes)}},
         .inputs = {},
         .output_layouts = {},
         .seed = 7};
  c.inputs.push_back({.name = "x", .dtype = dtype, .shape = shape, .fill = fill});
  return c;
}

template <class C>
void expect_bits_of(const Case& c, const NamedTensors& in, const Where& where) {
  const HostTensor& x = in.find("x")->second;
  const auto groups = members(c, x.shape);
  with_outputs(
      c, in,
      [&](const NamedTensors& outputs, const KernelStatus& kernel) {
        const HostTensor& out = outputs.find("out")->second;
        HostTensor expected(out.dtype, out.shape);
        for (std::size_t g = 0; g < groups.size(); ++g) {
          std::vector<C> v;
          for (std::int64_t i : groups[g]) v.push_back(static_cast<C>(x.number(i)));
          const C value = c.op == "var" ? chunked_var(v, 1) : chunked_logsumexp(v);
          expected.set_number(static_cast<std::int64_t>(g), std::isnan(value) ? NAN : value);
        }
        ASSERT_EQ(verify::bit_difference(expected, out), "") << c.id() << " " << kernel.name;
      },
      where);
}
void expect_bits(const Case& c, const NamedTensors& in, const Where& where = {}) {
  c.inputs[0].dtype == Dtype::f64 ? expect_bits_of<double>(c, in, where)
                                  : expect_bits_of<float>(c, in, where);
}
void expect_bits(const Case& c, const Where& where = {}) { expect_bits(c, c.make_inputs(), where); }

TEST(Stats, ChunksOfEveryLength) {
  for (const char* op : {"var", "logsumexp"})
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16})
      for (std::int64_t n : kLengths) {
        const std::int64_t few = n > 10000 ? 2 : 3, some = n > 10000 ? 5 : 70;
        expect_bits(make(op, t, {few, n}, "1"));
        expect_bits(make(op, t, {n, some}, "0"));
        expect_bits(make(op, t, {2, n, 3}, "1"));
        if (HasFatalFailure()) return;
      }
}

TEST(Stats, AnyLayout) {
  for (const char* op : {"var", "logsumexp"})
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::bf16})
      for (Layout layout : verify::kAllLayouts) {
        if (verify::is_broadcast(layout)) continue;  // other values
        const Where where{.layouts = {layout}};
        expect_bits(make(op, t, {3, 1500}, "1"), where);
        expect_bits(make(op, t, {1500, 130}, "0"), where);
        expect_bits(make(op, t, {30, 7, 50}, "0,2"), where);
        expect_bits(make(op, t, {40, 3, 41, 2}, "0,2"), where);
        expect_bits(make(op, t, {11, 120}, "all"), where);
        if (HasFatalFailure()) return;
      }
}

TEST(Stats, AnyNumberOfThreads) {
  const Where where{.layouts = {}, .threads = {1, 2, 5}};
  for (const char* op : {"var", "logsumexp"})
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::f16}) {
      expect_bits(make(op, t, {150001}, "0"), where);
      expect_bits(make(op, t, {300, 700}, "1"), where);
      expect_bits(make(op, t, {5000, 9}, "0"), where);
      expect_bits(make(op, t, {600, 1100}, "0"), where);
      if (HasFatalFailure()) return;
    }
}

// Whole chunks of infinities and NaN, alone and next to ordinary ones, and values of every kind.
TEST(Stats, SpecialChunks) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const char* op : {"var", "logsumexp"})
    for (Dtype t : {Dtype::f32, Dtype::f64, Dtype::bf16})
      for (bool columns : {false, true}) {
        constexpr std::int64_t kLength = 5 * 512 + 7, kGroups = 20;
        Case c =
            columns ? make(op, t, {kLength, kGroups}, "0") : make(op, t, {kGroups, kLength}, "1");
        NamedTensors in = c.make_inputs();
        HostTensor& x = in.find("x")->second;
        const auto put = [&](std::int64_t group, std::int64_t chunk, double value,
                             bool one = false) {
          const std::int64_t begin = chunk * 512, end = std::min(kLength, begin + 512);
          for (std::int64_t i = begin; i < (one ? begin + 1 : end); ++i)
            x.set_number(columns ? i * kGroups + group : group * kLength + i, value);
        };
        std::int64_t group = 1;
        for (double special : {-infinity, infinity, std::nan("")}) {
          for (std::int64_t chunk : {0, 3, 5}) put(group++, chunk, special);
          put(group++, 4, special, true);
          for (std::int64_t chunk = 0; chunk < 6; ++chunk) put(group, chunk, special);
          ++group;
        }
        for (std::int64_t chunk = 0; chunk < 6; ++chunk)
          put(group, chunk, chunk % 2 == 0 ? -infinity : 1.0);
        expect_bits(c, in);
        expect_bits(make(op, t, {kLength, 9}, "0", Fill::adversarial));
        expect_bits(make(op, t, {9, kLength}, "1", Fill::adversarial));
        if (HasFatalFailure()) return;
      }
}

double result(const Case& c, const NamedTensors& in) {
  double value = 0;
  with_outputs(c, in, [&](const NamedTensors& o, const KernelStatus&) {
    value = o.find("out")->second.number(0);
  });
  return value;
}

// Far from 0, where a mean of f32 is off by up to half a unit in its last place: the square of that
// is what going over all elements twice may be off, and chunks, whose means are as good, twice
// that.
TEST(Stats, VarOfALargeMean) {
  for (std::int64_t n : {513, 5000, 100000}) {
    Case c = make("var", Dtype::f32, {n}, "0");
    NamedTensors in = c.make_inputs();
    HostTensor& x = in.find("x")->second;
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      x.set_number(i, 1e6 + static_cast<double>(i * i % 7 % 3 - 1));
      sum += x.number(i);
    }
    const double mean = sum / static_cast<double>(n);
    for (std::int64_t i = 0; i < n; ++i) squares += (x.number(i) - mean) * (x.number(i) - mean);
    const double half = ulp_at(Dtype::f32, mean) / 2;
    EXPECT_NEAR(result(c, in), squares / static_cast<double>(n - 1), 2 * half * half) << n;
  }
}

TEST(Stats, HugeValuesOverflowOnlyWhereTheyMust) {
  Case c = make("logsumexp", Dtype::f32, {2000}, "0");
  NamedTensors in = c.make_inputs();
  HostTensor& x = in.find("x")->second;
  const auto put = [&](const auto& value) {
    for (std::int64_t i = 0; i < 2000; ++i) x.set_number(i, value(i));
  };
  put([](std::int64_t) { return 3e38; });
  EXPECT_EQ(result(c, in), static_cast<double>(3e38f));
  put([](std::int64_t i) { return i < 512 ? -3e38 : i < 1024 ? 3e38 : 0.0; });
  EXPECT_EQ(result(c, in), static_cast<double>(3e38f));
  put([](std::int64_t i) { return i == 1999 ? 0.0 : -3e38; });
  EXPECT_EQ(result(c, in), 0.0);
  c.op = "var";
  put([](std::int64_t i) { return i < 1024 ? 8e17 : -8e17; });  // the sum of squares is 1.28e39
  EXPECT_EQ(result(c, in), std::numeric_limits<double>::infinity());
  put([](std::int64_t i) { return i < 1024 ? 2e17 : -2e17; });  // 8e37
  EXPECT_NEAR(result(c, in) / 4e34, 1.0, 1e-2);
  put([](std::int64_t i) { return i % 2 == 0 ? 3e38 : -3e38; });
  EXPECT_EQ(result(c, in), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace planck
