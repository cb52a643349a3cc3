// Rows on the device: operands, and how rows are cut into threads.
#pragma once

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/axes_walk.h"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/joins.cuh"

namespace planck::row_device {

namespace rm = reduce_math;
using reduce_device::across;

// Where a row's elements are between its passes.
enum class RowWay {
  brief,  // dense, in registers of one warp, few per thread
  dense,  // dense, in registers of up to 32 warps
  wide,   // the same, twice as many per thread; 16-bit elements of one operand
  held,   // any strides, in registers of up to 32 warps
  again,  // read again for every pass
};

inline constexpr int kMostWarps = 32;

// Elements of a thread, of each of kInputs operands.
template <class T, int kInputs, RowWay kWay>
inline constexpr int kThreadElements = kWay == RowWay::brief  ? 8
                                       : kWay == RowWay::wide ? 64
                                       : kWay == RowWay::dense
                                           ? (sizeof(T) == 8 ? 16 : 32) / kInputs
                                           : 16;
template <class T, int kInputs, RowWay kWay>
inline constexpr std::int64_t kMostElements = (kWay == RowWay::brief ? 1 : kMostWarps) *
                                              32 * kThreadElements<T, kInputs, kWay>;

// One operand. Element i of row r is at rows.offset(r) + elements.offset(i).
template <class T>
struct RowView {
  T* data = nullptr;
  AxisMap rows, elements;
  bool packs = false;  // runs are 16-byte accesses
  bool dense = false;  // and follow one another; rows are one axis or two

  static RowView make(const View& v, unsigned along, std::int64_t length) {
    RowView r;
    r.data = static_cast<T*>(v.data);
    r.rows = AxisMap::of(axes_walk(v, ~along));
    r.elements = AxisMap::of(axes_walk(v, along));
    r.set_packs(length);
    return r;
  }
  void set_packs(std::int64_t length) {
    constexpr std::int64_t kRun = 16 / sizeof(T);
    packs = reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && rows.aligned(sizeof(T)) &&
            elements.packs(kRun, sizeof(T), length) && length % kRun == 0;
    dense = packs && elements.rank == 1 &&
            (rows.rank == 1 || (rows.rank == 2 && rows.extent[0] * rows.extent[1] <= UINT32_MAX));
  }
  // The first element of a row, where elements are dense.
  __device__ __forceinline__ T* row(std::int64_t r) const {
    return data + rows.offset(r) + elements.start;
  }
  __device__ __forceinline__ T* at(std::int64_t r, std::int64_t i) const {
    return data + rows.offset(r) + elements.offset(i);
  }
};

// What the dense ways need of an operand: little, because every block starts by reading it.
template <class T>
struct DenseView {
  T* data = nullptr;
  std::int64_t stride[2] = {};
  std::uint32_t inner = 0;  // rows of the inner axis; 0: there is but one

  DenseView() = default;
  DenseView(const RowView<T>& v)
      : data(v.data + (v.rows.start + v.elements.start)),
        stride{v.rows.stride[0], v.rows.rank > 1 ? v.rows.stride[1] : 0},
        inner(v.rows.rank > 1 ? static_cast<std::uint32_t>(v.rows.extent[1]) : 0) {}
  __device__ __forceinline__ T* row(std::int64_t r) const {
    if (inner == 0) return data + r * stride[0];
    const auto i = static_cast<std::uint32_t>(r);
    const std::uint32_t outer = i / inner;
    return data + (outer * stride[0] + (i - outer * inner) * stride[1]);
  }
  __device__ __forceinline__ T* at(std::int64_t r, std::int64_t i) const { return row(r) + i; }
};
template <class T, RowWay kWay>
using OperandOf = std::conditional_t<(kWay <= RowWay::wide), DenseView<T>, RowView<T>>;

// Where a number of each row lies: one axis for dense ways.
struct RowLine {
  std::int64_t start = 0, stride = 0;
  RowLine() = default;
  RowLine(const AxisMap& m) : start(m.start), stride(m.stride[0]) {}
  __device__ __forceinline__ std::int64_t offset(std::int64_t r) const {
    return start + r * stride;
  }
};
template <RowWay kWay>
using RowMapOf = std::conditional_t<(kWay <= RowWay::wide), RowLine, AxisMap>;

struct RowShape {
  std::int64_t rows, length, runs;
  RowWay way;
  int warps;  // of a row, a power of two
  int turns;  // of a thread over its share: 1 unless rows are read again

