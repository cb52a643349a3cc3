// Gradients of indexing and sorting, and what their functions give. Compiled once for each backend.
#include "tests/reference/index.h"

#include "planck/ops/index/index.grad.h"
#include "planck/ops/sort/sort.grad.h"
#include "tests/autodiff/gradcheck.h"
#include "tests/autodiff/tested_backend.h"

namespace planck::test {

namespace {

const Input kWide{{3, 4}};

// Integers on the backend of another tensor.
template <class Like>
auto ints(const Like&, std::initializer_list<std::int64_t> values, const Shape& shape) {
  return Tensor<typename Like::Backend, IntKind>::template from<std::int64_t>(values, shape);
}

TEST_F(Gradients, OfGathering) {
  CHECK1(kSecond, square(gather(x, 1, ints(x, {2, 2, 0, 1}, {2, 2}))), kMatrix);
  CHECK1(kSecond, square(gather(x, 0, ints(x, {1, 0, 1, 1, 1, 0, 0, 1, 1}, {3, 3}))), kMatrix);
  CHECK1(kSecond, gather(square(x), 1, ints(x, {3, 3}, {1, 2})), kWide);  // fewer off the axis
  CHECK1(kSecond, square(index_select(x, 0, ints(x, {1, 1, 0, 1}, {4}))), kMatrix);
  CHECK1(kSecond, index_select(square(x), -1, ints(x, {0, 3, 3}, {3})), kWide);
}

TEST_F(Gradients, OfScattering) {
  CHECK2(kSecond, square(scatter_add(x, 1, ints(x, {0, 0, 2, 1}, {2, 2}), y)), kMatrix,
         (Input{{2, 2}}));
  CHECK2(kSecond, square(index_add(x, 0, ints(x, {1, 1, 1}, {3}), y)), kMatrix, (Input{{3, 3}}));
  CHECK2(kSecond, square(index_add(x, 1, ints(x, {2, 0}, {2}), y)), kMatrix, (Input{{2, 2}}));
  CHECK2(kSecond, square(scatter(x, 1, ints(x, {0, 0, 2, 1}, {2, 2}), y)), kMatrix,
         (Input{{2, 2}}));
}

TEST_F(Gradients, OfMasks) {
  CHECK1(kSecond, square(mask_select(x, x > zeros_like(x))), kMatrix);
  CHECK2(kSecond, square(mask_scatter(x, x > zeros_like(x), y)), kMatrix, (Input{{6}}));
}

TEST_F(Gradients, OfSorting) {
  CHECK1(kSecond, square(sort(x, 1).values), kWide);
  CHECK1(kSecond, sort(square(x), 0, true).values, kWide);
  CHECK1(kSecond, square(topk(x, 2).values), kWide);
  CHECK1(kSecond, topk(square(x), 1, 0, false).values, kWide);
}

// Of two items for one element the last stays, and it alone has a gradient.
TEST_F(Gradients, OfScatterGoToTheLast) {
  const auto x = Tensor<A>::template from<double>({1, 2, 3}, {3}).require_grad();
  const auto source = Tensor<A>::template from<double>({10, 20, 30}, {3}).require_grad();
  const auto y = scatter(x, 0, ints(x, {1, 1, 0}, {3}), source);
  EXPECT_EQ(y.template to_vector<double>(), (std::vector<double>{30, 20, 3}));
  const auto grads = sum(y).backward();
  EXPECT_EQ(x.grad(grads)->template to_vector<double>(), (std::vector<double>{0, 0, 1}));
  EXPECT_EQ(source.grad(grads)->template to_vector<double>(), (std::vector<double>{0, 1, 1}));
}

TEST_F(Gradients, OfTiedValuesFollowTheStableOrder) {
  const auto x = Tensor<A>::template from<double>({2, 5, 5, 5}, {4}).require_grad();
  const auto grads = sum(topk(x, 2).values).backward();
  EXPECT_EQ(x.grad(grads)->template to_vector<double>(), (std::vector<double>{0, 1, 1, 0}));
}

TEST_F(Gradients, IndicesOutOfRangeAreRefusedOrSkipped) {
  const auto x = Tensor<B>::template from<double>({1, 2, 3}, {3});
  const auto index = ints(x, {2, 3, -1}, {3});
  const auto says = [](const auto& of) -> std::string {
    try {
      of();
      B::synchronize(B::default_device());
    } catch (const Exception& e) {
      return e.what();
    }
    return "nothing was thrown";
  };
  const std::string rule = ": index[1] is 3, must be 0 to 2; 2 of 3 are out of range";
  EXPECT_EQ(says([&] { (void)gather(x, 0, index); }), "gather" + rule);
  EXPECT_EQ(says([&] { (void)index_select(x, -1, index); }), "index_select" + rule);
  EXPECT_EQ(says([&] { (void)scatter(x, 0, index, x); }), "scatter" + rule);
  EXPECT_EQ(says([&] { (void)scatter_add(x, 0, index, x); }), "scatter_add" + rule);
  EXPECT_EQ(says([&] { (void)index_add(x, 0, index, x); }), "index_add" + rule);
  EXPECT_EQ(says([&] { (void)one_hot(index, 3); }), "one_hot" + rule);
  EXPECT_EQ(gather(x, 0, index, BadIndices::skip).template to_vector<double>(),
            (std::vector<double>{3, 0, 0}));
  EXPECT_EQ(index_add(x, 0, index, x, BadIndices::skip).template to_vector<double>(),
            (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(one_hot(ints(x, {1, 0}, {2}), 2).template to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{0, 1, 1, 0}));
  EXPECT_EQ(nonzero(x > full_like(x, 1.5)).template to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(argsort(x, 0, true).template to_vector<std::int64_t>(),
            (std::vector<std::int64_t>{2, 1, 0}));
}

}  // namespace

}  // namespace planck::test
