// x[…] against loops over positions; assignment; gradients.
#include <gtest/gtest.h>

#include "planck/planck.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;
using F = std::vector<float>;
using I64 = std::vector<std::int64_t>;

// [2, 3, 4]: element [i, j, k] is 100 i + 10 j + k.
Tensor<Cpu, IntKind> box() {
  const auto i = reshape(arange<Cpu>(2), {2, 1, 1}), j = reshape(arange<Cpu>(3), {3, 1});
  return i * 100 + j * 10 + arange<Cpu>(4);
}
I64 values(const Tensor<Cpu, IntKind>& x) { return x.to_vector<std::int64_t>(); }
template <class Fn>
std::string refusal(Fn&& fn) {
  try {
    fn();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
}

TEST(Indexing, PositionsDropTheirAxis) {
  const auto x = box();
  EXPECT_EQ(x[1].shape(), (Shape{3, 4}));
  EXPECT_EQ(values(x[1][2]), I64({120, 121, 122, 123}));
  EXPECT_EQ(values(x[-1][-1][-1]), I64({123}));
  EXPECT_EQ((x[{1, 2, 3}].item<std::int64_t>()), 123);
  EXPECT_EQ((x[{kAll, 1, 0}].shape()), (Shape{2}));
  EXPECT_EQ((values(x[{kAll, 1, 0}])), I64({10, 110}));
  EXPECT_EQ((values(x[{kRest, 2}])), I64({2, 12, 22, 102, 112, 122}));
  EXPECT_EQ((values(x[{0, kRest, 1}])), I64({1, 11, 21}));
}

TEST(Indexing, RangesAreThoseOfPython) {
  const auto x = arange<Cpu>(6);
  EXPECT_EQ(values(x[Range{1, 3}]), I64({1, 2}));
  EXPECT_EQ(values(x[Range{.start = 4}]), I64({4, 5}));
  EXPECT_EQ(values(x[Range{.stop = -4}]), I64({0, 1}));
  EXPECT_EQ(values(x[Range{.step = 2}]), I64({0, 2, 4}));
  EXPECT_EQ(values(x[Range{.step = -2}]), I64({5, 3, 1}));
  EXPECT_EQ(values(x[Range{-2, 0, -2}]), I64({4, 2}));
  EXPECT_EQ(values(x[Range{3, 100}]), I64({3, 4, 5}));
  EXPECT_EQ(values(x[Range{4, 2}]), I64({}));
  const auto y = box()[{Range{1, 2}, Range{.step = 2}, Range{3, 1, -1}}];
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2}));
  EXPECT_EQ(values(y), I64({103, 102, 123, 122}));
}

TEST(Indexing, SeesTheSameMemoryAndAddsAxes) {
  const auto x = box();
  const auto y = x[{kAll, kNewAxis, Range{0, 2}, 1}];
  EXPECT_EQ(y.shape(), (Shape{2, 1, 2}));
  EXPECT_EQ(y.primitive().storage, x.primitive().storage);
  EXPECT_EQ(values(y), I64({1, 11, 101, 111}));
}

TEST(Indexing, ByMaskAndByNumbers) {
  const auto x = Tensor<Cpu>::from({1, -2, 3, -4, 5, -6}, {3, 2});
  EXPECT_EQ(x[x > 0].to_vector<float>(), F({1, 3, 5}));
  const auto rows = Tensor<Cpu, IntKind>::from({2, 0, 2, 1}, {2, 2});
  const auto picked = x[rows];
  EXPECT_EQ(picked.shape(), (Shape{2, 2, 2}));
  EXPECT_EQ(picked.to_vector<float>(), F({5, -6, 1, -2, 5, -6, 3, -4}));
  EXPECT_NE(refusal([&] { (void)x[Tensor<Cpu, IntKind>::from({3}, {1})]; }), "");
}

