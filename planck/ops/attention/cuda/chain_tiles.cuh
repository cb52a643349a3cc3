// What the kernels of cuda:tiles have in common: f32 attention by tiles in registers, each number
// one chain of fused multiply-adds, as `chain` means it.
//
// A block of four warps owns 64 rows (queries; for dk and dv keys), each warp 16 of them, and walks
// over rows of the other side, `steps`. A warp is 4 × 8 lanes. A lane owns rows 4 down + r of its
// warp's, r < 4, and of scores the columns across + 8 c: so keys that are counted in one of the
// eight sums of powers belong to one lane. Of sums over steps it owns chunks of four columns.
//
// Scores are products of rows with rows: both are read from shared memory 16 bytes along k, four k
// at a time. Rows of a tile lie four words apart in banks, so that eight neighbours are read at
// once. Scores become weights and go to shared memory, word [column][row], four rows of a lane at
// a time, to be read by the lanes of the same warp alone: these wait for nobody else. Rows and
// columns that are not there are zeros, and a product of zeros changes at most the sign of a zero,
// which shows in no result.
//
// H200, ms of B8 H12 L1024 D64, causal (and not), in a laboratory program: forward, dk and dv, dq
// of kept slopes:
//   weights [row][column]                        0.420 (0.760)  0.808 (1.530)  0.171 (0.322)
//   copies of whole tiles look at no row, steps
//   of queries are counted, not divided          0.412 (0.749)  0.803 (1.528)  0.168 (0.309)
//   weights [column][row]                        0.411 (0.747)  0.789 (1.509)  0.164 (0.304)
// Of forward's instructions 70% are sums, and one is issued in 69% of cycles; shared memory is busy
// in 37% (ncu). What a warp waits for most is dispatch, as where operands of an instruction share a
// bank of registers. Where own rows and keys lie across, [k][row], this is halved, but then reads
// are waited for: 0.434, 0.830. Nor did three blocks help (0.470), nor eight rows of a lane with
// sums set aside between products (0.478; dk and dv 0.934).
//
// A row whose result is NaN is done again by definition, as with cuda:warpgroups (tiles.cuh): a
// product with a weight of 0 is 0 whatever the other factor is.
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/cuda/chain.cuh"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

inline constexpr int kChainThreads = 128, kOwnRows = 64;
inline constexpr int kChainBlocks = 2;  // of a multiprocessor: with three, reads have no registers
inline constexpr int kDown = 4;         // rows of a lane
inline constexpr int kNextAcross = 2;   // from a lane to the next one across

// Which lane of its warp a thread is. Its lowest bit is one of `down`, the next one of `across`: 16
// bytes of every lane take two turns of shared memory where all neighbours, or all next but one,
// read the same, and four elsewhere.
struct ChainLane {
  int warp, lane, down, across;
  __device__ ChainLane()
      : warp(static_cast<int>(threadIdx.x) / 32),
        lane(static_cast<int>(threadIdx.x) % 32),
        down(lane % 2 + lane / 16 * 2),
        across(lane / kNextAcross % 8) {}
  // Of 32 bits, those of the lanes whose `down` this is.
  __device__ static constexpr unsigned lanes_of(int down) {
    return 0x5555u << (down % 2 + down / 2 * 16);
  }
  // Of the block's own rows: the first of the warp's 16, and the first of the lane's.
  __device__ int warp_row() const { return warp * 16; }
  __device__ int row() const { return warp_row() + down * kDown; }
};

// Which 64 rows of which head block number `at` owns: the first rows of all heads, or where
// `backwards` the last ones, then the next. With causal these see most, and so come first.
struct OwnRows {
  int n, head, row;
  __device__ OwnRows(Index at, Index batch, Index heads, Index rows, bool backwards) {
    const Index tile = at / (batch * heads), of_all = at % (batch * heads);
    const Index tiles = (rows + kOwnRows - 1) / kOwnRows;
    n = static_cast<int>(of_all / heads), head = static_cast<int>(of_all % heads);
    row = static_cast<int>(backwards ? tiles - 1 - tile : tile) * kOwnRows;
  }
};

// Rows of one head in global memory. chunks: 16 bytes can be copied at once.
struct HeadRows {
  const float* data;
  Index row, element;  // strides
  int rows, width;
  bool chunks;

  __device__ HeadRows(const Operand& x, Index n, Index head, Index rows_, int width_, bool chunks_)
      : data(static_cast<const float*>(x.data) + n * x.stride[0] + head * x.stride[1]),
        row(x.stride[2]),
        element(x.stride[3]),
        rows(static_cast<int>(rows_)),
        width(width_),
        chunks(chunks_) {}
};

