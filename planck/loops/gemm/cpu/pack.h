// Brings parts of an operand into the panels that tiles read, in the type they are computed in; and
// sums back to C.
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"
#include "planck/loops/gemm/epilogue.h"

namespace planck::gemm {

inline constexpr int kMostDepth = 256;  // values of k that are packed at once

// An operand that no strides describe, as windows of an image: it packs itself.
struct Lines {
  // `count` rows (columns) from `first` on, of k <= kMostDepth from k0 on, as
  // out[panel][k][width]; what is missing in the last panel is 0.
  virtual void pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t k,
                    int width, float* out) const = 0;

 protected:
  ~Lines() = default;
};

// One operand seen from the axis that its panels are cut along (rows of A, columns of B).
struct Side {
  const void* data;
  Dtype dtype;
  std::int64_t offset;  // elements from `data` to where the part begins
  std::int64_t along;   // stride of that axis
  std::int64_t depth;   // stride of k
  // Instead of all of these; the part begins at that row and k.
  const Lines* lines = nullptr;
  std::int64_t first = 0, first_k = 0;
};
inline Side part_of(Side s, std::int64_t first, std::int64_t k0) {
  s.offset += first * s.along + k0 * s.depth;
  s.first += first, s.first_k += k0;
  return s;
}

// Words a packed panel holds for one row: k, or pairs of k for integers.
template <class C>
constexpr std::int64_t packed_depth(std::int64_t k) {
  return std::is_same_v<C, std::int32_t> ? (k + 1) / 2 : k;
}

// Writes `count` rows (columns) of k <= kMostDepth as out[panel][packed k][width]; what is missing
// in the last panel is 0.
template <class C>
void pack(const Side& side, std::int64_t count, std::int64_t k, int width, C* out);

// n <= 1024 elements of row r, from k0 on, of floats.
void load_row(const Side& side, std::int64_t r, std::int64_t k0, int n, float* out);

// One row of sums, n <= 1024, to a row of C.
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const float* sums);
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const double* sums);
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const std::int32_t* sums);
// The same with a bias of C's dtype, of which the row's first is bias_at elements on.
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const float* sums, const Added& bias, std::int64_t bias_at);
void store_sums(Dtype dtype, void* data, std::int64_t offset, std::int64_t stride, int n,
                const double* sums, const Added& bias, std::int64_t bias_at);

}  // namespace planck::gemm
