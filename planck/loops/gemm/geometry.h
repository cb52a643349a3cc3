// Where the matrices of one product lie: strides of A, B and C, and where each batch starts.
//
// Batch axes are dropped and merged where that changes no address. If B is the same for all
// batches, and the rows of A and C go on with those of the next batch, batches become rows: a
// linear layer over [batch, token, feature] is one product.
#pragma once

#include "planck/core/macros.h"
#include "planck/core/shape.h"
#include "planck/loops/gemm/epilogue.h"
#include "planck/plan/op.h"

namespace planck::gemm {

// The longest sum of products of two s8 that i32 holds, whatever they are: 2^14 each.
inline constexpr std::int64_t kMostIntegerProducts = (std::int64_t{1} << 17) - 1;

// A, B, C and the residual.
inline constexpr int kBatchOperands = 4;

struct Batches {
  int rank = 0;
  std::int64_t count = 1;
  std::int64_t extent[kMaxRank - 2] = {};
  std::int64_t stride[kBatchOperands][kMaxRank - 2] = {};

  // Elements from the first batch's matrix to batch t's, of operand o.
  PLANCK_HD std::int64_t offset(int o, std::int64_t t) const {
    if (rank == 1) return t * stride[o][0];
    std::int64_t at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += t % extent[d] * stride[o][d];
      t /= extent[d];
    }
    return at;
  }
};

// One operand's matrix: element (r, c) lies r * row + c * column elements on.
struct Matrix {
  void* data;
  Dtype dtype;
  std::int64_t row, column;
};

struct Geometry {
  std::int64_t m, n, k;
  Matrix a, b, c;
  Batches batches;
  Epilogue epilogue = {};

  // The same product as C^T = B^T A^T. Products commute, so bits stay.
  Geometry transposed() const {
    Geometry g = *this;
    g.m = n, g.n = m;
    g.a = {b.data, b.dtype, b.column, b.row};
    g.b = {a.data, a.dtype, a.column, a.row};
    g.c = {c.data, c.dtype, c.column, c.row};
    g.epilogue = epilogue.transposed();
    for (int d = 0; d < batches.rank; ++d) {
      g.batches.stride[0][d] = batches.stride[1][d];
      g.batches.stride[1][d] = batches.stride[0][d];
    }
    return g;
  }
};

// Fold::no where what is computed may depend on M.
enum class Fold : bool { no, yes };
// What follows the product, as operands: a bias [N], a residual like C; null where there is none.
struct EpilogueViews {
  const View* bias = nullptr;
  Activation activation = Activation::none;
  const View* residual = nullptr;
};
// Operands 0, 1 and 2 are A [batch…, M, K], B [batch…, K, N] and C [batch…, M, N].
Geometry geometry(const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k,
                  const Operands& operands, const EpilogueViews& follows = {},
                  Fold fold = Fold::yes);

}  // namespace planck::gemm
