// Where the entries of an index get their keys from: the indices themselves, or the bags.
#pragma once

#include <algorithm>
#include <cstdint>

#include "planck/core/view.h"

namespace planck::table_device {

// Offset of element i of a view, in elements: its axes merged where that is possible.
struct FlatView {
  int rank = 1;
  std::int64_t extent[kMaxRank] = {}, stride[kMaxRank] = {};

  // Of the first `rank` axes.
  static FlatView over(const View& v, int rank) {
    FlatView w;
    w.rank = 0;
    for (int d = 0; d < rank; ++d) {
      if (v.shape[d] == 1) continue;
      if (w.rank > 0 && w.stride[w.rank - 1] == v.strides[d] * v.shape[d]) {
        w.extent[w.rank - 1] *= v.shape[d];
        w.stride[w.rank - 1] = v.strides[d];
        continue;
      }
      w.extent[w.rank] = v.shape[d];
      w.stride[w.rank++] = v.strides[d];
    }
    w.rank = std::max(w.rank, 1);
    return w;
  }

  __device__ __forceinline__ std::int64_t operator()(std::int64_t i) const {
    if (rank == 1) return i * stride[0];
    std::int64_t sum = 0;
#pragma unroll 1
    for (int d = rank - 1; d > 0; --d) {
      const std::int64_t outer = i / extent[d];
      sum += (i - outer * extent[d]) * stride[d];
      i = outer;
    }
    return sum + i * stride[0];
  }
};

// i32 or i64 integers.
struct Integers {
  const void* data = nullptr;
  bool wide = true;
  FlatView flat;

  static Integers of(const View& v) {
    return {v.data, v.dtype == Dtype::i64, FlatView::over(v, v.shape.rank())};
  }
  __device__ __forceinline__ std::int64_t operator[](std::int64_t i) const {
    const std::int64_t at = flat(i);
    return wide ? static_cast<const std::int64_t*>(data)[at]
                : static_cast<const std::int32_t*>(data)[at];
  }
  // Elements first, first + step, … below count, and −1 beyond: all loads in flight at once.
  template <int kMany>
  __device__ __forceinline__ void load(std::int64_t (&to)[kMany], std::int64_t first,
                                       std::int64_t step, std::int64_t count) const {
    if (flat.rank > 1) {
      for (int k = 0; k < kMany; ++k)
        to[k] = first + k * step < count ? (*this)[first + k * step] : -1;
    } else if (wide) {
      load_flat(static_cast<const std::int64_t*>(data), to, first, step, count);
    } else {
      load_flat(static_cast<const std::int32_t*>(data), to, first, step, count);
    }
  }

 private:
  template <class I, int kMany>
  __device__ __forceinline__ void load_flat(const I* p, std::int64_t (&to)[kMany],
                                            std::int64_t first, std::int64_t step,
                                            std::int64_t count) const {
#pragma unroll
    for (int k = 0; k < kMany; ++k)
      to[k] = first + k * step < count ? p[(first + k * step) * flat.stride[0]] : I{-1};
  }
};

inline constexpr std::uint32_t kNoKey = 0xffffffffu;

struct Keys {
  Integers indices;
  std::int64_t rows = 0;  // V
  std::int64_t padding = -1;
  const std::uint32_t* bags = nullptr;  // bag of each entry, kNoKey outside all
  bool by_bag = false;                  // the key is the bag, not the row
  bool wide = false;                    // rows have numbers of more than 32 bits: the key is 0

  __device__ __forceinline__ static bool in_table(std::int64_t index, std::int64_t rows) {
    return static_cast<std::uint64_t>(index) < static_cast<std::uint64_t>(rows);
  }
  // The key of entry i or kNoKey. bad: its index is outside the table.
  __device__ __forceinline__ std::uint32_t operator()(std::int64_t i, bool& bad) const {
    return of(i, indices[i], bad);
  }
  __device__ __forceinline__ std::uint32_t of(std::int64_t i, std::int64_t index, bool& bad) const {
    bad = !in_table(index, rows);
    std::uint32_t key = wide ? 0 : static_cast<std::uint32_t>(index);
    if (bad || index == padding) key = kNoKey;
    if (bags != nullptr) {
      const std::uint32_t bag = bags[i];
      if (bag == kNoKey) key = kNoKey;
      if (by_bag && key != kNoKey) key = bag;
    }
    return key;
  }
};

}  // namespace planck::table_device
