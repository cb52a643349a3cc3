// Brings parts of A and B from global memory through registers to shared memory, where word
// [k][i] is element (i, k) in the type it is multiplied in. For bytes a word holds four of k.
//
//   along    i lies densely: chunks of i are read, and stored as they are
//   across   k lies densely: chunks of k are read, and stored word by word
//   strided  any strides and alignment, element by element, along the axis whose stride is smaller
//   any      one of these, as the operand says at run time
#pragma once

#include <cstdint>

#include "planck/core/dtype.h"
#include "planck/loops/cuda/floats.cuh"

namespace planck::gemm_device {

enum class Reading : std::uint8_t { along, across, strided, any };

template <class T>
struct Operand {
  const T* data;
  std::int64_t along, depth;  // strides of i and of k
  Reading reading;            // along, across or strided
};

template <class T>
struct Stored {  // floats
  using Word = Compute<T>;
  using Output = T;
  static constexpr int kInWord = 1;
};
template <>
struct Stored<std::int8_t> {
  using Word = std::int32_t;
  using Output = std::int32_t;
  static constexpr int kInWord = 4;
};

__device__ __forceinline__ void read_chunk(const float* from, float* to) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void read_chunk(const double* from, double* to) {
  const double2 v = *reinterpret_cast<const double2*>(from);
  to[0] = v.x, to[1] = v.y;
}
__device__ __forceinline__ void read_chunk(const std::int32_t* from, std::int32_t* to) {
  const int4 v = *reinterpret_cast<const int4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
__device__ __forceinline__ void write_chunk(float* to, const float* v) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
__device__ __forceinline__ void write_chunk(double* to, const double* v) {
  *reinterpret_cast<double2*>(to) = make_double2(v[0], v[1]);
}
__device__ __forceinline__ void write_chunk(std::int32_t* to, const std::int32_t* v) {
  *reinterpret_cast<int4*>(to) = make_int4(v[0], v[1], v[2], v[3]);
}

// kCount rows (columns) × kDepth words per step; every thread brings kUnits chunks of kV words.
template <class T, int kCount, int kDepth, int kThreads, Reading kReading>
class Loader {
  using Word = typename Stored<T>::Word;
  static constexpr int kV = 16 / sizeof(Word);
  static constexpr int kUnits = kCount * kDepth / kV / kThreads;
  static_assert(kUnits * kV * kThreads == kCount * kDepth && kDepth % kV == 0);
  // The chunks of a thread lie in one row of chunks, or in one column, equally far apart.
  static_assert(kThreads % (kDepth / kV) == 0 && kThreads % (kCount / kV) == 0);

 public:
  // i in [first, count), k in [0, depth).
  __device__ Loader(const Operand<T>& x, std::int64_t offset, std::int64_t first,
                    std::int64_t count, std::int64_t depth)
      : x_(x),
        k_left_(depth),
        rest_(static_cast<int>(count - first < kCount ? count - first : kCount)) {
    down_ = kReading == Reading::across ||
            (kReading == Reading::any &&
             (x.reading == Reading::across ||
              (x.reading == Reading::strided && smaller(x.depth, x.along))));
    from_ = x.data + offset + (first + chunk_i(0)) * x.along + chunk_k(0) * x.depth;
    next_ = down_ ? kThreads / (kDepth / kV) * x.along : kThreads / (kCount / kV) * x.depth;
  }

  // Brings the next step into registers; what lies outside is 0.
  __device__ __forceinline__ void load() {
    const int k_left = k_left_ < kDepth ? static_cast<int>(k_left_) : kDepth;
    const bool dense = kReading == Reading::along || kReading == Reading::across ||
                       (kReading == Reading::any && x_.reading != Reading::strided);
    if (dense && rest_ == kCount && k_left == kDepth) {  // no predicates, no zeros
#pragma unroll
      for (int u = 0; u < kUnits; ++u) raw_[u] = *reinterpret_cast<const Raw*>(from_ + u * next_);
    } else {
      load_within(dense, k_left);
    }
    from_ += kDepth * x_.depth;
    k_left_ -= kDepth;
  }

  __device__ __forceinline__ void store(Word (*to)[kCount + kV]) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      Word v[kV];
      const auto* elements = reinterpret_cast<const T*>(&raw_[u]);
#pragma unroll
      for (int e = 0; e < kV; ++e) v[e] = widen(elements[e]);
      const int i = chunk_i(u), k = chunk_k(u);
      if (down_) {
#pragma unroll
        for (int e = 0; e < kV; ++e) to[k + e][i] = v[e];
      } else {
        write_chunk(&to[k][i], v);
      }
    }
  }

