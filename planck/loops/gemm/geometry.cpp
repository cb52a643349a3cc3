#include "planck/loops/gemm/geometry.h"

namespace planck::gemm {

namespace {

// Makes the axes d and d + 1 one where every operand walks them as one.
bool merged(Batches& b, int d) {
  for (int o = 0; o < kBatchOperands; ++o)
    if (b.stride[o][d] != b.stride[o][d + 1] * b.extent[d + 1]) return false;
  b.extent[d] *= b.extent[d + 1];
  for (int o = 0; o < kBatchOperands; ++o) b.stride[o][d] = b.stride[o][d + 1];
  for (int e = d + 1; e + 1 < b.rank; ++e) {
    b.extent[e] = b.extent[e + 1];
    for (int o = 0; o < kBatchOperands; ++o) b.stride[o][e] = b.stride[o][e + 1];
  }
  --b.rank;
  return true;
}

// The innermost batch axis becomes rows of A, C and the residual where it continues them and B
// stays.
bool folded(Geometry& g) {
  Batches& b = g.batches;
  if (b.rank == 0) return false;
  const int d = b.rank - 1;
  if (b.stride[1][d] != 0) return false;
  std::int64_t* const rows[] = {&g.a.row, nullptr, &g.c.row, &g.epilogue.residual.row};
  for (const int o : {0, 2, 3})
    if (g.m != 1 && b.stride[o][d] != g.m * *rows[o]) return false;
  for (const int o : {0, 2, 3})
    if (g.m == 1) *rows[o] = b.stride[o][d];  // had no stride of its own
  g.m *= b.extent[d];
  b.count /= b.extent[d];
  --b.rank;
  return true;
}

}  // namespace

Geometry geometry(const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k,
                  const Operands& operands, const EpilogueViews& follows, Fold fold) {
  Geometry g{m, n, k, {}, {}, {}, {}};
  const int rank = batch.rank();
  // Without a residual C stands in its place, which changes nothing.
  const View* const views[kBatchOperands] = {
      &operands[0], &operands[1], &operands[2],
      follows.residual != nullptr ? follows.residual : &operands[2]};
  g.epilogue.activation = follows.activation;
  if (follows.bias != nullptr) g.epilogue.bias = {follows.bias->data, 0, follows.bias->strides[0]};
  g.epilogue.residual = {follows.residual != nullptr ? follows.residual->data : nullptr,
                         views[3]->strides[rank], views[3]->strides[rank + 1]};
  Matrix* matrices[3] = {&g.a, &g.b, &g.c};
  for (int o = 0; o < 3; ++o) {
    const View& v = *views[o];
    *matrices[o] = {v.data, v.dtype, v.strides[rank], v.strides[rank + 1]};
  }
  Batches& b = g.batches;
  for (int d = 0; d < rank; ++d) {
    b.count *= batch[d];
    if (batch[d] == 1) continue;
    b.extent[b.rank] = batch[d];
    for (int o = 0; o < kBatchOperands; ++o) b.stride[o][b.rank] = views[o]->strides[d];
    ++b.rank;
  }
  if (b.count == 0 || m == 0 || n == 0) return g;
  for (int d = b.rank - 2; d >= 0; --d) merged(b, d);
  while (fold == Fold::yes && folded(g)) {
  }
  return g;
}

}  // namespace planck::gemm
