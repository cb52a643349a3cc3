// Products of few elements and a long k, as gradients of weights are: there are fewer tiles than
// multiprocessors, and what takes time is to wait, for memory and for the sum before. A block owns
// 16 × 32 of C, a lane four of it, and copies that bypass registers keep three steps of k on their
// way. Copies go element by element: any strides, and [i][k] in shared memory whatever they are, so
// that a lane reads 16 bytes of k at once.
//
// f32, 128 × 384 of k = 8,192 on one H200 (a chain alone takes 17 us; 16 of the 31 cycles that a k
// takes are reads of shared memory), us; and 128 × 128 of k = 64:
//   tiles of 16 × 32, 16 sums of a lane, one step ahead     200   11.2
//   steps of 32, six of them; lanes of 2 × 2, of 4 × 2      172, 172   9.3, 9.9
//   steps of 64, three of them; lanes of 2 × 2, of 4 × 2    128, 133   8.9, 8.5
// f64 with dense operands is faster by tiles (189 and 224), by these where strides are any (110,
// 60).
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/gemm/cuda/tile.cuh"

namespace planck::gemm_device {

template <class T>
struct Deep {
  static constexpr int kRows = 16, kColumns = 32, kThreads = 128, kWarps = 4, kStages = 3;
  static constexpr int kDepth = 256 / static_cast<int>(sizeof(T));
  static constexpr int kChunk = 16 / static_cast<int>(sizeof(T));  // of k
  static constexpr int kLine = kDepth + kChunk;                    // eight lines: no two in a bank

  struct Step {
    T a[kRows][kLine], b[kColumns][kLine];
  };
};

// What a thread copies of 16 lines of k of an operand, a unit at a time: a warp takes 8 × 4
// elements where i lies closer, 32 of k where k does.
template <class T>
class DeepCopies {
  using D = Deep<T>;
  static constexpr int kCount = 16, kUnits = kCount * D::kDepth / D::kThreads;
  static constexpr int kAcross = D::kDepth / 32;  // warps along a line

 public:
  __device__ DeepCopies(const Operand<T>& x, const T* from, std::int64_t count) {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const bool down = x.depth == 1 || x.along == 0;
    i_ = down ? warp / kAcross : warp % 2 * 8 + lane % 8;
    k_ = down ? warp % kAcross * 32 + lane : warp / 2 * 4 + lane / 8;
    next_i_ = down ? D::kWarps / kAcross : 0;
    next_k_ = down ? 0 : 2 * D::kWarps;
    next_ = next_i_ * x.along + next_k_ * x.depth;
    from_ = from + i_ * x.along + k_ * x.depth;
    step_ = D::kDepth * x.depth;
    rest_ = static_cast<int>(count < kCount ? (count < 0 ? 0 : count) : kCount);
  }
  // Starts the copies of the next step, which has `k_left` of k.
  __device__ __forceinline__ void start(T (*to)[D::kLine], int k_left) {
    const T* at = from_;
    T* line = to[i_] + k_;
    const int next_line = next_i_ * D::kLine + next_k_;
    if (rest_ == kCount && k_left == D::kDepth) {
#pragma unroll
      for (int u = 0; u < kUnits; ++u, at += next_, line += next_line)
        copy_async<sizeof(T)>(line, at);
    } else {
#pragma unroll 1
      for (int u = 0; u < kUnits; ++u, at += next_, line += next_line) {
        if (i_ + u * next_i_ < rest_ && k_ + u * next_k_ < k_left)
          copy_async<sizeof(T)>(line, at);
        else
          *line = T{};
      }
    }
    from_ += step_;
  }

 private:
  const T* from_;             // this thread's first element of the step
  std::int64_t next_, step_;  // to its next unit, to the next step
  int i_, k_, next_i_, next_k_, rest_;
};

template <class T>
__global__ void __launch_bounds__(Deep<T>::kThreads) multiply_deep(const ProductArgs<T> p) {
  using D = Deep<T>;
  constexpr int kDepth = D::kDepth, kStages = D::kStages, kChunk = D::kChunk;
  __shared__ __align__(16) typename D::Step stage[kStages];
  const std::int64_t tiles = p.tiles_down * p.tiles_across;
  const std::int64_t batch = blockIdx.x / tiles, tile = blockIdx.x - batch * tiles;
  const std::int64_t i0 = tile / p.tiles_across * D::kRows,
                     j0 = tile % p.tiles_across * D::kColumns;
  const T* const from_a = p.a.data + p.batches.offset(0, batch) + i0 * p.a.along;
  const T* const from_b = p.b.data + p.batches.offset(1, batch) + j0 * p.b.along;
  DeepCopies<T> a(p.a, from_a, p.m - i0), left(p.b, from_b, p.n - j0),
      right(p.b, from_b + (p.n - j0 > 16 ? 16 : 0) * p.b.along, p.n - j0 - 16);
  const auto steps = static_cast<unsigned>((p.k + kDepth - 1) / kDepth);
  const int last = static_cast<int>(p.k - std::int64_t{steps - 1} * kDepth);
  const auto start = [&](unsigned step, int to) {
    if (step < steps) {
      const int k_left = step + 1 < steps ? kDepth : last;
      a.start(stage[to].a, k_left);
      left.start(stage[to].b, k_left);
      right.start(stage[to].b + 16, k_left);
    }
    end_copies();
  };
#pragma unroll 1
  for (int s = 0; s + 1 < kStages; ++s) start(s, s);

  // A warp has 16 × 8, a lane rows r and r + 8 of columns c and c + 4.
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int r = lane / 4, c = warp * 8 + lane % 4;
  T sum[2][2] = {};
  int now = 0;
  for (unsigned step = 0; step < steps; ++step) {
    await_copies<kStages - 2>();
    __syncthreads();
    start(step + kStages - 1, now == 0 ? kStages - 1 : now - 1);
    const auto& s = stage[now];
    now = now + 1 == kStages ? 0 : now + 1;
    const auto add = [&](int k, int count) {
      T x[2][kChunk], y[2][kChunk];
      read_chunk(&s.a[r][k], x[0]), read_chunk(&s.a[r + 8][k], x[1]);
      read_chunk(&s.b[c][k], y[0]), read_chunk(&s.b[c + 4][k], y[1]);
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        if (e >= count) break;  // products of zeros would turn a sum of -0 into +0
#pragma unroll
        for (int i = 0; i < 2; ++i)
#pragma unroll
          for (int j = 0; j < 2; ++j) sum[i][j] = multiply_add(x[i][e], y[j][e], sum[i][j]);
      }
    };
    if (step + 1 < steps || last == kDepth) {
#pragma unroll
      for (int k = 0; k < kDepth; k += kChunk) add(k, kChunk);
    } else {
      for (int k = 0; k < last; k += kChunk) add(k, last - k);
    }
  }

  T* const to = p.c + p.batches.offset(2, batch);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const std::int64_t row = i0 + r + 8 * i, column = j0 + c + 4 * j;
      if (row < p.m && column < p.n)
        store_one<T>(to[row * p.c_row + column * p.c_column], sum[i][j]);
    }
}

template <class T>
Result<void> launch_deep(const Stream& stream, ProductArgs<T> p) {
  p.tiles_down = ceil_div(p.m, Deep<T>::kRows);
  p.tiles_across = ceil_div(p.n, Deep<T>::kColumns);
  return launch(stream, "matmul", multiply_deep<T>, p.batches.count * p.tiles_down * p.tiles_across,
                Deep<T>::kThreads, p);
}

}  // namespace planck::gemm_device
