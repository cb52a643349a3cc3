// y (or dx) as a product of matrices, which are never stored: rows are filters (channels), columns
// are places of the output, k the taps of channels (filters). The tiles and the loop over k are
// those of loops/gemm/cuda; here is how their parts are read.
//
// f32 on one H200, TFLOP/s             [16,64,56,56] 64 3×3   [16,128,28,28] 256 3×3 stride 2
//   one thread per place of four rows         2.25                     2.15
//   tiles                                     26.7                     13.6
#pragma once

#include "planck/ops/conv/cuda/places.cuh"

namespace planck::conv_device {

using conv_detail::Position;
using gemm_device::Stored;

// kRows rows of the weight × kDepth words of k: a thread brings chunks of k of several rows.
template <class T, int kRows, int kDepth, int kThreads>
class WeightLoader {
  using Word = typename Stored<T>::Word;
  static constexpr int kV = 16 / sizeof(Word), kInWord = Stored<T>::kInWord;
  static constexpr int kChunks = kDepth / kV;  // of k
  static constexpr int kUnits = kRows * kDepth / kV / kThreads;
  static_assert(kUnits * kV * kThreads == kRows * kDepth && kThreads % kChunks == 0);

 public:
  __device__ WeightLoader(const ConvArgs<T>& a, const T* weight, std::int64_t first)
      : a_(a),
        from_(weight + (first + row(0)) * a.weight_row),
        rest_(static_cast<int>(a.rows - first < kRows ? a.rows - first : kRows)) {
    k_ = static_cast<int>(threadIdx.x) % kChunks * kV * kInWord;
    at_ = a.taps.of(k_);
  }

  __device__ __forceinline__ void load() {
    Position p = at_;
#pragma unroll
    for (int e = 0; e < kV * kInWord; ++e) {
      const std::int64_t tap =
          p.outer * a_.weight_summed + p.middle * a_.weight_tap[0] + p.inner * a_.weight_tap[1];
#pragma unroll
      for (int u = 0; u < kUnits; ++u)
        raw_[u][e] = k_ + e < a_.depth && row(u) < rest_
                         ? from_[u * (kThreads / kChunks) * a_.weight_row + tap]
                         : T{};
      a_.taps.next(p);
    }
    k_ += kDepth * kInWord;
    a_.taps.advance(at_, a_.step);
  }

  __device__ __forceinline__ void store(Word (*to)[kRows + kV]) const {
    const int k = static_cast<int>(threadIdx.x) % kChunks * kV;
#pragma unroll
    for (int u = 0; u < kUnits; ++u)
#pragma unroll
      for (int e = 0; e < kV; ++e) to[k + e][row(u)] = word_of<T>(raw_[u] + e * kInWord);
  }

 private:
  __device__ static int row(int u) {
    return (static_cast<int>(threadIdx.x) + u * kThreads) / kChunks;
  }

  const ConvArgs<T>& a_;
  const T* from_;
  int rest_, k_;
  Position at_;
  T raw_[kUnits][kV * kInWord];
};

// kColumns places × kDepth words of k of the image: a thread brings the same few places for several
// words. Taps outside the image read as 0.
template <class T, int kColumns, int kDepth, int kThreads>
class ImageLoader {
  using Word = typename Stored<T>::Word;
  static constexpr int kV = 16 / sizeof(Word), kInWord = Stored<T>::kInWord;
  static constexpr int kChunks = kColumns / kV;  // of places
  static constexpr int kUnits = kColumns * kDepth / kV / kThreads;
  static_assert(kUnits * kV * kThreads == kColumns * kDepth && kThreads % kChunks == 0);

 public:
  __device__ ImageLoader(const ConvArgs<T>& a, const T* image, std::int64_t first)
      : a_(a), image_(image) {
    const int i = static_cast<int>(threadIdx.x) % kChunks * kV;
    const std::int64_t all = a.batch * a.height * a.width;
#pragma unroll
    for (int e = 0; e < kV; ++e) {
      const Position p = a.places.of(first + i + e < all ? first + i + e : 0);
      h_[e] = p.middle * a.step_at[0] + a.origin[0];
      w_[e] = p.inner * a.step_at[1] + a.origin[1];
      base_[e] = p.outer * a.image_strides.at[0] + h_[e] * a.image_strides.at[2] +
                 w_[e] * a.image_strides.at[3];
      if (first + i + e >= all) h_[e] = kNowhere;
    }
#pragma unroll
    for (int u = 0; u < kUnits; ++u) at_[u] = a.taps.of(word(u) * kInWord);
  }

