// einsum against a naive sum over all letters, and its gradients against those of the same sum;
// products over nothing.
#include <gtest/gtest.h>

#include <map>

#include "planck/training.h"

namespace planck {
namespace {

using A = Autodiff<Cpu>;

// Every letter runs over its extent; letters of the result address it, all others are summed.
std::vector<double> naive(const std::string& result, const std::vector<std::string>& terms,
                          const std::vector<Tensor<Cpu>>& tensors) {
  std::map<char, std::int64_t> extent, at;
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    values.push_back(tensors[i].to_vector<double>());
    for (std::size_t d = 0; d < terms[i].size(); ++d)
      extent[terms[i][d]] = std::max(extent[terms[i][d]], tensors[i].shape()[static_cast<int>(d)]);
  }
  const auto position = [&](const std::string& letters, const Shape* shape) {
    std::int64_t p = 0;
    for (std::size_t d = 0; d < letters.size(); ++d) {
      const std::int64_t e = shape ? (*shape)[static_cast<int>(d)] : extent[letters[d]];
      p = p * e + (e == 1 ? 0 : at[letters[d]]);
    }
    return static_cast<std::size_t>(p);
  };
  std::int64_t size = 1, total = 1;
  for (char c : result) size *= extent[c];
  for (const auto& [c, e] : extent) total *= e;
  std::vector<double> out(static_cast<std::size_t>(size), 0.0);
  for (std::int64_t n = 0; n < total; ++n) {
    std::int64_t rest = n;
    for (const auto& [c, e] : extent) {
      at[c] = rest % e;
      rest /= e;
    }
    double product = 1;
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const Shape shape = tensors[i].shape();
      product *= values[i][position(terms[i], &shape)];
    }
    out[position(result, nullptr)] += product;
  }
  return out;
}

std::vector<std::string> terms_of(std::string text) {
  std::vector<std::string> terms(1);
  for (char c : text)
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  return terms;
}

void check(const std::string& equation, const std::vector<Shape>& shapes) {
  SCOPED_TRACE(equation);
  Rng rng{.seed = 5};
  std::vector<Tensor<Cpu>> x;
  std::vector<Tensor<A>> tracked;
  for (const Shape& shape : shapes) {
    x.push_back(normal<Cpu>(rng, shape, 0, 1, Dtype::f64));
    tracked.push_back(Tensor<A>::from_inner(x.back()).require_grad());
  }
  const auto arrow = equation.find("->");
  const auto terms = terms_of(equation.substr(0, arrow));
  const std::string result = equation.substr(arrow + 2);
  const auto y = einsum(equation, tracked);
  const auto want = naive(result, terms, x), got = y.inner().to_vector<double>();
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  // Of Σ y the gradient is a sum of the products without that factor: einsum is linear in each.
  const auto gradients = sum(y).backward();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto g = tracked[i].grad(gradients)->to_vector<double>();
    auto moved = x;
    const auto step = normal<Cpu>(rng, x[i].shape(), 0, 1, Dtype::f64);
    moved[i] = step;
    double along = 0, exact = 0;
    for (double v : naive(result, terms, moved)) exact += v;
    const auto s = step.to_vector<double>();
    for (std::size_t k = 0; k < g.size(); ++k) along += g[k] * s[k];
    EXPECT_NEAR(along, exact, 1e-10) << "tensor " << i;
  }
}

