// Extents, strides and the questions views answer about memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "planck/core/exception.h"
#include "planck/core/view.h"
#include "planck/math/philox.h"
#include "planck/plan/op.h"
#include "planck/verify/tensors/layout.h"

namespace planck::conformance {
namespace {

View view(const Shape& shape, const Strides& strides, Dtype dtype = Dtype::f32,
          void* data = nullptr) {
  return {data, dtype, shape, strides, true};
}

TEST(Extents, HoldUpToEightValues) {
  Extents e = {2, 3};
  e.push_back(5);
  EXPECT_EQ(e.rank(), 3);
  EXPECT_EQ(numel(e), 30);
  EXPECT_EQ(to_string(e), "[2, 3, 5]");
  EXPECT_EQ(numel(Extents{}), 1);
  EXPECT_EQ(to_string(Extents{}), "[]");
  EXPECT_EQ(numel(Extents{4, 0, 3}), 0);
  EXPECT_NE((Extents{2, 3}), (Extents{2, 3, 1}));
  EXPECT_EQ(Extents::filled(8, 2).rank(), kMaxRank);
  EXPECT_EQ(row_major({2, 3, 5}), (Strides{15, 5, 1}));
}

template <class F>
std::string refusal(const F& f) {
  try {
    (void)f();
  } catch (const Exception& e) {
    return e.what();
  }
  return "nothing was thrown";
}

// With and without NDEBUG: nothing is written behind the eighth.
TEST(Extents, RefuseANinth) {
  const std::vector<std::int64_t> many(12, 2);
  EXPECT_EQ(refusal([] { return Extents{1, 2, 3, 4, 5, 6, 7, 8, 9}; }),
            "shape: 9 extents, at most 8 are held");
  EXPECT_EQ(refusal([&] { return Extents(std::span(many)); }),
            "shape: 12 extents, at most 8 are held");
  EXPECT_EQ(refusal([] { return Extents::filled(10, 1); }),
            "shape: 10 extents, at most 8 are held");
  Extents e = Extents::filled(8, 3);
  EXPECT_EQ(refusal([&] { return e.push_back(1), e; }), "shape: 9 extents, at most 8 are held");
  EXPECT_EQ(e, Extents::filled(8, 3));
}

TEST(Shape, ChecksSayWhatIsWrong) {
  EXPECT_TRUE(check_shape({0, 4}, "op"));
  EXPECT_TRUE(check_shape({std::int64_t{1} << 40, 2}, "op"));
  const auto negative = check_shape({3, -1}, "op");
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().code, ErrorCode::invalid_problem);
  EXPECT_EQ(negative.error().message, "op: extent 1 is -1, must be >= 0");
  const auto huge = check_shape({std::int64_t{1} << 40, std::int64_t{1} << 40}, "op");
  ASSERT_FALSE(huge);
  EXPECT_NE(huge.error().message.find("op: shape [1099511627776, 1099511627776]"),
            std::string::npos);
}

TEST(View, ContiguityIgnoresStridesNobodyTakes) {
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(is_contiguous({1, 3}, {999, 1}));
  EXPECT_TRUE(is_contiguous({0, 3}, {7, 7}));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
  EXPECT_FALSE(is_contiguous({3}, {-1}));
}

// Every element of a reshaped view must be the one the row-major order says.
void expect_same_order(const Shape& from, const Strides& strides, const Shape& to) {
  const auto reshaped = reshaped_strides(view(from, strides), to);
  ASSERT_TRUE(reshaped) << to_string(from) << to_string(strides) << to_string(to);
  std::vector<std::int64_t> before, after;
  verify::for_each_element(from, strides,
                           [&](std::int64_t, std::int64_t at) { before.push_back(at); });
  verify::for_each_element(to, *reshaped,
                           [&](std::int64_t, std::int64_t at) { after.push_back(at); });
  EXPECT_EQ(before, after) << to_string(from) << to_string(strides) << to_string(to);
}

TEST(View, ReshapesWithoutACopyWhereStridesAllow) {
  expect_same_order({2, 3, 4}, {12, 4, 1}, {6, 4});
  expect_same_order({2, 3, 4}, {12, 4, 1}, {24});
  expect_same_order({24}, {2}, {2, 3, 4});
  expect_same_order({6, 4}, {8, 1}, {2, 3, 4});
  expect_same_order({6, 4}, {8, 1}, {2, 3, 2, 2});
  expect_same_order({4, 1, 3}, {-3, 50, -1}, {12});
  expect_same_order({3, 4}, {0, 0}, {12});
  expect_same_order({1, 1}, {5, 7}, {});
  expect_same_order({}, {}, {1, 1, 1});
  expect_same_order({1, 6}, {100, 1}, {3, 1, 2});
  expect_same_order({2, 0}, {1, 1}, {0, 5});
  expect_same_order({4, 3}, {3, 1}, {3, 4});
  for (const auto& [from, strides, to] : {std::tuple<Shape, Strides, Shape>{{2, 3}, {1, 2}, {6}},
                                          {{6, 4}, {8, 1}, {24}},
                                          {{3, 4}, {0, 1}, {12}}}) {
    const auto refused = reshaped_strides(view(from, strides), to);
    ASSERT_FALSE(refused) << to_string(from) << to_string(strides);
    EXPECT_EQ(refused.error().code, ErrorCode::misaligned_operand);
    EXPECT_NE(refused.error().message.find(to_string(to)), std::string::npos);
  }
}

// The overlap test may cry wolf, but never miss a pair; and it is exact for axes that nest.
TEST(View, OverlapIsNeverMissed) {
  const PhiloxStream random{3, 0};
  int overlapping = 0, cleared = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const Philox4 r = random.words(i);
    const int rank = 1 + static_cast<int>(r.v[0] % 3);
    Shape shape;
    Strides strides;
    for (int d = 0; d < rank; ++d) {
      shape.push_back(r.v[1] >> (d * 8) & 3);
      strides.push_back(static_cast<int>(r.v[2] >> (d * 8) & 15) - 7);
    }
    std::set<std::int64_t> offsets;
    verify::for_each_element(shape, strides,
                             [&](std::int64_t, std::int64_t at) { offsets.insert(at); });
    const bool truly = static_cast<std::int64_t>(offsets.size()) < numel(shape);
    overlapping += truly;
    cleared += !may_overlap_itself(shape, strides);
    if (truly) {
      ASSERT_TRUE(may_overlap_itself(shape, strides)) << to_string(shape) << to_string(strides);
    }
  }
  EXPECT_GT(overlapping, 1000);
  EXPECT_GT(cleared, 1000);
  EXPECT_FALSE(may_overlap_itself({5, 7}, {7, 1}));
  EXPECT_FALSE(may_overlap_itself({5, 7}, {1, 5}));
  EXPECT_FALSE(may_overlap_itself({5, 7}, {-10, 1}));
  EXPECT_FALSE(may_overlap_itself({1, 7}, {0, 1}));
  EXPECT_TRUE(may_overlap_itself({2, 7}, {0, 1}));
}