  __device__ __forceinline__ void load() {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      Position p = at_[u];
#pragma unroll
      for (int q = 0; q < kInWord; ++q) {
        const int h = p.middle * a_.reach[0], w = p.inner * a_.reach[1];
        const std::int64_t tap = p.outer * a_.image_strides.at[1] + h * a_.image_strides.at[2] +
                                 w * a_.image_strides.at[3];
        const bool inside = p.outer < a_.summed;
#pragma unroll
        for (int e = 0; e < kV; ++e) {
          const bool seen = inside && static_cast<unsigned>(h_[e] + h) < a_.image_height &&
                            static_cast<unsigned>(w_[e] + w) < a_.image_width;
          raw_[u][e][q] = seen ? image_[base_[e] + tap] : T{};
        }
        if (kInWord > 1) a_.taps.next(p);
      }
      a_.taps.advance(at_[u], a_.step);
    }
  }

  __device__ __forceinline__ void store(Word (*to)[kColumns + kV]) const {
    const int i = static_cast<int>(threadIdx.x) % kChunks * kV;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      Word v[kV];
#pragma unroll
      for (int e = 0; e < kV; ++e) v[e] = word_of<T>(raw_[u][e]);
      gemm_device::write_chunk(&to[word(u)][i], v);
    }
  }

 private:
  static constexpr int kNowhere = -(1 << 30);
  __device__ static int word(int u) {
    return (static_cast<int>(threadIdx.x) + u * kThreads) / kChunks;
  }

  const ConvArgs<T>& a_;
  const T* image_;
  int h_[kV], w_[kV];
  std::int64_t base_[kV];
  Position at_[kUnits];
  T raw_[kUnits][kV][kInWord];
};

template <class T, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    convolve_tiles(const __grid_constant__ ConvArgs<T> a) {
  using Word = typename Stored<T>::Word;
  using Sums = gemm_device::Sums<Word, Tile>;
  const std::int64_t all = a.batch * a.height * a.width;
  const std::int64_t down = (a.rows + Sums::kRows - 1) / Sums::kRows;
  const std::int64_t i0 = blockIdx.x % down * Sums::kRows;
  const std::int64_t across = (all + Sums::kColumns - 1) / Sums::kColumns;
  const std::int64_t j0 = blockIdx.x / down % across * Sums::kColumns;
  const std::int64_t group = blockIdx.x / down / across;
  WeightLoader<T, Sums::kRows, Tile::kDepth, Tile::kThreads> weights(
      a, a.weight + group * a.weight_group, i0);
  ImageLoader<T, Sums::kColumns, Tile::kDepth, Tile::kThreads> image(
      a, a.image + group * a.image_group, j0);
  Sums sums;
  sums.add_products(weights, image, (a.depth + Stored<T>::kInWord - 1) / Stored<T>::kInWord);

  auto* out = a.out + group * a.out_group;
#pragma unroll
  for (int c = 0; c < Tile::kAcross; ++c) {
    const std::int64_t j = j0 + sums.chunk_of(c);
    if (j >= all) continue;
    Position p = a.places.of(j);
    std::int64_t at[Sums::kV];
#pragma unroll
    for (int e = 0; e < Sums::kV; ++e) {
      at[e] = p.outer * a.out_strides.at[0] + p.middle * a.out_strides.at[2] +
              p.inner * a.out_strides.at[3];
      a.places.next(p);
    }
#pragma unroll
    for (int r = 0; r < Sums::kDown; ++r) {
      const std::int64_t i = i0 + sums.row_of(r);
      if (i >= a.rows) continue;
      auto* to = out + i * a.out_strides.at[1];
      const Word* v = sums.v[r] + c * Sums::kV;
      if (a.out_packs) {
        gemm_device::store_dense<T, Sums::kV>(to + at[0], v);
        continue;
      }
#pragma unroll
      for (int e = 0; e < Sums::kV; ++e)
        if (j + e < all) gemm_device::store_one<T>(to[at[e]], v[e]);
    }
  }
}

}  // namespace planck::conv_device
