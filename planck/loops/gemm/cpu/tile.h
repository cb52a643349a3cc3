// The innermost loops of a product on the CPU: tiles of C that stay in registers while k runs.
//
// C is the type that is accumulated in: float, double, or std::int32_t, for which a packed word
// holds two 16-bit numbers, of k and k + 1.
#pragma once

#include <cstdint>

namespace planck::gemm {

// Adds rows × columns products to `sums`. A is packed in panels of TileOps::rows rows,
// [panel][k][row]; B has `columns` numbers, filled up to whole vectors, for each k. Sums have whole
// vectors too.
template <class C>
struct TileBlock {
  const C* a;
  std::int64_t rows;
  const C* b;
  std::int64_t b_step;  // from one k to the next
  int columns;  // at most thin_vectors * lanes where rows <= thin_rows, else vectors * lanes
  std::int64_t k;
  C* sums;
  std::int64_t sums_step;  // from one row to the next
  bool continues;          // add to the sums as they are; else they start at +0
  bool last;               // no further k: a bias is added, NaN becomes the canonical one
  // Operands that are read in place. 0: A is packed; else its rows lie side by side, for all
  // panels, and this is the distance from one k to the next.
  std::int64_t a_step = 0;
  // Not 0: k lies side by side (floats), and this is the distance from one row to the next.
  std::int64_t a_row = 0;
  // Of packed panels of A, of which k are multiplied; 0: no more than those.
  std::int64_t a_depth = 0;
  // Null: as above; else (floats) vector v of k is at b[b_at[k] + b_vector[v]].
  const std::int64_t* b_at = nullptr;
  std::int64_t b_vector[4] = {};
  // Null, or what is added to each column's sums (whole vectors of it), or to each row's, once
  // there is no further k: rounded after the sum is, as an addition of its own would be.
  const C* column_bias = nullptr;
  const C* row_bias = nullptr;
};

// A product of so few numbers that nothing is worth preparing.
template <class C>
struct TinyProduct {
  std::int64_t m, n, k;
  const C *a, *b;
  C* c;
  std::int64_t a_row, a_column, b_row, b_column, c_row, c_column;
  const C* bias;  // of each column, bias_row 0, or of each row, bias_column 0; or null
  std::int64_t bias_row, bias_column;
};

template <class C>
struct TileOps {
  int rows, lanes, vectors;
  // Up to thin_rows rows may take more columns, so that enough chains are in flight.
  int thin_rows, thin_vectors;
  void (*multiply)(const TileBlock<C>&);
  void (*multiply_tiny)(const TinyProduct<C>&);  // floats
};

// For the best instruction set this CPU has.
template <class C>
const TileOps<C>& tile_ops();

inline constexpr int kMostTileRows = 12, kMostTileColumns = 64;  // of all instruction sets

}  // namespace planck::gemm
