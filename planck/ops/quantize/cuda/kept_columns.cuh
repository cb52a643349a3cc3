// What a thread keeps of its columns' groups while it walks down the rows. It lies in shared memory
// and is read back one group at a time: in registers, it left room for only half the loads in
// flight.
#pragma once

#include "planck/ops/quantize/cuda/cells.cuh"

namespace planck::quantize_device {

inline constexpr int kThreads = 256;

// Each thread writes and reads its own entries alone.
template <class T, int R, int kThreadsOfBlock = kThreads>
struct KeptColumns {
  using C = Compute<T>;
  struct alignas(16) Part {
    C scale, inverse, x_lo, x_hi;
  };
  Part part[R][kThreadsOfBlock];
  C lo[R][kThreadsOfBlock];

  __device__ __forceinline__ void keep(int e, const Cell<T>& c) {
    part[e][threadIdx.x] = {c.scale, c.inverse, c.x_lo, c.x_hi};
    lo[e][threadIdx.x] = c.lo;
  }
  // A quick cell, but for its zero point.
  __device__ __forceinline__ Cell<T> cell(int e, const GridAttributes& grid) const {
    const Part p = part[e][threadIdx.x];
    Cell<T> c = {};
    c.scale = p.scale;
    c.inverse = p.inverse;
    c.x_lo = p.x_lo;
    c.x_hi = p.x_hi;
    c.lo = lo[e][threadIdx.x];
    c.hi = c.lo + static_cast<C>(grid.q_max - grid.q_min);
    c.quick = true;
    return c;
  }
};

// Runs of one column down the rows: a pointer, and a step from row to row.
template <int kBytes>
struct ColumnCursor {
  char* at;
  std::int64_t step;

  __device__ __forceinline__ ColumnCursor(const void* base, std::int64_t run, std::int64_t runs)
      : at(static_cast<char*>(const_cast<void*>(base)) + run * kBytes), step(runs * kBytes) {}
  template <bool kStreaming>
  __device__ __forceinline__ Pack<kBytes> load(int k) const {
    return load_pack<kBytes, kStreaming>(at + k * step, 0);
  }
  template <bool kStreaming>
  __device__ __forceinline__ void store(int k, const Pack<kBytes>& v) const {
    store_pack<kStreaming>(at + k * step, 0, v);
  }
  __device__ __forceinline__ void advance(int rows) { at += rows * step; }
};

}  // namespace planck::quantize_device
