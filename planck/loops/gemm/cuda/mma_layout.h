// How steps of A and B lie in shared memory for mma.sync, and where the lanes of a warp find their
// parts of an instruction. Functions of numbers alone, so that the host can test them.
//
// A step is 64 bytes of k, two slices of 32: what one instruction takes (k16 of 16-bit floats, k8
// of TF32, k32 of bytes). A line holds what lies side by side in memory: k of one row (deep), or
// rows of one k (wide); its chunks of 16 bytes change places with the number of the line, so that
// neither copies nor ldmatrix nor words that lanes read meet in a bank.
#pragma once

#include "planck/core/macros.h"

namespace planck::gemm_device {

inline constexpr int kMmaStepBytes = 64, kMmaSlices = 2;

// Rows are those of A, or columns of B; kSize is an element's bytes.
template <int kRows, int kSize, bool kDeep>
struct MmaLayout {
  static constexpr int kDepth = kMmaStepBytes / kSize;  // k of a step
  static constexpr int kInChunk = 16 / kSize;
  static constexpr int kLines = kDeep ? kRows : kDepth;
  static constexpr int kChunks = (kDeep ? kDepth : kRows) / kInChunk;  // of a line
  static constexpr int kBytes = kRows * kMmaStepBytes;

  // Where a chunk begins, in bytes.
  PLANCK_HD static constexpr int at(int line, int chunk) {
    const int turn = kDeep ? line / 2 % 4 : kSize == 2 ? line % 8 : line % 4 * 2;
    return line * kChunks * 16 + (chunk ^ turn) * 16;
  }
  PLANCK_HD static constexpr int element(int row, int k) {
    const int line = kDeep ? row : k, along = kDeep ? k : row;
    return at(line, along / kInChunk) + along % kInChunk * kSize;
  }

  // An operand of a slice is four squares of 8 rows by 16 bytes of k: those of A, 16 rows, go down
  // rows first, as the instruction wants them; those of B, 16 columns and two instructions' worth,
  // along k first.
  template <bool kOfA>
  PLANCK_HD static constexpr int lower(int square) {
    return kOfA ? square % 2 : square / 2;
  }
  template <bool kOfA>
  PLANCK_HD static constexpr int later(int square) {
    return kOfA ? square / 2 : square % 2;
  }
  // What a lane reads of the operand that begins at `row` and `slice` 0: for ldmatrix, which
  // transposes where the layout is wide, the chunk whose address it gives; for words of a wide
  // layout, its word of the first square.
  template <bool kOfA>
  PLANCK_HD static constexpr int lane_at(int lane, int row) {
    const int q = lane / 8, r = lane % 8;
    if (kDeep) return at(row + lower<kOfA>(q) * 8 + r, later<kOfA>(q));
    if (kSize == 2) return at(later<kOfA>(q) * 8 + r, row / kInChunk + lower<kOfA>(q));
    return element(row + lane / 4, lane % 4);
  }
  // The same `rows` and `halves` of a slice further on; both only set bits that are 0.
  // Bits that turn are changed, others added.
  PLANCK_HD static constexpr int further(int lane_at, int rows, int halves) {
    const int by = kDeep ? at(rows, halves) : element(rows, halves * kInChunk);
    return (lane_at ^ (by & 127)) + (by & ~127);
  }
};

}  // namespace planck::gemm_device