TEST(Indexing, AssignmentChangesTheVariableAlone) {
  auto x = Tensor<Cpu>::from({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto before = x;
  x[0] = 9;
  EXPECT_EQ(x.to_vector<float>(), F({9, 9, 9, 4, 5, 6}));
  x[{kAll, Range{1, 3}}] = Tensor<Cpu>::from({-1, -2}, {2});
  EXPECT_EQ(x.to_vector<float>(), F({9, -1, -2, 4, -1, -2}));
  x[{kAll, -1}] += Tensor<Cpu>::from({100, 200}, {2});
  x[{1, 0}] *= 2;
  EXPECT_EQ(x.to_vector<float>(), F({9, -1, 98, 8, -1, 198}));
  x[1] = x[0];
  EXPECT_EQ(x.to_vector<float>(), F({9, -1, 98, 9, -1, 98}));
  x[{kAll, Range{.step = -1}}] = before;
  EXPECT_EQ(x.to_vector<float>(), F({3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(before.to_vector<float>(), F({1, 2, 3, 4, 5, 6}));
  auto row = x[0];  // a tensor like any other
  row = row * 2;
  row += 1;
  EXPECT_EQ(row.to_vector<float>(), F({7, 5, 3}));
  EXPECT_EQ(x.to_vector<float>(), F({3, 2, 1, 6, 5, 4}));
  auto truths = x > 3;
  truths[0] = true;
  EXPECT_EQ(truths.to_vector<std::uint8_t>(), (std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1}));
}

TEST(Indexing, RefusesWhatIsNotThere) {
  auto x = box();
  EXPECT_EQ(refusal([&] { (void)x[2]; }), "index: position 2 of axis 0, which has extent 2");
  EXPECT_EQ(refusal([&] { (void)x[{0, -4}]; }), "index: position -4 of axis 1, which has extent 3");
  EXPECT_EQ(refusal([&] {
              (void)x[{0, 0, 0, 0}];
            }),
            "index: 4 indices for a tensor of shape [2, 3, 4]");
  EXPECT_EQ(refusal([&] {
              (void)x[{kRest, 0, kRest}];
            }),
            "index: kRest stands 2 times, at most once");
  EXPECT_EQ(refusal([&] { (void)x[Range{.step = 0}]; }), "index: the step along axis 0 is 0");
  EXPECT_EQ(refusal([&] { x[0] = arange<Cpu>(5); }),
            "slice_assign: shapes [3, 4] and [5] do not broadcast: 4 against 5");
  EXPECT_EQ(refusal([&] { x[{0, 0}] = box(); }).substr(0, 12), "slice_assign");
  EXPECT_EQ(refusal([&] { x[0] = 0.5; }), "fill: 0.5 is no integer, the tensor is i64");
}

// The op behind x[…], given a slice that no x[…] makes.
TEST(Indexing, OpsRefuseSlicesOutsideOfTheTensor) {
  const auto x = box();
  const auto of = [&](const Slice& s) { return refusal([&] { (void)call(SliceAxes{s}, x); }); };
  const Extents none = {0, 0, 0}, one = {1, 1, 1};
  EXPECT_EQ(of({none, {2, 3, 5}, one}),
            "slice: 5 elements from 0 by 1 along axis 2, which has extent 4");
  EXPECT_EQ(of({{0, 3, 0}, one, one}),
            "slice: 1 elements from 3 by 1 along axis 1, which has extent 3");
  EXPECT_EQ(of({{0, 0, 1}, {2, 3, 3}, {1, 1, -1}}),
            "slice: 3 elements from 1 by -1 along axis 2, which has extent 4");
  EXPECT_EQ(of({none, {1, 1, 2}, {1, 1, INT64_MAX}}),
            "slice: 2 elements from 0 by 9223372036854775807 along axis 2, which has extent 4");
  EXPECT_EQ(of({none, {1, -1, 1}, one}),
            "slice: -1 elements from 0 by 1 along axis 1, which has extent 3");
  EXPECT_EQ(of({none, one, {1, 1}}), "slice: 2 axes for a tensor of rank 3");
  EXPECT_EQ(of({none, {1, 1, 2}, {1, 1, 0}}), "slice: the step along axis 2 is 0");
  const Slice outside{{2, 0, 0}, one, one};
  EXPECT_EQ(refusal([&] {
              (void)call(SliceAxesAssign{outside}, x, x[{0, 0, Range{0, 1}}]);
            }),
            "slice_assign: 1 elements from 2 by 1 along axis 0, which has extent 2");
}

TEST(Extent, IsThatOfAnAxisThatIsThere) {
  const auto x = box();
  EXPECT_EQ(x.extent(0), 2);
  EXPECT_EQ(x.extent(-1), 4);
  EXPECT_EQ(x.extent(-3), 2);
  EXPECT_EQ(refusal([&] { (void)x.extent(3); }), "extent: axis is 3, shape [2, 3, 4] has rank 3");
  EXPECT_EQ(refusal([&] { (void)x.extent(-4); }), "extent: axis is -4, shape [2, 3, 4] has rank 3");
  EXPECT_EQ(refusal([&] { (void)ones<Cpu>({}).extent(0); }),
            "extent: axis is 0, shape [] has rank 0");
  const auto q = dynamic_quantize(ones<Cpu>({2, 3}));
  EXPECT_EQ(q.extent(-1), 3);
  EXPECT_EQ(refusal([&] { (void)q.extent(2); }), "extent: axis is 2, shape [2, 3] has rank 2");
}

TEST(Indexing, GradientsGoWhereElementsCameFrom) {
  const auto x = Tensor<A>::from({1, 2, 3, 4, 5, 6}, {2, 3}).require_grad();
  const auto g = x.grad(sum(square(x[{kAll, Range{.step = 2}}]) * 3).backward());
  EXPECT_EQ(g->to_vector<float>(), F({6, 0, 18, 24, 0, 36}));
  const auto v = Tensor<A>::from({10, 20}, {2}).require_grad();
  auto y = x * 1;
  y[{kAll, 1}] = v * 2;
  y[0] += 1;
  const auto grads = sum(y * Tensor<A>::from({1, 2, 3, 4, 5, 6}, {2, 3})).backward();
  EXPECT_EQ(x.grad(grads)->to_vector<float>(), F({1, 0, 3, 4, 0, 6}));
  EXPECT_EQ(v.grad(grads)->to_vector<float>(), F({4, 10}));
  const auto mask = x[x > 3], rows = x[Tensor<A, IntKind>::from({1, 1}, {2})];
  EXPECT_EQ(x.grad(sum(mask).backward())->to_vector<float>(), F({0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(x.grad(sum(rows).backward())->to_vector<float>(), F({0, 0, 0, 2, 2, 2}));
}

}  // namespace
}  // namespace planck