// Outputs that lie beside each other in rows of one block are taken; two that share an element are
// never.
TEST(View, OutputsThatShareAnElementAreRefused) {
  const OperandInfo infos[] = {{"a", Role::output}, {"b", Role::output}};
  const OpInfo op{"pair", OpCategory::elementwise, "", infos, {}};
  const PhiloxStream random{5, 0};
  std::vector<float> memory(4096);
  int sharing = 0, taken = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const Philox4 r = random.words(i), more = random.words(i + 50000);
    View views[2];
    std::set<std::int64_t> seen[2];
    OperandSpec specs[2];
    for (int v = 0; v < 2; ++v) {
      const std::uint32_t word = v == 0 ? r.v[0] : r.v[1];
      View& x = views[v];
      for (int d = 0; d < 2; ++d) {
        x.shape.push_back(1 + (word >> (8 * d) & 3));
        x.strides.push_back(static_cast<int>(word >> (8 * d + 4) & 15) - 3);
      }
      if ((more.v[0] & 3) != 0) x.strides[0] = 8;  // often rows of one block
      if (may_overlap_itself(x.shape, x.strides)) x.strides = row_major(x.shape);
      const std::int64_t start = 1000 + (word >> 20 & 15);
      x.data = memory.data() + start;
      x.present = true;
      specs[v].shape = x.shape;
      verify::for_each_element(x.shape, x.strides,
                               [&](std::int64_t, std::int64_t at) { seen[v].insert(start + at); });
    }
    std::vector<std::int64_t> both;
    std::set_intersection(seen[0].begin(), seen[0].end(), seen[1].begin(), seen[1].end(),
                          std::back_inserter(both));
    const bool ok = check_operands(op, specs, Operands{views[0], views[1]}).has_value();
    sharing += !both.empty();
    const ByteRange a = byte_range(views[0]), b = byte_range(views[1]);
    taken += ok && a.begin < b.end && b.begin < a.end;
    if (!both.empty()) {
      ASSERT_FALSE(ok) << to_string(views[0].strides) << to_string(views[1].strides);
    }
  }
  EXPECT_GT(sharing, 1000);
  EXPECT_GT(taken, 1000);
}