  // dense: all operands are. widest: rows of up to so many 16-bit elements may be wide.
  template <class T, int kInputs>
  static RowShape make(std::int64_t rows, std::int64_t length, bool dense,
                       std::int64_t widest = 0) {
    constexpr int kRun = 16 / static_cast<int>(sizeof(T));
    RowShape s{rows, length, ceil_div(length, kRun), RowWay::again, 1, 1};
    int elements = kThreadElements<T, kInputs, RowWay::again>;
    if (dense && length <= kMostElements<T, kInputs, RowWay::brief>) {
      s.way = RowWay::brief;
      elements = kThreadElements<T, kInputs, RowWay::brief>;
    } else if (dense && sizeof(T) == 2 && length > 1024 && length <= widest) {
      s.way = RowWay::wide;
      elements = kThreadElements<T, kInputs, RowWay::wide>;
    } else if (dense && length <= kMostElements<T, kInputs, RowWay::dense>) {
      s.way = RowWay::dense;
      elements = kThreadElements<T, kInputs, RowWay::dense>;
    } else if (length <= kMostElements<T, kInputs, RowWay::held>) {
      s.way = RowWay::held;
    }
    const int lanes = 32 * elements / kRun;  // runs of a warp
    while (s.warps < kMostWarps && s.warps * lanes < s.runs) s.warps *= 2;
    while (static_cast<std::int64_t>(s.warps) * lanes * s.turns < s.runs) s.turns *= 2;
    return s;
  }
  // Dense rows share a block only where each has one warp: then none waits for another.
  int threads() const {
    if (way <= RowWay::wide) return warps == 1 ? 128 : 32 * warps;
    return warps >= 8 ? 32 * warps : 256;
  }
  std::int64_t blocks() const { return ceil_div(rows, threads() / 32 / warps); }
};

// Calls f with the way as a constant. kWide: the way may be wide.
template <bool kWide = false, class F>
Result<void> visit_way(RowWay way, const F& f) {
  if constexpr (kWide)
    if (way == RowWay::wide) return f(std::integral_constant<RowWay, RowWay::wide>{});
  switch (way) {
    case RowWay::brief:
      return f(std::integral_constant<RowWay, RowWay::brief>{});
    case RowWay::dense:
      return f(std::integral_constant<RowWay, RowWay::dense>{});
    case RowWay::held:
      return f(std::integral_constant<RowWay, RowWay::held>{});
    default:
      return f(std::integral_constant<RowWay, RowWay::again>{});
  }
}

struct Nothing {
  __device__ __forceinline__ void operator()(std::int64_t) const {}
};

// A run of what all rows share: a weight, a bias.
template <class T>
struct SharedRun {
  static constexpr int kRun = 16 / static_cast<int>(sizeof(T));
  Compute<T> value[kRun];

  __device__ __forceinline__ void load(const DenseView<const T>& v, bool given, std::int64_t run,
                                       std::int64_t, Compute<T> otherwise) {
    Pack<16> p{};
    if (given) p = load_pack<16, false>(v.data, run);
#pragma unroll
    for (int e = 0; e < kRun; ++e) value[e] = given ? element_of<T>(p, e) : otherwise;
  }
  __device__ __forceinline__ void load(const RowView<const T>& v, bool given, std::int64_t run,
                                       std::int64_t length, Compute<T> otherwise) {
    if (given && v.packs) {
      const auto p = load_pack<16, false>(v.data + v.elements.offset(run * kRun), 0);
#pragma unroll
      for (int e = 0; e < kRun; ++e) value[e] = element_of<T>(p, e);
    } else {
#pragma unroll
      for (int e = 0; e < kRun; ++e)
        value[e] = given && run * kRun + e < length
                       ? widen(v.data[v.elements.offset(run * kRun + e)])
                       : otherwise;
    }
  }
};

}  // namespace planck::row_device
