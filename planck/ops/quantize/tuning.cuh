// How much work a thread takes, measured on an H200: 8192 x 8192, ratio to a bare kernel that moves
// the same bytes in 16-byte accesses; axis 0 / groups of 32 / axis 1.
//
// Stores decide: they want 16 bytes a lane in one instruction, and neighbours side by side. Loads
// may be spread over a lane's own 32 or 64 bytes. So an op with integers to store takes long runs,
// all others runs of 16 bytes of output. Streaming hints help little and cost f32 up to 10 %.
//
//   quantize f32 -> s8    R  4, K 4   0.92 / 0.75 / 0.88        R 8, K 1    0.99 / 0.95
//   quantize bf16 -> s8   R  8, K 4   0.94 / 0.76 / 0.69        R 16, K 1   1.00 / 0.94
//   dequantize s8 -> f32  R  8, K 2   0.66                      R 4, K 2    1.00
#pragma once

#include "planck/ops/quantize/runs.cuh"

namespace planck::quantize_device {

// R elements a run, K runs; kColumns: R where groups are columns, in batches of kBatch rows, with
// at least kColumnBlocks blocks on a multiprocessor (kRunBlocks for runs).
template <int kRun, int kRuns, bool kStream, int kColumnRun = kRun, int kColumnRows = 32,
          int kRowBatch = 4, int kBlocks = 4, int kBlocksOfRuns = 1>
struct Tuning {
  static constexpr int R = kRun, K = kRuns;
  static constexpr int kColumns = kColumnRun, kRows = kColumnRows, kBatch = kRowBatch;
  static constexpr int kColumnBlocks = kBlocks, kRunBlocks = kBlocksOfRuns;
  static constexpr bool kStreaming = kStream;
};

template <class Op>
struct TuningOf {
  using T = typename Op::Element;
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr bool kStores = kIsInteger<typename Op::Out>;
  static constexpr bool kNibbles = std::is_same_v<typename Op::Out, Nibbles>;
  static constexpr bool kTwo = !std::is_same_v<typename Op::B, None>;
  static constexpr int R =
      kStores ? (kSize == 2 ? 16 : 8) * (kNibbles && kSize < 8 ? 2 : 1) : 16 / kSize;
  static constexpr int K = kStores ? 1 : 2;
  static constexpr int kColumns = kStores ? (kSize == 2 ? 8 : 4) : 16 / kSize;
  static constexpr int kBatch = kTwo ? 2 : 4;
  using type = Tuning<R, K, false, kColumns, 16, kBatch, kSize == 8 ? 2 : kTwo ? 3 : 4>;
  // Where inner is no multiple of R.
  using narrow = std::conditional_t<R == 2, type, Tuning<R / 2, 2, false>>;
};

}  // namespace planck::quantize_device
