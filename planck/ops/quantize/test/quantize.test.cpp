// The quantize family against a naive reference that shares no code with the library, and against
// worked examples. Bits, memory and errors are held by the conformance tests.
#include "planck/ops/quantize/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
#include "planck/verify/checks/values.h"
#include "planck/verify/gradient.h"
#include "planck/verify/run_plan.test.h"

namespace planck {
namespace {

using verify::Case;
using verify::NamedTensors;

// ---- the reference ---------------------------------------------------------------------------

struct Setting {
  explicit Setting(const Case& c) : test(c) {}
  const Case& test;
  bool has(const char* part) const { return test.op.find(part) != std::string::npos; }
  std::string text(const char* key, std::string otherwise) const {
    const auto it = test.attributes.find(key);
    return it == test.attributes.end() ? otherwise : it->second;
  }
  std::int64_t number(const char* key, std::int64_t otherwise) const {
    return std::stoll(text(key, std::to_string(otherwise)));
  }
  std::int64_t q_min() const { return number("q_min", lowest()); }
  std::int64_t q_max() const { return number("q_max", highest()); }
  std::int64_t lowest() const {
    const std::string t = text("dtype", "s8");
    return t == "s8" ? -128 : t == "s4" ? -8 : 0;
  }
  std::int64_t highest() const {
    const std::string t = text("dtype", "s8");
    return t == "s8" ? 127 : t == "u8" ? 255 : t == "s4" ? 7 : 15;
  }
  std::size_t group_of(const Shape& shape, std::int64_t i) const {
    if (has("per_tensor")) return 0;
    const std::int64_t last = shape[shape.rank() - 1];
    if (has("per_token")) return static_cast<std::size_t>(i / last);
    if (has("per_group")) return static_cast<std::size_t>(i / number("group", 128));
    std::int64_t inner = 1;
    const auto axis = static_cast<int>(number("axis", 0));
    for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
    return static_cast<std::size_t>(i / inner % shape[axis]);
  }
};

std::vector<double> numbers(const NamedTensors& in, const char* name) {
  std::vector<double> out;
  if (const auto it = in.find(name); it != in.end())
    for (std::int64_t i = 0; i < it->second.count(); ++i) out.push_back(it->second.number(i));
  return out;
}

// x / s, or x * (1 / s), in the arithmetic of the compute type.
double position(double x, double s, bool f64, bool reciprocal) {
  if (f64) return reciprocal ? x * (1.0 / s) : x / s;
  const auto xf = static_cast<float>(x), sf = static_cast<float>(s);
  return static_cast<double>(reciprocal ? xf * (1.0f / sf) : xf / sf);
}

struct OnGrid {
  double v, q;
  bool inside;
};
OnGrid on_grid(const Setting& set, double x, double s, double z, bool f64) {
  const double v = position(x, s, f64, set.text("math", "divide") == "reciprocal");
  const long double p =
      std::isnan(v) ? static_cast<long double>(z)
                    : std::nearbyint(static_cast<long double>(v)) + static_cast<long double>(z);
  const auto lo = static_cast<long double>(set.q_min()), hi = static_cast<long double>(set.q_max());
  return {v,
          static_cast<double>(p < lo   ? lo
                              : p > hi ? hi
                                       : p),
          !std::isnan(v) && p >= lo && p <= hi};
}

verify::ReferenceOutputs reference(const Case& c, const NamedTensors& in) {
  const Setting set(c);
  const auto x = numbers(in, "x"), s = numbers(in, "scale"), z = numbers(in, "zero_point");
  const auto dy = numbers(in, "dy"), q = numbers(in, "q");
  const verify::HostTensor& shaped = in.find(!x.empty() || in.count("x") ? "x"
                                             : in.count("q")             ? "q"
                                                                         : "dy")
                                         ->second;
  const bool f64 = in.find(in.count("scale") ? "scale" : "x")->second.dtype == Dtype::f64;
  verify::ReferenceOutputs out;
  for (std::int64_t i = 0; i < shaped.count(); ++i) {
    const auto k = static_cast<std::size_t>(i);
    const std::size_t g = set.group_of(shaped.shape, i);
    if (set.has("dequantize") && set.has("backward")) {
      out["dq"].push_back(s[g] * dy[k]);
    } else if (set.has("dequantize")) {
      out["x"].push_back(s[g] * (q[k] - z[g]));
    } else if (!set.has("dynamic")) {
      const OnGrid p = on_grid(set, x[k], s[g], z[g], f64);
      if (set.has("fake") && set.has("backward"))
        out["dx"].push_back(p.inside ? dy[k] : 0.0);
      else if (set.has("fake"))
        out["y"].push_back(s[g] * (p.q - z[g]));
      else if (set.has("backward"))
        out["dx"].push_back(p.inside ? dy[k] / s[g] : 0.0);
      else
        out["q"].push_back(p.q);
    }
  }
  return out;
}

TEST(Quantize, EveryKernelAgreesWithTheReference) {
  std::vector<Stream> streams = {Stream::cpu()};
  if (auto cuda = Stream::cuda()) streams.push_back(*cuda);
  std::size_t cases = 0;
  for (const Case& c : verify::all_cases(verify::ListSize::usual)) {
    if (c.op.find("quantize") == std::string::npos || c.op.starts_with("dynamic")) continue;
    ++cases;
    for (const Stream& stream : streams)
      for (const std::string& failure :
           verify::check_values(all_ops(), c, stream, reference).failures)
        ADD_FAILURE() << failure;
    if (HasFailure()) break;
  }
  EXPECT_GT(cases, 100u);
}

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Quantize, WorkedExample) {
  const std::vector<float> x = {0.5f, 1.5f, 2.5f, -0.5f, 100.f, -100.f, kNan, 0.74f}, s = {0.5f};
  const std::vector<std::int32_t> z = {3};
  std::vector<std::int8_t> q(8);
  run<QuantizePerTensorPlan<float, std::int8_t>>(
      {.shape = {8}}, {{x.data(), {8}}, {s.data(), {}}, {z.data(), {}}, {q.data(), {8}}});
  EXPECT_EQ(q, (std::vector<std::int8_t>{4, 6, 8, 2, 127, -128, 3, 4}));
}

TEST(Quantize, PacksEvenIndicesLow) {
  const std::vector<float> x = {1, 2, -8, 7}, s = {1};
  const std::vector<std::int32_t> z = {0};
  std::vector<s4> q(2);
  run<QuantizePerTensorPlan<float, s4>>(
      {.shape = {4}}, {{x.data(), {4}}, {s.data(), {}}, {z.data(), {}}, {q.data(), {4}}});
  EXPECT_EQ(q[0].pair, 0x21);
  EXPECT_EQ(q[1].pair, 0x78);
}

// The row of a table that serves a problem on the CPU, or why none does.
template <class SomePlan>
std::string row_of(const typename SomePlan::Descriptor& d,
                   std::optional<std::string_view> kernel = {}) {
  const auto plan = SomePlan::select(Stream::cpu(1), d, {.kernel = kernel});
  return plan ? std::string(plan->sku().kernel) : plan.error().message;
}

TEST(Quantize, RowsNameWhatRuns) {
  using Floats = QuantizePerTensorPlan<float, std::int8_t>;
  using Doubles = QuantizePerTensorPlan<double, std::int8_t>;
  using Dynamic = DynamicQuantizePerTensorPlan<float, std::int8_t>;
  using Backward = FakeQuantizePerTensorBackwardPlan<float, std::int8_t>;
  EXPECT_EQ(row_of<Floats>({.shape = {4}}), "cpu:simd");
  EXPECT_EQ(row_of<Floats>({.shape = {4}}, "cpu:plain"), "cpu:plain");
  EXPECT_EQ(row_of<Floats>({.shape = {4}, .math = QuantMath::reciprocal}), "cpu:plain");
  EXPECT_EQ(row_of<Doubles>({.shape = {4}}), "cpu:plain");
  EXPECT_EQ(row_of<Dynamic>({.shape = {4}}), "cpu:dynamic");
  EXPECT_EQ(row_of<Backward>({.shape = {4}}), "cpu:simd");
  EXPECT_EQ(row_of<Backward>({.shape = {4}, .learnable = true}), "cpu:learned");

  const std::string no_f64 = row_of<Doubles>({.shape = {4}}, "cpu:simd");
  EXPECT_NE(no_f64.find("cpu:simd has no loops for f64, cpu:plain has"), std::string::npos)
      << no_f64;
}

// ---- faults of earlier systems ---------------------------------------------------------------

// A naive int32(rint(x / s)) + z overflows: +Inf came out as q_min.
TEST(QuantizeFaults, InfinityAndHugeValuesSaturateWhateverTheZeroPoint) {
  for (const std::int32_t zero : {0, 100, -100, 1 << 21, INT32_MAX, INT32_MIN, INT32_MAX - 5}) {
    const std::vector<float> x = {kInf, -kInf, 3e38f, -3e38f, 2147483648.f, -2147483648.f * 2},
                             s = {1e-3f};
    const std::vector<std::int32_t> z = {zero};
    std::vector<std::int8_t> q(6);
    run<QuantizePerTensorPlan<float, std::int8_t>>(
        {.shape = {6}}, {{x.data(), {6}}, {s.data(), {}}, {z.data(), {}}, {q.data(), {6}}});
    EXPECT_EQ(q, (std::vector<std::int8_t>{127, -128, 127, -128, 127, -128})) << zero;
  }
}

// x / s = 0.5 − 2^−40: in f32 a tie that goes to 0 either way, but 2.5 − 2^−40 must be 2 and 2.5 +
// 2^−40 must be 3.
TEST(QuantizeFaults, F64IsComputedInF64) {
  const std::vector<double> x = {2.5 + 0x1p-40, 2.5 - 0x1p-40, 3.5 - 0x1p-40, 1e300}, s = {1.0};
  const std::vector<std::int32_t> z = {0};
  std::vector<std::int8_t> q(4);
  run<QuantizePerTensorPlan<double, std::int8_t>>(
      {.shape = {4}}, {{x.data(), {4}}, {s.data(), {}}, {z.data(), {}}, {q.data(), {4}}});
  EXPECT_EQ(q, (std::vector<std::int8_t>{3, 2, 3, 127}));
  // And gradients keep all 53 bits.
  const std::vector<double> dy = {1.0 / 3, 1e-300, 7, 9}, third = {3.0};
  std::vector<double> dx(4);
  run<QuantizePerTensorBackwardPlan<double, std::int8_t>>(
      {.shape = {4}},
      {{dy.data(), {4}}, {x.data(), {4}}, {third.data(), {}}, {z.data(), {}}, {dx.data(), {4}}});
  EXPECT_EQ(dx, (std::vector<double>{1.0 / 3 / 3, 1e-300 / 3, 7.0 / 3, 0}));
}

// The four granularities must agree on an example where each describes the same groups, forward and
// backward.
TEST(QuantizeFaults, SiblingsRoundAndMaskAlike) {
  constexpr int kRows = 7, kColumns = 64;
  std::vector<float> x(kRows * kColumns), dy(x.size()), s(kRows);
  std::vector<std::int32_t> z(kRows);
  for (std::size_t r = 0; r < kRows; ++r) {
    s[r] = 0.1f + 0.037f * static_cast<float>(r);
    z[r] = static_cast<std::int32_t>(r * 9) - 30;
    for (std::size_t c = 0; c < kColumns; ++c) {
      const float k =
          static_cast<float>(c) * 5.0f - 160.0f;  // across both ends of the range, on ties
      x[r * kColumns + c] = s[r] * (k + 0.5f);
      dy[r * kColumns + c] = 1.0f + static_cast<float>(c);
    }
  }
  const Shape shape = {kRows, kColumns};
  std::vector<std::int8_t> channel(x.size()), token(x.size()), group(x.size());
  std::vector<float> dchannel(x.size()), dtoken(x.size()), dgroup(x.size()), fake(x.size());
  const TensorView<const float> vx(x.data(), shape), vdy(dy.data(), shape), vs(s.data(), {kRows});
  const TensorView<const std::int32_t> vz(z.data(), {kRows});
  run<QuantizePerChannelPlan<float, std::int8_t>>({.shape = shape, .groups = {.axis = 0}},
                                                  {vx, vs, vz, {channel.data(), shape}});
  run<QuantizePerTokenPlan<float, std::int8_t>>({.shape = shape},
                                                {vx, vs, vz, {token.data(), shape}});
  run<QuantizePerGroupPlan<float, std::int8_t>>({.shape = shape, .groups = {.group = kColumns}},
                                                {vx, vs, vz, {group.data(), shape}});
  EXPECT_EQ(channel, token);
  EXPECT_EQ(channel, group);
  run<QuantizePerChannelBackwardPlan<float, std::int8_t>>(
      {.shape = shape, .groups = {.axis = 0}}, {vdy, vx, vs, vz, {dchannel.data(), shape}});
  run<QuantizePerTokenBackwardPlan<float, std::int8_t>>({.shape = shape},
                                                        {vdy, vx, vs, vz, {dtoken.data(), shape}});
  run<QuantizePerGroupBackwardPlan<float, std::int8_t>>(
      {.shape = shape, .groups = {.group = kColumns}}, {vdy, vx, vs, vz, {dgroup.data(), shape}});
  EXPECT_EQ(dchannel, dtoken);
  EXPECT_EQ(dchannel, dgroup);
  // A gradient passes exactly where the forward did not clamp: one step outside the range already
  // blocks it.
  run<FakeQuantizePerTokenPlan<float, std::int8_t>>({.shape = shape},
                                                    {vx, vs, vz, {fake.data(), shape}});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t r = i / kColumns;
    const long steps = std::lrint(static_cast<double>(x[i] / s[r])) + z[r];
    EXPECT_EQ(dchannel[i] != 0.0f, steps >= -128 && steps <= 127) << i;
    EXPECT_EQ(fake[i], s[r] * static_cast<float>(channel[i] - z[r])) << i;
  }
}