// All threads bring kRows × kColumns numbers to shared memory, kStride from row to row; those that
// are not there are zeros. They are there after the copies are awaited and the block has met.
template <int kRows, int kColumns, int kStride>
__device__ __forceinline__ void bring(float* to, const HeadRows& x, int row, int column) {
  const int thread = static_cast<int>(threadIdx.x);
  if (x.chunks) {
    constexpr int kAcross = kColumns / 4, kAtOnce = kChainThreads / kAcross;
    static_assert(kRows % kAtOnce == 0);
    const int first = thread / kAcross, at = thread % kAcross * 4;
    const float* from = x.data + Index{row + first} * x.row + column + at;
    const Index step = kAtOnce * x.row;
    float* const out = to + first * kStride + at;
    if (row + kRows <= x.rows && column + kColumns <= x.width) {  // nearly always
#pragma unroll
      for (int r = 0; r < kRows; r += kAtOnce, from += step)
        copy_async<16>(out + r * kStride, from);
    } else {
      const bool inside = column + at < x.width;
#pragma unroll 1
      for (int r = 0; r < kRows; r += kAtOnce, from += step) {
        const bool there = inside && row + first + r < x.rows;
        copy_async_if(there, out + r * kStride, there ? from : x.data);
      }
    }
  } else {
#pragma unroll 1
    for (int i = thread; i < kRows * kColumns; i += kChainThreads) {
      const int r = i / kColumns, e = i % kColumns;
      const bool there = row + r < x.rows && column + e < x.width;
      to[r * kStride + e] = there ? x.data[Index{row + r} * x.row + (column + e) * x.element] : 0;
    }
  }
}

__device__ __forceinline__ float4 read_four(const float* shared) {
  return *reinterpret_cast<const float4*>(shared);
}

// Four numbers of each of the lane's rows. They and the first of what they are multiplied with are
// read before they are wanted, the last time past the end: no room ends where a tile does.
template <int kStride>
struct RowParts {
  float4 of[kDown];
  __device__ __forceinline__ explicit RowParts(const float* rows) {
#pragma unroll
    for (int r = 0; r < kDown; ++r) of[r] = read_four(rows + r * kStride);
  }
};

// s[r][c] += own row r · step row c over `words` of k, in rising order, for c < kUsed; own and step
// point to the lane's first rows. words is filled up to a multiple of 8.
template <int kUsed, int kOwnStride, int kStepStride, int kColumns>
__device__ __forceinline__ void add_scores(float (&s)[kDown][kColumns], const float* own,
                                           const float* step, int words) {
  const auto add_four = [&](const RowParts<kOwnStride>& a, const float4& first, int k) {
#pragma unroll
    for (int c = 0; c < kUsed; ++c) {
      const float4 b = c == 0 ? first : read_four(step + c * 8 * kStepStride + k);
#pragma unroll
      for (int r = 0; r < kDown; ++r) s[r][c] = __fmaf_rn(a.of[r].x, b.x, s[r][c]);
#pragma unroll
      for (int r = 0; r < kDown; ++r) s[r][c] = __fmaf_rn(a.of[r].y, b.y, s[r][c]);
#pragma unroll
      for (int r = 0; r < kDown; ++r) s[r][c] = __fmaf_rn(a.of[r].z, b.z, s[r][c]);
#pragma unroll
      for (int r = 0; r < kDown; ++r) s[r][c] = __fmaf_rn(a.of[r].w, b.w, s[r][c]);
    }
  };
  RowParts<kOwnStride> now(own);
  float4 b = read_four(step);
#pragma unroll 1
  for (int k = 0; k < words; k += 8) {
    const RowParts<kOwnStride> next(own + k + 4);
    add_four(now, b, k);
    now = RowParts<kOwnStride>(own + k + 8), b = read_four(step + k + 8);
    add_four(next, read_four(step + k + 4), k + 4);
  }
}

