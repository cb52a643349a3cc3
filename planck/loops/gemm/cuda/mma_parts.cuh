// Brings steps of A and B to shared memory for mma.sync, as mma_layout.h lays them.
//
//   deep  k lies densely: copied chunk by chunk while the block goes on
//   wide  rows (of A; columns of B) lie densely: likewise
//   any   what the operand says at run time: copied as deep ones are; brought through registers as
//         squares of 4 × 4 bytes where rows lie densely; or element by element, by any strides
//
// What lies outside of the matrix becomes zeros, which change no sum of the contract.
#pragma once

#include "planck/loops/cuda/async_copy.cuh"
#include "planck/loops/gemm/cuda/mma_layout.h"

namespace planck::gemm_device {

enum class Lies : std::uint8_t { deep, wide, any };
enum class Brought : std::uint8_t { copied, squares, elements };  // of Lies::any

template <class E>
struct MmaOperand {
  const E* data;
  std::int64_t along, depth;  // strides of rows and of k
  Brought brought;
};

// 16 bytes, of which the first `bytes` are read and the rest become zeros; where there are none,
// `from` may point anywhere.
__device__ __forceinline__ void copy_async_first(int bytes, void* shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(from), "r"(bytes)
               : "memory");
}

template <class E, int kRows, int kThreads, bool kDeep>
class CopiedPart {
 public:
  using Layout = MmaLayout<kRows, sizeof(E), kDeep>;

  // Rows in [first, count), k in [0, depth).
  __device__ CopiedPart(const MmaOperand<E>& x, std::int64_t offset, int first, int count,
                        int depth)
      : x_(x), rows_left_(count - first), k_left_(depth) {
    const std::int64_t row = first + (kDeep ? line() : chunk() * Layout::kInChunk);
    const std::int64_t k = kDeep ? chunk() * Layout::kInChunk : line();
    from_ = x.data + offset + row * x.along + k * x.depth;
  }
  __device__ __forceinline__ void load(char* to) {
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
      const int at_line = line() + u * kLines, along = chunk() * Layout::kInChunk;
      const int left = (kDeep ? k_left_ : rows_left_) - along;
      const bool inside = at_line < (kDeep ? rows_left_ : k_left_) && left > 0;
      const int elements = !inside ? 0 : left < Layout::kInChunk ? left : Layout::kInChunk;
      copy_async_first(elements * int{sizeof(E)}, to + Layout::at(at_line, chunk()),
                       from_ + u * kLines * (kDeep ? x_.along : x_.depth));
    }
    from_ += Layout::kDepth * x_.depth;
    k_left_ -= Layout::kDepth;
  }
  __device__ __forceinline__ void store(char*) const {}

 private:
  static constexpr int kLines = kThreads / Layout::kChunks;  // that all threads take at once
  static constexpr int kEach = Layout::kLines / kLines;
  static_assert(kEach * kLines == Layout::kLines && kLines * Layout::kChunks == kThreads);
  __device__ static int line() { return static_cast<int>(threadIdx.x) / Layout::kChunks; }
  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % Layout::kChunks; }

  const MmaOperand<E>& x_;
  const E* from_;  // of this step: the thread's first chunk
  int rows_left_, k_left_;
};

// A square of 4 × 4 bytes, transposed.
__device__ __forceinline__ void transpose_bytes(std::uint32_t (&v)[4]) {
  const std::uint32_t a = __byte_perm(v[0], v[1], 0x5140), b = __byte_perm(v[0], v[1], 0x7362);
  const std::uint32_t c = __byte_perm(v[2], v[3], 0x5140), d = __byte_perm(v[2], v[3], 0x7362);
  v[0] = __byte_perm(a, c, 0x5410), v[1] = __byte_perm(a, c, 0x7632);
  v[2] = __byte_perm(b, d, 0x5410), v[3] = __byte_perm(b, d, 0x7632);
}

// Lies deep in shared memory. A unit is a word: 4 bytes of k of one row.
template <class E, int kRows, int kThreads>
class AnyPart {
 public:
  using Layout = MmaLayout<kRows, sizeof(E), true>;