// A transposed view quantized along an axis equals its copy; the naive kernel reads memory order
// instead.
TEST(QuantizeFaults, StridesAreFollowed) {
  constexpr int kRows = 37, kColumns = 53;
  std::vector<float> x(kRows * kColumns), copy(x.size()), s(kColumns);
  std::vector<std::int32_t> z(kColumns, 1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) - 48.0f;
  for (std::size_t c = 0; c < kColumns; ++c) s[c] = 0.25f + static_cast<float>(c) * 0.01f;
  for (std::size_t r = 0; r < kRows; ++r)
    for (std::size_t c = 0; c < kColumns; ++c) copy[c * kRows + r] = x[r * kColumns + c];
  const Shape shape = {kColumns, kRows};
  std::vector<std::uint8_t> from_view(x.size()), from_copy(x.size());
  const TensorView<const float> transposed(x.data(), shape, {1, kColumns});
  const TensorView<const float> vs(s.data(), {kColumns});
  const TensorView<const std::int32_t> vz(z.data(), {kColumns});
  run<QuantizePerChannelPlan<float, std::uint8_t>>({.shape = shape},
                                                   {transposed, vs, vz, {from_view.data(), shape}});
  run<QuantizePerChannelPlan<float, std::uint8_t>>(
      {.shape = shape}, {{copy.data(), shape}, vs, vz, {from_copy.data(), shape}});
  EXPECT_EQ(from_view, from_copy);
}

