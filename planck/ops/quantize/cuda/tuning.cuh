// How much work a thread takes, and what that gave: on an H200, 8192 x 8192, as a ratio to a bare
// kernel that moves the same bytes in 16-byte accesses.
//
// Stores decide: they want 16 bytes per lane in one instruction, and neighbours side by side. Loads
// may be spread over a lane's own 32 or 64 bytes. So an op with integers to store takes long runs,
// all others runs of 16 bytes of output. Streaming hints cost f32 up to 10 % and help two 16-bit
// ops by 2-5 %; columns never.
//
//                            first try                       now
//                            axis 0  groups of 32  axis 1    axis 0  groups of 32  128   axis 1
//   quantize f32 -> s8       0.92    0.76          0.88      0.99    0.95          0.98  0.95
//   quantize bf16 -> s8      0.94    0.77          0.69      1.00    0.95          0.98  0.89
//   quantize bf16 -> s4      0.85    0.66          0.59      0.96    0.89          0.93  0.83
//   dequantize s8 -> f32     1.00    0.96          0.94      1.00    0.96          0.99  0.98
//   dequantize s8 -> bf16    0.96    0.92          0.90      0.99    0.95          0.97  0.91
//   quantize backward f32    1.00    0.98          0.95      1.01    0.99          1.01  0.98
//   quantize backward bf16   0.91    0.85          0.76      0.93    0.90          0.91  0.87
//   fake quantize f32        1.00    0.97          0.97      1.00    0.97          0.98  0.99
//   fake quantize bf16       1.00    0.86          0.79      0.99    0.96          0.99  0.93
//   its backward bf16        1.00    0.89          0.87      1.00    0.97          0.99  0.94
//
// What made the difference, in order: loads of scale and zero point issued side by side
// (load_early), longer runs, the quotient of 16-bit operands with one correction and without a
// division, groups of columns in shared memory with the next rows prefetched.
#pragma once

#include "planck/ops/quantize/cuda/runs.cuh"

namespace planck::quantize_device {

// R elements per run, K runs; kColumns: R where groups are columns, in batches of kBatch rows, with
// at least kColumnBlocks blocks per multiprocessor (kRunBlocks for runs).
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
  static constexpr bool kFake = std::is_same_v<Op, FakeQuantize<T>> && kSize == 2;
  static constexpr bool kStream = kFake || (kIsInteger<typename Op::A> && kSize == 2);
  static constexpr int K = kStores || kFake ? 1 : 2;
  static constexpr int kRunBlocks = kTwo && kSize == 2 ? 5 : 1;
  static constexpr int kColumns = kStores ? (kSize == 2 ? 8 : 4) : 16 / kSize;
  static constexpr bool kDivides = std::is_same_v<Op, QuantizeBackward<T>>;
  static constexpr int kRows = kSize == 2 ? (kStores || kDivides ? 32 : 16) : kStores ? 16 : 8;
  static constexpr int kBatch = kTwo ? 2 : 4;
  static constexpr int kColumnBlocks = kSize == 8 ? 2
                                       : kDivides || kFake || (kStores && kSize == 2 && !kNibbles)
                                           ? 3
                                           : 4;
  using type = Tuning<R, K, kStream, kColumns, kRows, kBatch, kColumnBlocks, kRunBlocks>;
  // Where inner is no multiple of R.
  using narrow = std::conditional_t<R == 2, type, Tuning<R / 2, 2, false>>;
};

}  // namespace planck::quantize_device
