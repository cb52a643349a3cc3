// A product whose operands lie in memory in one of several ways, and a call of a CPU kernel on it
// that needs no plan. What C does not cover must not be written; neither must what is behind the
// workspace.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "planck/ops/matmul/matmul.problem.h"

namespace planck {

// dense: row-major. transposed: rows and columns change places in memory. spread: backwards, with
// gaps. shared: dense, and one B for all batches.
enum class Placing { dense, transposed, spread, shared };
inline constexpr Placing kPlacings[] = {Placing::dense, Placing::transposed, Placing::spread,
                                        Placing::shared};

// [batch, rows, columns] of T.
template <class T>
class Placed {
 public:
  Placed(std::int64_t batches, std::int64_t rows, std::int64_t columns, Placing how, T fill)
      : batches_(batches), rows_(rows), columns_(columns) {
    const bool spread = how == Placing::spread;
    row_ = spread ? -(2 * columns + 3) : how == Placing::transposed ? 1 : columns;
    column_ = spread ? -2 : how == Placing::transposed ? rows : 1;
    batch_ = spread ? rows * (2 * columns + 3) + 5 : rows * columns;
    first_ = spread ? std::max<std::int64_t>(0, rows - 1) * -row_ +
                          std::max<std::int64_t>(0, columns - 1) * -column_ + 1
                    : 0;
    elements_.assign(static_cast<std::size_t>(batches * batch_ + first_ + 4), fill);
  }
  void share_batches() { batch_ = 0; }
  T& at(std::int64_t t, std::int64_t r, std::int64_t c) {
    return elements_[static_cast<std::size_t>(first_ + t * batch_ + r * row_ + c * column_)];
  }
  const T* pointer(std::int64_t t, std::int64_t r, std::int64_t c) { return &at(t, r, c); }
  std::int64_t row() const { return row_; }
  std::int64_t column() const { return column_; }
  View view(Dtype dtype, bool batched) {
    View v{elements_.data() + first_, dtype, {}, {}, true};
    if (batched) v.shape.push_back(batches_), v.strides.push_back(batch_);
    v.shape.push_back(rows_), v.shape.push_back(columns_);
    v.strides.push_back(row_), v.strides.push_back(column_);
    return v;
  }
  std::vector<T>& elements() { return elements_; }

 private:
  std::int64_t batches_, rows_, columns_, batch_, row_, column_, first_;
  std::vector<T> elements_;
};

struct ProductSizes {
  std::int64_t batches, m, n, k;  // batches 0: no batch axis
};

using ProductKernel = Result<void> (*)(const Stream&, Workspace, const MatmulProblem&,
                                       const Operands&);
using ProductWorkspace = std::size_t (*)(const MatmulProblem&);

template <class In, class Out>
struct PlacedProduct {
  std::int64_t batches;
  Placed<In> a, b;
  Placed<Out> c;
  MatmulProblem problem;

  // draw() gives the elements of A and B.
  PlacedProduct(Dtype dtype, const ProductSizes& e, Placing how, const std::function<In()>& draw)
      : batches(e.batches == 0 ? 1 : e.batches),
        a(batches, e.m, e.k, how, In{}),
        b(batches, e.k, e.n, how, In{}),
        c(batches, e.m, e.n, how, kUntouched) {
    problem.element_dtype = dtype;
    if (e.batches != 0) problem.batch = {e.batches};
    problem.m = e.m, problem.n = e.n, problem.k = e.k;
    for (In& x : a.elements()) x = draw();
    for (In& x : b.elements()) x = draw();
    if (how == Placing::shared) b.share_batches();
  }

  void run(ProductKernel kernel, ProductWorkspace workspace, int threads) {
    std::fill(c.elements().begin(), c.elements().end(), kUntouched);
    const bool batched = problem.batch.rank() == 1;
    const Operands operands = {a.view(problem.element_dtype, batched),
                               b.view(problem.element_dtype, batched),
                               c.view(problem.output_dtype(), batched)};
    constexpr std::size_t kGuard = 256;
    const std::size_t bytes = workspace(problem);
    std::vector<std::byte> memory(bytes + kGuard + kWorkspaceAlignment, std::byte{0x5a});
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    auto* aligned = memory.data() + (kWorkspaceAlignment - address % kWorkspaceAlignment);
    const auto ok = kernel(Stream::cpu(threads), {aligned, bytes}, problem, operands);
    ASSERT_TRUE(ok) << ok.error().message;
    for (auto* p = aligned + bytes; p < memory.data() + memory.size(); ++p)
      ASSERT_EQ(*p, std::byte{0x5a}) << "behind the workspace of " << bytes;
    std::size_t touched = 0;
    for (const Out& x : c.elements()) touched += std::memcmp(&x, &kUntouched, sizeof(Out)) != 0;
    ASSERT_LE(touched, static_cast<std::size_t>(batches * problem.m * problem.n));
  }

  // want(t, i, j) for every element.
  void expect(const std::function<Out(std::int64_t, std::int64_t, std::int64_t)>& want,
              const std::string& what) {
    for (std::int64_t t = 0; t < batches; ++t)
      for (std::int64_t i = 0; i < problem.m; ++i)
        for (std::int64_t j = 0; j < problem.n; ++j) {
          const Out expected = want(t, i, j), got = c.at(t, i, j);
          ASSERT_EQ(std::memcmp(&expected, &got, sizeof(Out)), 0)
              << what << " c[" << t << ", " << i << ", " << j << "] is " << got << ", must be "
              << expected << "; M " << problem.m << " N " << problem.n << " K " << problem.k;
        }
  }

  static constexpr Out kUntouched = static_cast<Out>(12345);
};

}  // namespace planck
