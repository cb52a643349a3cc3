// Soft caps, ALiBi, dropout and packed sequences against the definition, bit for bit.
#include "planck/ops/attention/attention.math.h"
#include "planck/ops/attention/test/held.test.h"

namespace planck::attention_test {
namespace {

template <class T>
class AttentionOptions : public testing::Test {};
using OptionElements = testing::Types<float, double, f16, bf16>;
TYPED_TEST_SUITE(AttentionOptions, OptionElements);

// What else scores become, alone and together, with masks, hostile numbers, threads and strides.
template <class T, class Change>
void hold_options(const Change& change) {
  const auto with = [&](Sizes c, int threads = 2, bool strided = false) {
    change(c);
    hold<T>(c, threads, strided);
  };
  with({1, 1, 1, 1, 1, 1, 1});
  with({2, 3, 1, 7, 130, 17, 5}, 3, true);
  with({1, 4, 2, 70, 75, 32, 16, true});
  with({1, 2, 1, 40, 150, 9, 6, true, 20}, 1);
  with({1, 2, 1, 5, 3, 9, 6, true});
  with({1, 6, 2, 9, 140, 8, 4, false, 0, Mask::added}, 8, true);
  with({1, 2, 2, 35, 35, 5, 4, true, 0, Mask::hidden});
  for (const Values values : {Values::large, Values::hostile})
    with({1, 2, 1, 36, 150, 3, 4, true, 0, Mask::hidden, values});
  for (const ProductMath math : {ProductMath::chain, ProductMath::tensor_core})
    if (serves(math, dtype_of<T>))
      with({1, 2, 1, 34, 150, 20, 24, true, 0, Mask::none, Values::ordinary, math});
  with({1, 2, 1, 0, 5, 4, 3});
  with({1, 2, 1, 5, 0, 4, 3});
}

TYPED_TEST(AttentionOptions, SoftCaps) {
  for (const double cap : {0.5, 30.0, 1e-30})
    hold_options<TypeParam>([&](Sizes& c) { c.soft_cap = cap; });
}
TYPED_TEST(AttentionOptions, Alibi) {
  hold_options<TypeParam>([](Sizes& c) { c.alibi = true; });
  hold<TypeParam>({1, 1, 1, 2, 700, 4, 4, true, 0, Mask::none, Values::ordinary, {}, {}, 0, true});
}
TYPED_TEST(AttentionOptions, Dropout) {
  for (const double dropout : {0.1, 0.75})
    hold_options<TypeParam>([&](Sizes& c) { c.dropout = dropout; });
}
TYPED_TEST(AttentionOptions, AllOptionsTogether) {
  hold_options<TypeParam>([](Sizes& c) { c.soft_cap = 2, c.alibi = true, c.dropout = 0.3; });
}

// Slopes that are powers of two are exact; of 16 heads every other one is that of 8, and of 12 the
// last four are 2^-0.5, 2^-1.5, …
TEST(Alibi, SlopesAreThoseOfThePaper) {
  for (Index h = 0; h < 8; ++h)
    EXPECT_EQ(attention_math::alibi_slope<double>(h, 8), std::ldexp(1.0, -int(h) - 1));
  for (Index h = 0; h < 16; ++h)
    EXPECT_EQ(attention_math::alibi_slope<float>(h, 16),
              static_cast<float>(std::exp2(-0.5 * double(h + 1))));
  for (Index h = 0; h < 12; ++h)
    EXPECT_EQ(attention_math::alibi_slope<float>(h, 12),
              static_cast<float>(std::exp2(h < 8 ? -double(h + 1) : -0.5 - double(h - 8))));
  EXPECT_EQ(attention_math::alibi_slope<float>(0, 1), 0x1p-8f);
}

// A share of `dropout` of the probabilities is dropped: seen with keys that say which.
TEST(AttentionDropout, DropsItsShare) {
  Sizes c{1, 2, 1, 300, 200, 1, 200};
  c.dropout = 0.25;
  Inputs<float> in = draw<float>(c);
  std::fill(in.q.begin(), in.q.end(), 0.0f);
  for (Index j = 0; j < 200; ++j)
    for (Index e = 0; e < 200; ++e) in.v[std::size_t(j * 200 + e)] = j == e ? 1 : 0;
  const Outputs<float> got = run(in, 2, false, false);
  Index dropped = 0;
  for (float y : got.y) {
    dropped += y == 0;
    if (y != 0) {
      ASSERT_NEAR(y, 1 / 200.0 / 0.75, 1e-7);
    }
  }
  EXPECT_NEAR(double(dropped), 0.25 * 120000, 5 * std::sqrt(120000 * 0.25 * 0.75));
}

// Sequences one after the other have the bits that each has alone; some of them are empty.
TYPED_TEST(AttentionOptions, PackedSequences) {
  const std::vector<Index> rows{0, 3, 3, 43, 44, 44, 79}, columns{0, 5, 9, 150, 150, 150, 290};
  for (const Mask mask : {Mask::none, Mask::added, Mask::hidden})
    for (const bool strided : {false, true}) {
      Sizes c{2, 4, 2, 79, 290, 9, 6, mask != Mask::hidden, 0, mask};
      c.soft_cap = 3, c.alibi = true;
      Inputs<TypeParam> all = draw<TypeParam>(c);
      all.p.options.query_offsets = rows, all.p.options.key_offsets = columns;
      const Outputs<TypeParam> got = run(all, 3, strided);
      for (std::size_t b = 0; b + 1 < rows.size(); ++b) {
        const Index l = rows[b + 1] - rows[b], s = columns[b + 1] - columns[b];
        Sizes one = c;
        one.l = l, one.s = s;
        Inputs<TypeParam> in = draw<TypeParam>(one);
        const auto part = [](const auto& from, Index count, Index first, Index n, Index width) {
          auto out = from;
          out.clear();
          for (Index h = 0; h < Index(from.size()) / std::max<Index>(count * width, 1); ++h)
            out.insert(out.end(), from.begin() + (h * count + first) * width,
                       from.begin() + (h * count + first + n) * width);
          return out;
        };
        in.q = part(all.q, 79, rows[b], l, 9), in.dy = part(all.dy, 79, rows[b], l, 6);
        in.k = part(all.k, 290, columns[b], s, 9), in.v = part(all.v, 290, columns[b], s, 6);
        if (mask != Mask::none)
          in.mask = part(part(all.mask, 79, rows[b], l, 290), 290, columns[b], s, 1);
        const Outputs<TypeParam> want = run(in, 1, false);
        const std::string what = "sequence " + std::to_string(b);
        expect_bits(part(got.y, 79, rows[b], l, 6), want.y, what + " y");
        expect_bits(part(got.lse, 79, rows[b], l, 1), want.lse, what + " lse");
        expect_bits(part(got.dq, 79, rows[b], l, 9), want.dq, what + " dq");
        expect_bits(part(got.dk, 290, columns[b], s, 9), want.dk, what + " dk");
        expect_bits(part(got.dv, 290, columns[b], s, 6), want.dv, what + " dv");
      }
    }
}

// Dropout counts places of all sequences: one that has all rows and keys drops what it drops alone.
TYPED_TEST(AttentionOptions, PackedSequencesAreDroppedByTheirPlace) {
  Sizes c{1, 2, 1, 40, 150, 5, 4, true};
  c.dropout = 0.4;
  Inputs<TypeParam> in = draw<TypeParam>(c);
  const Outputs<TypeParam> want = run(in, 2, false);
  in.p.options.query_offsets = {0, 0, 40}, in.p.options.key_offsets = {0, 0, 150};
  expect_same(run(in, 2, false), want, "one of all");
  // The second of two, whose queries and keys follow those of the first.
  in.p.options.query_offsets = {0, 10, 40}, in.p.options.key_offsets = {0, 20, 150};
  const Outputs<TypeParam> two = run(in, 2, false);
  in.p.options.query_offsets.clear(), in.p.options.key_offsets.clear();
  in.p.mask = Dtype::boolean;  // the same of a mask, in blocks of other keys
  in.p.options.causal = false;
  for (Index h = 0; h < 2; ++h)
    for (Index i = 0; i < 40; ++i)
      for (Index j = 0; j < 150; ++j) {
        const bool seen = i < 10 ? j <= i + 10 : j >= 20 && j <= i + 110;
        in.mask.push_back(seen ? 0 : -INFINITY);
      }
  const Outputs<TypeParam> masked = run(in, 2, false);
  const double unit = dtype_of<TypeParam> == Dtype::bf16  ? 0x1p-5
                      : dtype_of<TypeParam> == Dtype::f16 ? 0x1p-8
                                                          : 0x1p-17;
  for (std::size_t i = 0; i < two.y.size(); ++i)
    ASSERT_NEAR(number(two.y[i]), number(masked.y[i]), unit) << i;
  for (std::size_t i = 0; i < two.dv.size(); ++i)
    ASSERT_NEAR(number(two.dv[i]), number(masked.dv[i]), 4 * unit) << i;
}

}  // namespace
}  // namespace planck::attention_test