TEST(Einsum, IsTheSumOverAllLetters) {
  check("ij,jk->ik", {{3, 4}, {4, 5}});
  check("bij,bjk->bik", {{2, 3, 4}, {2, 4, 5}});
  check("bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}});
  check("ij,kj->ki", {{3, 4}, {5, 4}});
  check("i,j->ij", {{3}, {4}});
  check("i,i->", {{5}, {5}});
  check("ij->ji", {{3, 4}});
  check("ij->j", {{3, 4}});
  check("ij->", {{3, 4}});
  check("ii->i", {{4, 4}});
  check("ii->", {{4, 4}});
  check("iji->j", {{3, 2, 3}});
  check("iijj->ij", {{2, 2, 3, 3}});
  check("ab,bc,cd->ad", {{2, 3}, {3, 4}, {4, 2}});
  check("ab,ab,ab->a", {{2, 3}, {2, 3}, {2, 3}});
  check("abc,cd,bd->a", {{2, 3, 4}, {4, 2}, {3, 2}});
  check("ij,ik->ijk", {{2, 3}, {2, 4}});
  check("ij,ij->ij", {{1, 3}, {2, 3}});  // an extent of 1 broadcasts
  check("ij,jk->ik", {{3, 1}, {4, 5}});
}

TEST(Einsum, DotsStandForAnyAxes) {
  Rng rng{.seed = 6};
  const auto x = normal<Cpu>(rng, {2, 3, 4, 5}), w = normal<Cpu>(rng, {5, 6});
  EXPECT_EQ(einsum("...i,ij->...j", x, w).shape(), (Shape{2, 3, 4, 6}));
  EXPECT_EQ(einsum("...i,ij->...j", x, w).to_vector<float>(), matmul(x, w).to_vector<float>());
  const auto a = normal<Cpu>(rng, {7, 1, 2, 3}), b = normal<Cpu>(rng, {4, 3, 5});
  EXPECT_EQ(einsum("...ij,...jk", a, b).to_vector<float>(), matmul(a, b).to_vector<float>());
  EXPECT_EQ(einsum("...ij->...ji", x).shape(), (Shape{2, 3, 5, 4}));
}

TEST(Einsum, WithoutAnArrowLettersThatStandOnceInOrder) {
  Rng rng{.seed = 7};
  const auto a = normal<Cpu>(rng, {2, 3}), b = normal<Cpu>(rng, {3, 4});
  EXPECT_EQ(einsum("ij, jk", a, b).to_vector<float>(), matmul(a, b).to_vector<float>());
  EXPECT_EQ(einsum("ba", a).shape(), (Shape{3, 2}));
  EXPECT_EQ(einsum("ii", matmul(a, transpose(a))).shape(), (Shape{}));
}

// A sum of no products is 0, and no gradient comes from it.
TEST(Products, OfNoColumnsAreZero) {
  Rng rng{.seed = 8};
  nn::Linear<A> layer(rng, {0, 3});
  const auto x = zeros<A>({2, 5, 0}).require_grad();
  const auto y = layer(x);
  EXPECT_EQ(y.shape(), (Shape{2, 5, 3}));
  const auto bias = (*layer.bias)->inner().to_vector<float>();
  const auto got = y.inner().to_vector<float>();
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], bias[i % 3]) << i;
  const auto grads = sum(y).backward();
  EXPECT_EQ(x.grad(grads)->shape(), (Shape{2, 5, 0}));
  EXPECT_EQ(layer.weight->grad(grads)->shape(), (Shape{3, 0}));
  EXPECT_EQ((*layer.bias)->grad(grads)->to_vector<float>(), std::vector<float>(3, 10));
  for (const Shape& batch : {Shape{}, Shape{4}, Shape{2, 5}, Shape{0}, Shape{2, 0}}) {
    Shape a = batch, c = batch;
    for (std::int64_t v : {6, 0}) a.push_back(v);
    for (std::int64_t v : {6, 3}) c.push_back(v);
    const auto product = matmul(zeros<Cpu>(a), zeros<Cpu>({0, 3}));
    EXPECT_EQ(product.shape(), c);
    EXPECT_EQ(product.to_vector<float>(),
              std::vector<float>(static_cast<std::size_t>(numel(c)), 0.f));
  }
}

TEST(Einsum, SaysWhatDoesNotFit) {
  const auto a = ones<Cpu>({2, 3}), b = ones<Cpu>({4, 5});
  const auto refusal = [&](std::string_view equation, const auto&... x) -> std::string {
    try {
      (void)einsum(equation, x...);
    } catch (const Exception& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(refusal("ij,jk->ik", a), "einsum: \"ij,jk->ik\" has 2 terms, 1 tensors are given");
  EXPECT_EQ(refusal("ij,jk->ik", a, b), "einsum: \"ij,jk->ik\": 'j' has extent 3 and 4");
  EXPECT_EQ(refusal("ijk->i", a),
            "einsum: \"ijk->i\": term 1 names 3 axes, the tensor has shape [2, 3]");
  EXPECT_EQ(refusal("ii->i", a), "einsum: \"ii->i\": 'i' has extent 2 and 3");
  EXPECT_EQ(refusal("ij->ik", a), "einsum: \"ij->ik\": 'k' of the result is in no term");
  EXPECT_EQ(refusal("ij->ii", a), "einsum: \"ij->ii\": 'i' stands twice in the result");
  EXPECT_EQ(refusal("i.j->i", a), "einsum: \"i.j->i\": '.' is no letter");
  EXPECT_EQ(refusal("...i...->i", a), "einsum: \"...i...->i\": a term has \"...\" twice");
  const auto five = ones<Cpu>({1, 1, 1, 1, 1});
  EXPECT_EQ(refusal("abcde,fghij->abcdefghij", five, five),
            "einsum: a product of two tensors has 10 axes, at most 8");
}

}  // namespace
}  // namespace planck