  __device__ AnyPart(const MmaOperand<E>& x, std::int64_t offset, int first, int count, int depth)
      : copied_(x, offset, first, count, depth), x_(x), rows_left_(count - first), k_left_(depth) {
    const int t = static_cast<int>(threadIdx.x);
    if (x.brought == Brought::squares) {
      row_ = t % (kRows / 4) * 4, word_ = t / (kRows / 4);
    } else if (magnitude(x.depth) < magnitude(x.along)) {
      row_ = t / kWords, word_ = t % kWords;
      rows_on_ = kThreads / kWords;
    } else {
      row_ = t % kRows, word_ = t / kRows;
      words_on_ = kThreads / kRows;
    }
    from_ = x.data + offset + (first + row_) * x.along + word_ * kInWord * x.depth;
  }

  __device__ __forceinline__ void load(char* to) {
    if (x_.brought == Brought::copied) return copied_.load(to);
    if (sizeof(E) == 1 && x_.brought == Brought::squares)
      load_squares();
    else
      load_elements();
    from_ += Layout::kDepth * x_.depth;
    k_left_ -= Layout::kDepth;
  }
  __device__ __forceinline__ void store(char* to) const {
    if (x_.brought == Brought::copied) return;
    if (sizeof(E) == 1 && x_.brought == Brought::squares) {
#pragma unroll
      for (int u = 0; u < kEach; u += 4) {
        std::uint32_t square[4] = {raw_[u], raw_[u + 1], raw_[u + 2], raw_[u + 3]};
        transpose_bytes(square);
#pragma unroll
        for (int e = 0; e < 4; ++e) put(to, row_ + e, word_ + u / 4 * kSquaresOn, square[e]);
      }
    } else {
#pragma unroll
      for (int u = 0; u < kEach; ++u) put(to, row_ + u * rows_on_, word_ + u * words_on_, raw_[u]);
    }
  }

 private:
  static constexpr int kInWord = 4 / int{sizeof(E)}, kWords = kMmaStepBytes / 4;
  static constexpr int kEach = kRows * kWords / kThreads;
  static constexpr int kSquaresOn = kThreads / (kRows / 4);  // words between a thread's squares
  static_assert(kEach * kThreads == kRows * kWords && kEach % 4 == 0);
  static_assert(kThreads % kWords == 0 && kThreads % kRows == 0);
  using Bits = std::conditional_t<sizeof(E) == 1, std::uint8_t,
                                  std::conditional_t<sizeof(E) == 2, std::uint16_t, std::uint32_t>>;

  __device__ static std::int64_t magnitude(std::int64_t v) { return v < 0 ? -v : v; }
  __device__ static void put(char* to, int row, int word, std::uint32_t v) {
    *reinterpret_cast<std::uint32_t*>(to + Layout::at(row, word / 4) + word % 4 * 4) = v;
  }
  __device__ __forceinline__ void load_elements() {
    const std::int64_t on = rows_on_ * x_.along + words_on_ * kInWord * x_.depth;
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
      const auto* at = reinterpret_cast<const Bits*>(from_ + u * on);
      const int row = row_ + u * rows_on_, k = (word_ + u * words_on_) * kInWord;
      raw_[u] = 0;
#pragma unroll
      for (int e = 0; e < kInWord; ++e)
        if (row < rows_left_ && k + e < k_left_)
          raw_[u] |= static_cast<std::uint32_t>(at[e * x_.depth]) << (8 * int{sizeof(E)} * e);
    }
  }
  // Four rows at each of four k; rows are whole fours.
  __device__ __forceinline__ void load_squares() {
#pragma unroll
    for (int u = 0; u < kEach; ++u) {
      const int word = u / 4 * kSquaresOn, e = u % 4;
      const E* at = from_ + (4 * word + e) * x_.depth;
      const bool inside = row_ < rows_left_ && 4 * (word_ + word) + e < k_left_;
      raw_[u] = inside ? *reinterpret_cast<const std::uint32_t*>(at) : 0;
    }
  }

  CopiedPart<E, kRows, kThreads, true> copied_;
  const MmaOperand<E>& x_;
  const E* from_;
  int rows_left_, k_left_;
  int row_, word_;                  // of the thread's first unit
  int rows_on_ = 0, words_on_ = 0;  // to its next
  std::uint32_t raw_[kEach];
};

template <class E, int kRows, int kThreads, Lies kLies>
using MmaPart = std::conditional_t<kLies == Lies::any, AnyPart<E, kRows, kThreads>,
                                   CopiedPart<E, kRows, kThreads, kLies == Lies::deep>>;

}  // namespace planck::gemm_device
