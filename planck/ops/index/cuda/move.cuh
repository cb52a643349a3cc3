// What the CUDA kernels of the family share: indices, the counter of bad ones, plain copies.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/nest.cuh"
#include "planck/ops/index/host/items.h"

namespace planck::index_device {

// i32 or i64 indices.
struct Indices {
  const void* data;
  bool wide;
  explicit Indices(const View& v) : data(v.data), wide(v.dtype == Dtype::i64) {}
  __device__ __forceinline__ std::int64_t operator[](std::int64_t at) const {
    return wide ? static_cast<const std::int64_t*>(data)[at]
                : static_cast<const std::int32_t*>(data)[at];
  }
};

__device__ __forceinline__ bool outside(std::int64_t index, std::int64_t extent) {
  return static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(extent);
}

// Adds to the counter of bad indices, once per warp.
__device__ __forceinline__ void count_bad(unsigned long long* bad, int mine) {
  if (bad == nullptr) return;
  const unsigned all = __reduce_add_sync(~0u, static_cast<unsigned>(mine));
  if (all != 0 && threadIdx.x % 32 == 0) atomicAdd(bad, all);
}

// The counter, set to 0 on the stream; null where it is not wanted.
inline Result<unsigned long long*> clear_counter(const Stream& stream, const View& v,
                                                 const char* op) {
  if (!v.present) return nullptr;
  auto* counter = static_cast<unsigned long long*>(v.data);
  if (auto ok = cuda_result(cudaMemsetAsync(counter, 0, 8, native(stream)), op); !ok)
    return tl::unexpected(ok.error());
  return counter;
}

// to = from, or zeros where `from` is absent: bits as they are.
Result<void> copy_elements(const Stream& stream, const View& from, const View& to);
// Adds the number of entries of a list outside of [0, extent) to the counter.
Result<void> count_list(const Stream& stream, const View& index, std::int64_t extent,
                        unsigned long long* bad);

inline constexpr int kMoveThreads = 256, kMoveItems = 4;
inline std::int64_t move_blocks(std::int64_t total) {
  return ceil_div(total, kMoveThreads * kMoveItems);
}

// Calls f<kBytes>() for an element's size.
template <class F>
Result<void> with_bytes(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      return f.template operator()<16>();
  }
}

}  // namespace planck::index_device