TEST(View, ByteRangeCoversEveryElementAndNoMore) {
  const PhiloxStream random{4, 0};
  std::vector<std::byte> memory(4096);
  for (Dtype dtype : {Dtype::f64, Dtype::f16, Dtype::s8, Dtype::s4})
    for (std::uint64_t i = 0; i < 2000; ++i) {
      const Philox4 r = random.words(i);
      const Shape shape = {r.v[0] % 4, 1 + r.v[1] % 4, 1 + r.v[2] % 3};
      Strides strides;
      for (int d = 0; d < 3; ++d) strides.push_back(static_cast<int>(r.v[3] >> (d * 8) & 31) - 16);
      std::byte* base = memory.data() + 2048;
      const ByteRange range = byte_range(view(shape, strides, dtype, base));
      std::int64_t low = 0, high = -1;
      bool any = false;
      verify::for_each_element(shape, strides, [&](std::int64_t, std::int64_t at) {
        const std::int64_t first = is_packed(dtype) ? at >> 1 : at * bits(dtype) / 8;
        const std::int64_t last = is_packed(dtype) ? at >> 1 : first + bits(dtype) / 8 - 1;
        low = any ? std::min(low, first) : first;
        high = any ? std::max(high, last) : last;
        any = true;
      });
      if (!any) {
        EXPECT_EQ(range.begin, range.end);
        continue;
      }
      ASSERT_EQ(range.begin - base, low) << name(dtype) << to_string(shape) << to_string(strides);
      ASSERT_EQ(range.end - base, high + 1)
          << name(dtype) << to_string(shape) << to_string(strides);
    }
}

TEST(View, OverChecksTheBuffer) {
  std::vector<float> buffer(11);
  EXPECT_TRUE(TensorView<float>::over(buffer, {11}));
  const auto small = TensorView<float>::over(buffer, {3, 4});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, ErrorCode::buffer_too_small);
  EXPECT_EQ(small.error().message, "buffer holds 11 units, shape [3, 4] needs 12");
  std::vector<s4> packed(6);
  EXPECT_TRUE(TensorView<s4>::over(packed, {3, 4}));
  EXPECT_FALSE(TensorView<s4>::over(packed, {3, 5}));
}

TEST(Layout, PlacementsReachEachElementOnceInsideTheirSpan) {
  for (const Shape& shape :
       {Shape{}, Shape{5}, Shape{1, 4}, Shape{3, 4}, Shape{2, 3, 6}, Shape{4, 1, 2, 2}})
    for (Dtype dtype : {Dtype::f32, Dtype::u4})
      for (Role role : {Role::input, Role::output})
        for (verify::Layout layout : verify::kAllLayouts) {
          const auto p = verify::place(layout, dtype, shape, role);
          if (!p) continue;
          std::set<std::int64_t> seen;
          verify::for_each_element(shape, p->strides, [&](std::int64_t, std::int64_t at) {
            EXPECT_GE(p->offset + at, 0);
            EXPECT_LT(p->offset + at, p->span);
            seen.insert(at);
          });
          if (!is_broadcast(layout)) {
            EXPECT_EQ(static_cast<std::int64_t>(seen.size()), numel(shape)) << name(layout);
          }
          if (is_packed(dtype)) {
            EXPECT_EQ(p->offset % 2, 0);
          }
        }
}

}  // namespace
}  // namespace planck::conformance