// ---- gradients -------------------------------------------------------------------------------

// Away from kinks the straight-through gradient of fake_quantize is that of y = x; of scale and
// zero point the true one.
TEST(Quantize, LearnableSumsAreTheCanonicalTree) {
  struct Tree {
    static float sum(const std::vector<float>& a, std::size_t begin, std::size_t n) {
      if (n == 1) return a[begin];
      std::size_t half = 1;
      while (half * 2 < n) half *= 2;
      return sum(a, begin, half) + sum(a, begin + half, n - half);
    }
  };
  struct Problem {
    Shape shape;
    int axis;
  };
  for (const Problem& problem :
       {Problem{{5, 3000}, 0}, Problem{{3001, 7}, 1}, Problem{{9, 4, 33}, 1},
        Problem{{70, 6, 5}, 1}, Problem{{1, 2}, 0}, Problem{{3, 70000}, 0}, Problem{{5000, 200}, 1},
        Problem{{4, 1, 1025}, 1}, Problem{{67, 128}, 0}, Problem{{130, 32}, 0},
        Problem{{2, 9217}, 0}, Problem{{1043, 96}, 1}, Problem{{30, 1200}, 1}}) {
    const Shape& shape = problem.shape;
    const auto count = static_cast<std::size_t>(numel(shape));
    const auto channels = static_cast<std::size_t>(shape[problem.axis]);
    std::size_t inner = 1;
    for (int d = problem.axis + 1; d < shape.rank(); ++d)
      inner *= static_cast<std::size_t>(shape[d]);
    std::vector<float> x(count), dy(count), dx(count), s(channels), ds(channels), dz(channels);
    std::vector<std::int32_t> z(channels, 2);
    for (std::size_t i = 0; i < count; ++i) {
      x[i] = std::sin(static_cast<float>(i) * 0.37f) * 20.0f;
      dy[i] = std::cos(static_cast<float>(i) * 1.7f);
    }
    for (std::size_t c = 0; c < channels; ++c) s[c] = 0.11f + 0.003f * static_cast<float>(c);
    const auto n = static_cast<std::int64_t>(channels);
    run<FakeQuantizePerChannelBackwardPlan<float, std::int8_t>>(
        {.shape = shape, .groups = {.axis = problem.axis}, .learnable = true}, {{dy.data(), shape},
                                                                                {x.data(), shape},
                                                                                {s.data(), {n}},
                                                                                {z.data(), {n}},
                                                                                {dx.data(), shape},
                                                                                {ds.data(), {n}},
                                                                                {dz.data(), {n}}});
    for (std::size_t c = 0; c < channels; ++c) {
      std::vector<float> scale_terms, zero_terms;
      for (std::size_t i = 0; i < count; ++i) {
        if (i / inner % channels != c) continue;
        const float v = x[i] / s[c], t = std::nearbyint(v),
                    q = std::fmin(std::fmax(t + 2.0f, -128.0f), 127.0f) - 2.0f;
        const bool inside = t + 2.0f >= -128.0f && t + 2.0f <= 127.0f;
        scale_terms.push_back(dy[i] * (inside ? q - v : q));
        zero_terms.push_back(inside ? 0.0f : dy[i] * -s[c]);
      }
      ASSERT_EQ(ds[c], Tree::sum(scale_terms, 0, scale_terms.size()))
          << to_string(shape) << " channel " << c;
      ASSERT_EQ(dz[c], Tree::sum(zero_terms, 0, zero_terms.size()))
          << to_string(shape) << " channel " << c;
    }
  }
}

