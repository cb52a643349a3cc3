// Rows of zeros: all of a table, or those that nothing is added to.
#pragma once

#include "planck/loops/cuda/pack.cuh"
#include "planck/loops/table/cuda/keys.cuh"
#include "planck/loops/table/cuda/layout.h"

namespace planck::table_device {

// A piece is some 4 KB: a few short rows, or a part of a long one.
struct ClearRows {
  char* data = nullptr;
  std::int64_t rows = 0;                    // none where 0
  std::int64_t stride = 0;                  // bytes from row to row
  std::int64_t units = 0, unit_stride = 0;  // per row; bytes from one to the next
  int unit_bytes = 16;                      // written at once
  int log2_lanes = 5;                       // lanes that share a row
  int batch = 1;                            // rows per piece, 32 at most
  std::int64_t cuts = 1, cut_units = 0;     // pieces per row, where batch is 1
  const std::uint8_t* present = nullptr;    // one flag per row, set: leave it out; null: none

  static ClearRows of(const View& table, std::size_t element_bytes) {
    constexpr std::int64_t kPiece = 4096;
    ClearRows c;
    const auto bytes = static_cast<std::int64_t>(element_bytes);
    const std::int64_t columns = table.shape[1];
    c.data = static_cast<char*>(table.data);
    c.rows = columns == 0 ? 0 : table.shape[0];
    c.stride = table.strides[0] * bytes;
    const bool dense = table.strides[1] == 1 || columns == 1;
    const std::int64_t common =
        reinterpret_cast<std::int64_t>(table.data) | c.stride | columns * bytes;
    c.unit_bytes = static_cast<int>(bytes);
    while (dense && c.unit_bytes < 16 && common % (2 * c.unit_bytes) == 0) c.unit_bytes *= 2;
    c.units = columns * bytes / c.unit_bytes;
    c.unit_stride = dense ? c.unit_bytes : table.strides[1] * bytes;
    c.log2_lanes = 0;
    while (c.log2_lanes < 5 && (1 << c.log2_lanes) < c.units) ++c.log2_lanes;
    c.batch = 32 >> c.log2_lanes;
    while (c.batch < 32 && 2 * c.batch * columns * bytes <= kPiece) c.batch *= 2;
    c.cut_units = c.units;
    if (c.batch == 1 && columns * bytes > 2 * kPiece) {
      c.cut_units = kPiece / c.unit_bytes;
      c.cuts = (c.units + c.cut_units - 1) / c.cut_units;
    }
    return c;
  }

  __host__ __device__ std::int64_t pieces() const { return pieces_of(rows); }
  __host__ __device__ std::int64_t pieces_of(std::int64_t n) const {
    return batch > 1 ? (n + batch - 1) / batch : n * cuts;
  }

  template <class U>
  __device__ __forceinline__ void clear_units(std::int64_t row, std::int64_t from, std::int64_t to,
                                              int lane) const {
    char* p = data + row * stride;
    for (std::int64_t u = from + lane; u < to; u += 1 << log2_lanes)
      *reinterpret_cast<U*>(p + u * unit_stride) = U{};
  }
  __device__ __forceinline__ void clear_part(std::int64_t row, std::int64_t from, std::int64_t to,
                                             int lane) const {
    switch (unit_bytes) {
      case 16:
        return clear_units<uint4>(row, from, to, lane);
      case 8:
        return clear_units<uint2>(row, from, to, lane);
      case 4:
        return clear_units<std::uint32_t>(row, from, to, lane);
      default:
        return clear_units<std::uint16_t>(row, from, to, lane);
    }
  }
  // One piece of the rows from `begin` on, by a whole warp.
  __device__ __forceinline__ void operator()(std::int64_t piece, std::int64_t begin = 0) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (batch == 1) {
      const std::int64_t row = begin + (cuts == 1 ? piece : piece / cuts);
      if (present != nullptr && present[row] != 0) return;
      const std::int64_t from = cuts == 1 ? 0 : (piece % cuts) * cut_units;
      return clear_part(row, from, min(from + cut_units, units), lane);
    }
    const std::int64_t first = begin + piece * batch;
    bool absent = lane < batch && first + lane < rows;
    if (absent && present != nullptr) absent = present[first + lane] == 0;
    const unsigned wanted = __ballot_sync(~0u, absent);
    for (int r = lane >> log2_lanes; r < batch; r += 32 >> log2_lanes)
      if (wanted >> r & 1) clear_part(first + r, 0, units, lane & ((1 << log2_lanes) - 1));
  }
};

// Hands out the numbers [0, total) to warps, `at_once` at a time, by groups of warps.
class Dealer {
 public:
  __device__ __forceinline__ Dealer(GroupCounters* counters, std::uint32_t total, int at_once)
      : counters_(counters),
        total_(total),
        at_once_(static_cast<std::uint32_t>(at_once)),
        group_(blockIdx.x % kGroups) {}

  // A ticket of this warp's group; known to lane 0. Not waited for until it is used.
  __device__ __forceinline__ std::uint32_t ticket() {
    std::uint32_t t = 0;
    if (threadIdx.x % 32 == 0)
      t = static_cast<std::uint32_t>(atomicAdd(&counters_->of[group_].taken, 1ull));
    return t;
  }
  // Sets the first number of a ticket. If the group has none left, the warp moves to the next group
  // that has some and takes a ticket there. False: all are taken.
  __device__ __forceinline__ bool redeem(std::uint32_t ticket, std::uint32_t& first) {
    while (true) {
      first = first_of(__shfl_sync(~0u, ticket, 0));
      if (first < total_) return true;
      const std::uint32_t lane = threadIdx.x % 32;
      const auto taken = *static_cast<volatile unsigned long long*>(&counters_->of[lane].taken);
      const unsigned rest =
          __ballot_sync(~0u, (taken * kGroups + lane) * at_once_ < std::uint64_t{total_});
      if (rest == 0) return false;
      const unsigned behind = rest >> group_ >> 1;  // the next group that has some
      group_ = behind != 0 ? group_ + __ffs(static_cast<int>(behind))
                           : static_cast<unsigned>(__ffs(static_cast<int>(rest)) - 1);
      ticket = this->ticket();
    }
  }

 private:
  __device__ __forceinline__ std::uint32_t first_of(std::uint32_t ticket) const {
    const std::uint64_t n = (std::uint64_t{ticket} * kGroups + group_) * at_once_;
    return n < total_ ? static_cast<std::uint32_t>(n) : 0xffffffffu;
  }
  GroupCounters* counters_;
  std::uint32_t total_, at_once_, group_;
};

// Clears the rows from `begin` on, together with all other warps that do.
__device__ __forceinline__ void clear_rest(const ClearRows& clear, GroupCounters* counters,
                                           std::int64_t begin) {
  constexpr int kAtOnce = 2;  // pieces per ticket
  const std::int64_t pieces = clear.pieces_of(clear.rows - begin);
  Dealer dealer(counters, static_cast<std::uint32_t>(min(pieces, std::int64_t{0xfffffffe})),
                kAtOnce);
  std::uint32_t first;
  while (dealer.redeem(dealer.ticket(), first))
    for (int i = 0; i < kAtOnce && first + i < pieces; ++i) clear(first + i, begin);
}

}  // namespace planck::table_device
