// Attention against its definition, bit for bit, and against long double within the guarantee, on
// the instruction set in force (--cpu_target). Layouts, threads, memory and errors are held by the
// conformance tests too.
#include <fmt/format.h>

#include "planck/ops/attention/test/held.test.h"

namespace planck::attention_test {
namespace {

template <class T>
class Attention : public testing::Test {};
using Elements = testing::Types<float, double, f16, bf16>;
TYPED_TEST_SUITE(Attention, Elements);

TYPED_TEST(Attention, IsItsDefinition) {
  for (const Sizes& c : {Sizes{1, 1, 1, 1, 1, 1, 1}, Sizes{1, 1, 1, 3, 5, 4, 7},
                         Sizes{2, 2, 2, 7, 130, 17, 5}, Sizes{1, 4, 2, 33, 40, 32, 16},
                         Sizes{1, 6, 1, 5, 129, 8, 3}, Sizes{1, 1, 1, 40, 300, 16, 33}})
    hold<TypeParam>(c);
  hold<TypeParam>({1, 1, 1, 2, 3, 256, 256});
  hold<TypeParam>({1, 1, 1, 3, 9, 255, 1});
}

TYPED_TEST(Attention, CausalAndWindows) {
  for (const auto& [l, s] :
       {std::pair<Index, Index>(150, 150), {5, 200}, {1, 257}, {40, 7}, {3, 3}})
    for (const Index window : {0, 1, 5, 140}) {
      if (window > 1 && l * s < 1000) continue;
      hold<TypeParam>({1, 2, 1, l, s, 9, 6, true, window});
    }
}

TYPED_TEST(Attention, Masks) {
  for (const Mask mask : {Mask::hidden, Mask::added}) {
    hold<TypeParam>({2, 2, 1, 20, 140, 8, 4, false, 0, mask});
    hold<TypeParam>({1, 2, 2, 35, 35, 5, 4, true, 0, mask});
    hold<TypeParam>({1, 1, 1, 6, 2, 5, 4, false, 0, mask});  // rows that see nothing among them
  }
}

TYPED_TEST(Attention, OtherMeaningsOfAProduct) {
  if constexpr (!std::is_same_v<TypeParam, double>)
    for (const ProductMath math : {ProductMath::chain, ProductMath::tensor_core}) {
      Sizes c{1, 2, 1, 34, 150, 20, 24, true};
      c.math = math;
      hold<TypeParam>(c);
    }
}

// Infinities and NaN, also where they are hidden; numbers whose scores overflow; any scale.
TYPED_TEST(Attention, IsTotal) {
  for (const bool causal : {false, true})
    for (const Mask mask : {Mask::none, Mask::hidden}) {
      Sizes c{1, 2, 1, 36, 150, 3, 4, causal, 0, mask, Values::hostile};
      hold<TypeParam>(c);
      c.values = Values::large;
      hold<TypeParam>(c);
    }
  for (const double scale : {0.0, -2.0, 1e-30, 1e30})
    hold<TypeParam>({1, 1, 1, 4, 9, 3, 4, false, 0, Mask::none, Values::ordinary, {}, scale});
}

// NaN and infinities of hidden rows in every column, the last ones of a filled-up group among them.
TYPED_TEST(Attention, NothingOfHiddenRowsShows) {
  for (const Index d : {1, 4, 9, 17, 33}) {
    Sizes c{1, 2, 1, 3, 5, d, d + 1, false, 0, Mask::hidden};
    Inputs<TypeParam> in = draw<TypeParam>(c);
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < 3; ++i)
        for (Index j = 0; j < 5; ++j)  // key 2 is seen by nobody, query 1 sees nothing
          in.mask[static_cast<std::size_t>((h * 3 + i) * 5 + j)] = i == 1 || j == 2 ? -INFINITY : 0;
    const auto spoil = [](std::vector<TypeParam>& x, Index row, Index width, Index column) {
      x[static_cast<std::size_t>(row * width + column)] =
          TypeParam(static_cast<ComputeOf<TypeParam>>(column % 2 == 0 ? NAN : INFINITY));
    };
    for (Index column = 0; column < d; ++column) {
      Inputs<TypeParam> bad = in;
      spoil(bad.k, 2, d, column), spoil(bad.q, 1, d, column);
      spoil(bad.v, 2, d + 1, column + 1), spoil(bad.dy, 1, d + 1, column + 1);
      Outputs<TypeParam> want = Book<TypeParam>(bad).forward();
      Book<TypeParam>(bad).backward(want);
      expect_same(run(bad, 1, false), want, text(c, dtype_of<TypeParam>));
    }
  }
}

TYPED_TEST(Attention, AnyStridesAndThreads) {
  for (const int threads : {1, 3, 8}) {
    hold<TypeParam>({2, 4, 2, 50, 60, 11, 13, true}, threads, true);
    hold<TypeParam>({2, 2, 1, 9, 140, 11, 13, false, 0, Mask::added}, threads, true);
    hold<TypeParam>({2, 2, 1, 9, 20, 11, 13, false, 0, Mask::hidden}, threads, true);
  }
}

TYPED_TEST(Attention, OfNothing) {
  hold<TypeParam>({1, 2, 1, 0, 5, 4, 3});
  hold<TypeParam>({1, 2, 1, 5, 0, 4, 3});
  hold<TypeParam>({0, 2, 1, 5, 5, 4, 3});
  hold<TypeParam>({2, 0, 1, 5, 5, 4, 3});
}

// A query that is computed alone, against the keys that it sees, has the bits of its row.
TYPED_TEST(Attention, OneQueryAtATimeGivesTheSame) {
  const Sizes c{1, 2, 1, 40, 170, 24, 8, true};
  const Inputs<TypeParam> all = draw<TypeParam>(c);
  const Outputs<TypeParam> want = run(all, 2, false, false);
  for (const Index i : {0, 1, 17, 39}) {
    const Index seen = 170 - 40 + i + 1;
    Sizes one = c;
    one.l = 1, one.s = seen;
    Inputs<TypeParam> in = draw<TypeParam>(one);
    const auto copy = [](const auto& from, auto& to, Index heads, Index rows, Index first,
                         Index count, Index width) {
      to.clear();
      for (Index h = 0; h < heads; ++h)
        to.insert(to.end(), from.begin() + (h * rows + first) * width,
                  from.begin() + (h * rows + first + count) * width);
    };
    copy(all.q, in.q, 2, 40, i, 1, 24);
    copy(all.k, in.k, 1, 170, 0, seen, 24);
    copy(all.v, in.v, 1, 170, 0, seen, 8);
    std::vector<TypeParam> row;
    copy(want.y, row, 2, 40, i, 1, 8);
    expect_bits(run(in, 1, false, false).y, row, "query " + std::to_string(i));
  }
}

template <class T>
void expect_close(const std::vector<T>& got, const Exact& want, double ulp, const char* what) {
  const double unit = dtype_of<T> == Dtype::f64   ? 0x1p-52
                      : dtype_of<T> == Dtype::f32 ? 0x1p-23
                      : dtype_of<T> == Dtype::f16 ? 0x1p-10
                                                  : 0x1p-7;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(number(got[i]) - want.value[i]), ulp * unit * want.scale[i])
        << what << " [" << i << "] is " << number(got[i]) << ", exactly " << double(want.value[i]);
}

