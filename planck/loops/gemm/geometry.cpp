#include "planck/loops/gemm/geometry.h"

namespace planck::gemm {

namespace {

// Makes the axes d and d + 1 one where every operand walks them as one.
bool merged(Batches& b, int d) {
  for (int o = 0; o < 3; ++o)
    if (b.stride[o][d] != b.stride[o][d + 1] * b.extent[d + 1]) return false;
  b.extent[d] *= b.extent[d + 1];
  for (int o = 0; o < 3; ++o) b.stride[o][d] = b.stride[o][d + 1];
  for (int e = d + 1; e + 1 < b.rank; ++e) {
    b.extent[e] = b.extent[e + 1];
    for (int o = 0; o < 3; ++o) b.stride[o][e] = b.stride[o][e + 1];
  }
  --b.rank;
  return true;
}

// The innermost batch axis becomes rows of A and C where it continues them and B stays.
bool folded(Geometry& g) {
  Batches& b = g.batches;
  if (b.rank == 0) return false;
  const int d = b.rank - 1;
  if (b.stride[1][d] != 0) return false;
  if (g.m == 1) {  // no stride of its own
    g.a.row = b.stride[0][d];
    g.c.row = b.stride[2][d];
  } else if (b.stride[0][d] != g.m * g.a.row || b.stride[2][d] != g.m * g.c.row) {
    return false;
  }
  g.m *= b.extent[d];
  b.count /= b.extent[d];
  --b.rank;
  return true;
}

}  // namespace

Geometry geometry(const Shape& batch, std::int64_t m, std::int64_t n, std::int64_t k,
                  const Operands& operands, Fold fold) {
  Geometry g{m, n, k, {}, {}, {}, {}};
  const int rank = batch.rank();
  Matrix* matrices[3] = {&g.a, &g.b, &g.c};
  for (int o = 0; o < 3; ++o) {
    const View& v = operands[static_cast<std::size_t>(o)];
    *matrices[o] = {v.data, v.dtype, v.strides[rank], v.strides[rank + 1]};
  }
  Batches& b = g.batches;
  for (int d = 0; d < rank; ++d) {
    b.count *= batch[d];
    if (batch[d] == 1) continue;
    b.extent[b.rank] = batch[d];
    for (int o = 0; o < 3; ++o)
      b.stride[o][b.rank] = operands[static_cast<std::size_t>(o)].strides[d];
    ++b.rank;
  }
  if (b.count == 0 || m == 0 || n == 0) return g;
  for (int d = b.rank - 2; d >= 0; --d) merged(b, d);
  while (fold == Fold::yes && folded(g)) {
  }
  return g;
}

}  // namespace planck::gemm
