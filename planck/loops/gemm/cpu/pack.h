// Brings parts of an operand into the panels that tiles read, in the type they are computed in; and
// sums back to C.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"

namespace planck::gemm {

// One operand seen from the axis that its panels are cut along (rows of A, columns of B).
struct Side {
  const void* data;
  Dtype dtype;
  std::int64_t offset;  // elements from `data` to where the part begins
  std::int64_t along;   // stride of that axis
  std::int64_t depth;   // stride of k
};

inline constexpr int kMostDepth = 256;  // values of k that are packed at once

// Words a packed panel holds for one row: k, or pairs of k for integers.
template <class C>
constexpr std::int64_t packed_depth(std::int64_t k) {
  return std::is_same_v<C, std::int32_t> ? (k + 1) / 2 : k;
}

// Writes `count` rows (columns) of k <= kMostDepth as out[panel][packed k][width]; what is missing
// in the last panel is 0.
template <class C>
void pack(const Side& side, std::int64_t count, std::int64_t k, int width, C* out);

// One row of sums, n <= 1024, to a row of C.
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const float* sums);
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const double* sums);
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const std::int32_t* sums);

}  // namespace planck::gemm