// sums[r][·] += the sum of weights[j][row r] * x[j][·], j rising from `from`, a multiple of 8, to
// `end`, filled up to one. weights points to the lane's first row, x to its first columns, chunks
// of which lie 32 apart. What is read first is read before it is wanted.
template <int kWidth, int kWeightStride, int kStride>
__device__ __forceinline__ void add_rows(float (&sums)[kDown][kWidth / 8], const float* weights,
                                         const float* x, int from, int end) {
  float4 w[2], b[2][kWidth / 32];
  const auto read = [&](int to, int j) {
    w[to] = read_four(weights + j * kWeightStride);
#pragma unroll
    for (int c = 0; c < kWidth / 32; ++c) b[to][c] = read_four(x + j * kStride + c * 32);
  };
  read(0, from);
#pragma unroll 1
  for (int j = from; j < end; j += 8)
#pragma unroll
    for (int y = 0; y < 8; ++y) {
      read((y + 1) % 2, j + y + 1);
      const float4& of_rows = w[y % 2];
      const float row[kDown] = {of_rows.x, of_rows.y, of_rows.z, of_rows.w};
#pragma unroll
      for (int r = 0; r < kDown; ++r)
#pragma unroll
        for (int c = 0; c < kWidth / 32; ++c) {
          float* const sum = sums[r] + c * 4;
          const float4& v = b[y % 2][c];
          sum[0] = __fmaf_rn(row[r], v.x, sum[0]), sum[1] = __fmaf_rn(row[r], v.y, sum[1]);
          sum[2] = __fmaf_rn(row[r], v.z, sum[2]), sum[3] = __fmaf_rn(row[r], v.w, sum[3]);
        }
    }
}

// A lane's weights to where add_rows reads them.
template <int kWeightStride, int kColumns>
__device__ __forceinline__ void put_weights(float* weights, const float (&s)[kDown][kColumns]) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    *reinterpret_cast<float4*>(weights + c * 8 * kWeightStride) =
        make_float4(s[0][c], s[1][c], s[2][c], s[3][c]);
}

// Which columns the lane's rows see: row r those from first[r] to end[r] - 1.
struct Seen {
  int first[kDown], end[kDown];

  // range(row) of each row below `rows`; others see nothing.
  template <class F>
  __device__ __forceinline__ Seen(int row, Index rows, F range) {
#pragma unroll
    for (int r = 0; r < kDown; ++r) {
      const Range seen = row + r < rows ? range(row + r) : Range{0, 0};
      first[r] = static_cast<int>(seen.first), end[r] = static_cast<int>(seen.end);
    }
  }
  __device__ bool has(int r, int column) const { return first[r] <= column && column < end[r]; }
  // The first column that a row of the warp sees, of those that see any, and the end of the last.
  __device__ __forceinline__ int warp_first() const {
    int least = INT32_MAX;
#pragma unroll
    for (int r = 0; r < kDown; ++r)
      if (first[r] < end[r]) least = min(least, first[r]);
    return __reduce_min_sync(0xffffffffu, least);
  }
  __device__ __forceinline__ int warp_end() const {
    int most = 0;
#pragma unroll
    for (int r = 0; r < kDown; ++r)
      if (first[r] < end[r]) most = max(most, end[r]);
    return __reduce_max_sync(0xffffffffu, most);
  }
  // Whether all rows of the warp see all these columns.
  __device__ __forceinline__ bool all(int from, int to) const {
    bool whole = true;
#pragma unroll
    for (int r = 0; r < kDown; ++r) whole = whole && first[r] <= from && to <= end[r];
    return __all_sync(0xffffffffu, whole);
  }
};

// A warp's results: element(r, x) is number x of the lane's row r. Gives a bit for each row that is
// NaN somewhere, of those that may.
template <int kWidth, class Element>
__device__ __forceinline__ unsigned store_rows_of_warp(const Operand& to, const OwnRows& at,
                                                       const ChainLane& lane, Index rows, int width,
                                                       bool packs, const bool (&may)[kDown],
                                                       Element element) {
  unsigned found = 0;
#pragma unroll
  for (int r = 0; r < kDown; ++r) {
    const int row = at.row + lane.row() + r;
    const bool there = row < rows;
    float* const out = static_cast<float*>(to.data) + at.n * to.stride[0] + at.head * to.stride[1] +
                       (there ? row : 0) * to.stride[2];
    bool nan = false;
#pragma unroll
    for (int chunk = 0; chunk < kWidth / 32; ++chunk) {
      const int e = chunk * 32 + lane.across * 4;
      float v[4];
#pragma unroll
      for (int x = 0; x < 4; ++x) {
        v[x] = canonical_nan(element(r, chunk * 4 + x));
        nan |= v[x] != v[x];
        if (there && !packs && e + x < width) out[(e + x) * to.stride[3]] = v[x];
      }
      if (there && packs && e < width)
        *reinterpret_cast<float4*>(out + e) = make_float4(v[0], v[1], v[2], v[3]);
    }
    const unsigned lanes = __ballot_sync(0xffffffffu, nan && may[r] && there);
#pragma unroll
    for (int down = 0; down < 4; ++down)
      if ((lanes & ChainLane::lanes_of(down)) != 0) found |= 1u << (down * kDown + r);
  }
  return found;
}

}  // namespace planck::attention_device