 private:
  struct alignas(kV * sizeof(T)) Raw {
    T element[kV];
  };
  __device__ __forceinline__ void load_within(bool dense, int k_left) {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = chunk_i(u), k = chunk_k(u);
      const T* at = from_ + u * next_;
      if (dense) {
        if (i < rest_ && k < k_left)
          raw_[u] = *reinterpret_cast<const Raw*>(at);
        else
          raw_[u] = Raw{};
      } else {
        auto* elements = reinterpret_cast<T*>(&raw_[u]);
#pragma unroll
        for (int e = 0; e < kV; ++e) {
          const bool inside = down_ ? i < rest_ && k + e < k_left : i + e < rest_ && k < k_left;
          elements[e] = inside ? at[e * (down_ ? x_.depth : x_.along)] : T{};
        }
      }
    }
  }
  __device__ static bool smaller(std::int64_t a, std::int64_t b) {
    return (a < 0 ? -a : a) < (b < 0 ? -b : b);
  }
  __device__ __forceinline__ int chunk_i(int u) const {
    const int unit = static_cast<int>(threadIdx.x) + u * kThreads;
    return down_ ? unit / (kDepth / kV) : unit % (kCount / kV) * kV;
  }
  __device__ __forceinline__ int chunk_k(int u) const {
    const int unit = static_cast<int>(threadIdx.x) + u * kThreads;
    return down_ ? unit % (kDepth / kV) * kV : unit / (kCount / kV);
  }

  const Operand<T>& x_;
  const T* from_;      // this thread's first chunk of this step
  std::int64_t next_;  // from one of its chunks to the next
  std::int64_t k_left_;
  int rest_;   // rows (columns) of this tile that there are
  bool down_;  // chunks go down k
  Raw raw_[kUnits];
};

// Bytes: four of k to a word, whatever the reading; k beyond the end is 0, which adds nothing.
template <int kCount, int kDepth, int kThreads, Reading kReading>
class Loader<std::int8_t, kCount, kDepth, kThreads, kReading> {
  static constexpr int kV = 4;
  static constexpr int kUnits = kCount * kDepth / kV / kThreads;
  static_assert(kUnits * kV * kThreads == kCount * kDepth);

 public:
  __device__ Loader(const Operand<std::int8_t>& x, std::int64_t offset, std::int64_t first,
                    std::int64_t count, std::int64_t depth)
      : x_(x), from_(x.data + offset + first * x.along), rest_(count - first), k_left_(depth) {}

  // A unit is four of i for four of k.
  __device__ __forceinline__ void load() {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int i = chunk_i(u), k = 4 * chunk_k(u);
      const std::int8_t* at = from_ + i * x_.along + k * x_.depth;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (x_.reading == Reading::along) {  // row e: k + e, four of i
          const bool inside = i < rest_ && k + e < k_left_;
          raw_[u][e] = inside ? *reinterpret_cast<const std::int32_t*>(at + e * x_.depth) : 0;
        } else if (x_.reading == Reading::across) {  // row e: i + e, four of k
          const bool inside = i + e < rest_ && k < k_left_;
          raw_[u][e] = inside ? *reinterpret_cast<const std::int32_t*>(at + e * x_.along) : 0;
        } else {
          std::uint32_t word = 0;
#pragma unroll
          for (int q = 0; q < 4; ++q)
            if (i + e < rest_ && k + q < k_left_)
              word |= static_cast<std::uint32_t>(
                          static_cast<std::uint8_t>(at[e * x_.along + q * x_.depth]))
                      << (8 * q);
          raw_[u][e] = static_cast<std::int32_t>(word);
        }
      }
    }
    from_ += 4 * kDepth * x_.depth;
    k_left_ -= 4 * kDepth;
  }

  __device__ __forceinline__ void store(std::int32_t (*to)[kCount + kV]) const {
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      std::int32_t v[4] = {raw_[u][0], raw_[u][1], raw_[u][2], raw_[u][3]};
      if (x_.reading == Reading::along) {  // a square of 4 × 4 bytes, transposed
        const auto pick = [](std::int32_t x, std::int32_t y, unsigned bytes) {
          return __byte_perm(static_cast<unsigned>(x), static_cast<unsigned>(y), bytes);
        };
        const unsigned a = pick(v[0], v[1], 0x5140), b = pick(v[0], v[1], 0x7362);
        const unsigned c = pick(v[2], v[3], 0x5140), d = pick(v[2], v[3], 0x7362);
        v[0] = static_cast<std::int32_t>(__byte_perm(a, c, 0x5410));
        v[1] = static_cast<std::int32_t>(__byte_perm(a, c, 0x7632));
        v[2] = static_cast<std::int32_t>(__byte_perm(b, d, 0x5410));
        v[3] = static_cast<std::int32_t>(__byte_perm(b, d, 0x7632));
      }
      write_chunk(&to[chunk_k(u)][chunk_i(u)], v);
    }
  }

 private:
  __device__ __forceinline__ int chunk_i(int u) const {
    return (static_cast<int>(threadIdx.x) + u * kThreads) % (kCount / kV) * kV;
  }
  __device__ __forceinline__ int chunk_k(int u) const {
    return (static_cast<int>(threadIdx.x) + u * kThreads) / (kCount / kV);
  }

  const Operand<std::int8_t>& x_;
  const std::int8_t* from_;
  std::int64_t rest_, k_left_;
  std::int32_t raw_[kUnits][4];
};

}  // namespace planck::gemm_device
