// Gradients of indexing, assignment, einsum and what else is made of other ops, on every backend.
#include "tests/autodiff/gradcheck.h"
#include "tests/reference/index.h"

namespace planck::test {

namespace {

const Input kIndexed{{2, 3, 4}};

// x with a part of it replaced.
template <class X>
X with_part(X x, const X& y) {
  x[{kAll, Range{.step = 2}, -1}] = y * y;
  x[{1, 0}] *= 3;
  return x * x;
}

TEST_F(Gradients, OfIndexing) {
  CHECK1(kSecond, square(x[1]), kIndexed);
  CHECK1(kSecond, (exp(x[{kAll, Range{2, 0, -1}, Range{.step = 3}}]) * 2), kIndexed);
  CHECK1(kSecond, (square(x[{kRest, kNewAxis, 1}]) + x[{0, 0, 0}]), kIndexed);
  CHECK1(kSecond, square(tril(x, 1)) + triu(x), kIndexed);
}

TEST_F(Gradients, OfAssignment) { CHECK2(kSecond, with_part(x, y), kIndexed, (Input{{2, 2}})); }

TEST_F(Gradients, OfEinsum) {
  CHECK2(kSecond, einsum("bij,jk->bki", x, y), kIndexed, (Input{{4, 2}}));
  CHECK2(kSecond, einsum("iij,j->i", x, y), (Input{{2, 2, 3}}), (Input{{3}}));
}

}  // namespace

}  // namespace planck::test