// One zero point for all groups, a view without a stride, is as many equal ones.
TEST(Quantize, LearnableGroupsMayShareAZeroPoint) {
  const Shape shape = {40, 1024}, groups = {40, 8};
  std::vector<float> x(40 * 1024), dy(x.size()), dx(x.size()), dx_shared(x.size());
  std::vector<float> s(320), ds(s.size()), ds_shared(s.size()), dz(s.size()), dz_shared(s.size());
  std::vector<std::int32_t> z(s.size(), 3);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = std::sin(static_cast<float>(i) * 0.37f) * 20.0f;
    dy[i] = std::cos(static_cast<float>(i) * 1.7f);
  }
  for (std::size_t c = 0; c < s.size(); ++c) s[c] = 0.11f + 0.001f * static_cast<float>(c);
  const auto learn = [&](const TensorView<const std::int32_t>& zero_point, std::vector<float>& to,
                         std::vector<float>& scale, std::vector<float>& zero) {
    run<FakeQuantizePerGroupBackwardPlan<float, std::int8_t>>(
        {.shape = shape, .groups = {.group = 128}, .learnable = true}, {{dy.data(), shape},
                                                                        {x.data(), shape},
                                                                        {s.data(), groups},
                                                                        zero_point,
                                                                        {to.data(), shape},
                                                                        {scale.data(), groups},
                                                                        {zero.data(), groups}});
  };
  learn({z.data(), groups}, dx, ds, dz);
  learn({z.data(), groups, {0, 0}}, dx_shared, ds_shared, dz_shared);
  EXPECT_EQ(dx, dx_shared);
  EXPECT_EQ(ds, ds_shared);
  EXPECT_EQ(dz, dz_shared);
}

}  // namespace
}  // namespace planck