TYPED_TEST(Attention, KeepsItsGuarantee) {
  for (const std::optional<ProductMath> math :
       {std::optional<ProductMath>(), std::optional(ProductMath::tensor_core)})
    for (const Mask mask : {Mask::none, Mask::added})
      for (const int options : {0, 1, 2, 3}) {
        if (math && std::is_same_v<TypeParam, double>) continue;
        Sizes c{1, 4, 2, 70, 300, 64, 32, mask == Mask::none, 0, mask, Values::ordinary, math};
        if (options == 1 || options == 3) c.soft_cap = options;
        if (options > 1) c.dropout = 0.4;
        // Of f16, p far away is below the normal numbers, and its error relative to nothing.
        if (options > 1) c.alibi = dtype_of<TypeParam> != Dtype::f16;
        const Inputs<TypeParam> in = draw<TypeParam>(c);
        const Outputs<TypeParam> got = run(in, 2, false);
        const auto want = exact(in);
        AttentionProblem p = in.p;
        const auto bound = [&] {
          const auto plan = Selection<AttentionProblem>::select(Stream::cpu(1), p);
          EXPECT_EQ(plan->precision_guarantee().reproducibility, Reproducibility::cross_device);
          return plan->precision_guarantee().max_ulp;
        };
        expect_close(got.y, want[0], bound(), "y");
        p.kind = AttentionKind::attention_backward;
        expect_close(got.dq, want[1], bound(), "dq");
        expect_close(got.dk, want[2], bound(), "dk");
        expect_close(got.dv, want[3], bound(), "dv");
      }
}

