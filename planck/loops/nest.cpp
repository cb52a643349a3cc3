#include "planck/loops/nest.h"

#include <cstdlib>
#include <utility>

namespace planck {

namespace {

std::size_t at(int d) { return static_cast<std::size_t>(d); }

void swap_axes(Nest& nest, std::size_t a, std::size_t b) {
  std::swap(nest.extent[a], nest.extent[b]);
  for (int k = 0; k < nest.operands; ++k) std::swap(nest.stride[at(k)][a], nest.stride[at(k)][b]);
}

}  // namespace

Nest make_nest(int rank, const NestStrides& extent, std::span<const NestStrides> strides) {
  Nest nest;
  nest.rank = rank;
  nest.operands = static_cast<int>(strides.size());
  nest.extent = extent;
  for (std::size_t k = 0; k < strides.size(); ++k) nest.stride[k] = strides[k];
  return nest;
}

void sort_by(Nest& nest, int key) {
  NestStrides& k = nest.stride[at(key)];
  for (std::size_t d = 0; d < at(nest.rank); ++d) {
    if (k[d] >= 0) continue;
    for (int o = 0; o < nest.operands; ++o) {
      nest.offset[at(o)] += (nest.extent[d] - 1) * nest.stride[at(o)][d];
      nest.stride[at(o)][d] = -nest.stride[at(o)][d];
    }
  }
  for (std::size_t d = 1; d < at(nest.rank); ++d)  // stable insertion, largest stride first
    for (std::size_t i = d; i > 0 && k[i - 1] < k[i]; --i) swap_axes(nest, i - 1, i);
}

void collapse(Nest& nest) {
  int rank = 0;
  for (std::size_t d = 0; d < at(nest.rank); ++d) {
    const std::int64_t extent = nest.extent[d];
    if (extent == 1) continue;
    bool merge = rank > 0;
    for (int o = 0; merge && o < nest.operands; ++o)
      merge = nest.stride[at(o)][at(rank - 1)] == nest.stride[at(o)][d] * extent;
    if (!merge) nest.extent[at(rank++)] = 1;
    nest.extent[at(rank - 1)] *= extent;
    for (int o = 0; o < nest.operands; ++o)
      nest.stride[at(o)][at(rank - 1)] = nest.stride[at(o)][d];
  }
  if (rank == 0) {
    nest.extent[0] = 1;
    for (int o = 0; o < nest.operands; ++o) nest.stride[at(o)][0] = 1;
    rank = 1;
  }
  nest.rank = rank;
}

Walk walk_of(const Nest& nest, int operand) {
  Nest alone = make_nest(nest.rank, nest.extent, {&nest.stride[at(operand)], 1});
  collapse(alone);
  return Walk{alone.rank, alone.extent, alone.stride[0], nest.offset[at(operand)]};
}

}  // namespace planck