TEST(AttentionPlans, SayWhatTheyAre) {
  const AttentionDescriptor d{{1, 2, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 4}};
  const auto f32 = AttentionPlan<float>::select(Stream::cpu(1), d);
  const auto half = AttentionBackwardPlan<bf16>::select(Stream::cpu(1), d);
  ASSERT_TRUE(f32 && half);
  EXPECT_EQ(f32->sku().kernel, "cpu:fma_chain");
  EXPECT_EQ(half->sku().kernel, "cpu:integer_lanes");
  EXPECT_TRUE(half->precision_guarantee().batch_invariant);
}

TEST(AttentionPlans, Refuse) {
  AttentionProblem good;
  good.q = {1, 4, 3, 8}, good.k = {1, 2, 5, 8}, good.v = {1, 2, 5, 4};
  const auto message = [&](auto&& change) {
    AttentionProblem p = good;
    change(p);
    const auto ok = p.check();
    return ok ? std::string("accepted") : ok.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "accepted");
  EXPECT_EQ(message([](auto& p) { p.q[1] = 3; }),
            "attention: q has 3 heads, k 2: must be a multiple of it");
  EXPECT_EQ(message([](auto& p) { p.k[3] = 7; }),
            "attention: q has heads of width 8, k 7: must be the same");
  EXPECT_EQ(message([](auto& p) { p.v[3] = 257; }),
            "attention: v has heads of width 257, must be at most 256");
  EXPECT_EQ(message([](auto& p) { p.v[2] = 6; }),
            "attention: k has 2 heads of 5 keys, v 2 of 6: must be the same");
  EXPECT_EQ(message([](auto& p) { p.options.window = 3; }),
            "attention: window is 3, which needs causal");
  EXPECT_EQ(message([](auto& p) { p.options.math = ProductMath::exact; }),
            "attention: math is exact, which is not defined for f32");
  EXPECT_EQ(message([](auto& p) { p.options.scale = NAN; }),
            "attention: scale is nan, must be finite");
  EXPECT_EQ(message([](auto& p) { p.mask = Dtype::f16; }),
            "attention: mask is f16, must be f32 or bool");
  for (const double cap : {-1.0, double(INFINITY), 1e-60})
    EXPECT_EQ(
        message([&](auto& p) { p.options.soft_cap = cap; }),
        fmt::format("attention: soft_cap is {}, must be 0, or positive and finite in f32", cap));
  for (const double dropout : {-0.1, 1.0, double(NAN)})
    EXPECT_EQ(message([&](auto& p) { p.options.dropout = dropout; }),
              fmt::format("attention: dropout is {}, must be in [0, 1)", dropout));
  const auto packed = [&](std::vector<Index> rows, std::vector<Index> columns) {
    return message([&](auto& p) {
      p.options.query_offsets = std::move(rows), p.options.key_offsets = std::move(columns);
    });
  };
  EXPECT_EQ(packed({0, 0, 3}, {0, 5, 5}), "accepted");
  EXPECT_EQ(packed({0, 3}, {}), "attention: 2 query_offsets and 0 key_offsets: must be as many");
  EXPECT_EQ(packed({1, 3}, {0, 5}), "attention: query_offsets[0] is 1, must be 0");
  EXPECT_EQ(packed({0, 2, 1, 3}, {0, 1, 2, 5}),
            "attention: query_offsets[2] is 1, must be at least query_offsets[1], which is 2");
  EXPECT_EQ(packed({0, 3}, {0, 6}), "attention: key_offsets end at 6, k at 5: must be the same");
}

}  // namespace
}  // namespace planck::attention_test
