// cuda:running of cummax and cummin. Nothing is computed, elements are moved: whichever way the row
// is cut, the last that no other exceeds is the same one (runs_on in planck/math/reduction.h),
// so the bits are those of the CPU.
//
// Rows: a lane has a stretch of 32 elements (scan_tile.cuh); lanes, then warps, are joined in
// order. Columns: a warp has 16 rows of 64 columns side by side, two per lane (or 32 rows of 32
// columns); the next tile is under way meanwhile.
//
// On an H200, f32 [8192, 8192], where moving the same bytes takes 264 us; us:
//   down the columns   one thread per column                                  3,215
//                      one column per lane                                      313
//                      two                                                      321
//                      two, and stores that leave the caches first              287
//                      four, which need too many registers                      630
//   along the rows     eight elements per thread                                414
//                      one stretch per lane                                     417
//                      stores that leave the caches first, and registers for
//                      it (3 blocks instead of 4)                               273
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/ops/reduce/cuda/kernels.h"
#include "planck/ops/reduce/cuda/leader.cuh"
#include "planck/ops/reduce/cuda/scan_tile.cuh"
#include "planck/ops/reduce/cuda/visit_number.h"
#include "planck/ops/reduce/host/layout.h"

namespace planck {

namespace reduce_device {
namespace {

template <class T>
struct ExtremeArguments {
  ScanOperand<const T> in;
  ScanOperand<T> values;
  ScanOperand<std::int64_t> indices;
  ScanRows shape;
  bool in_packs, values_packs, indices_packs;  // rows
};

template <class T>
__device__ __forceinline__ T extreme_stored(Value<T> v) {
  if constexpr (std::is_floating_point_v<Value<T>>)
    return stored<T>(rm::canonical(v));
  else
    return v;
}

constexpr int kSlots = 8;         // warps of a strip
constexpr int kFewColumns = 256;  // strips would leave the device idle,
constexpr int kFewPairs = 4096;   // and those of pairs of columns

// kColumns: of a lane, whose rows of a tile are a stretch together.
template <class T, bool kLargest, int kColumns>
__global__ void __launch_bounds__(32 * kSlots, 1) extreme_columns(const ExtremeArguments<T> a) {
  using V = Value<T>;
  constexpr int kRows = kStretch / kColumns, kBytes = kColumns * static_cast<int>(sizeof(T));
  __shared__ V value[2][kSlots][kColumns][32];
  __shared__ int at[2][kSlots][kColumns][32];
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = static_cast<int>(threadIdx.x) / 32;
  const int slots = static_cast<int>(blockDim.x) / 32;
  const std::int64_t group = (static_cast<std::int64_t>(blockIdx.x) * 32 + lane) * kColumns;
  const std::int64_t length = group < a.shape.rows ? a.shape.length : 0;
  const T* in = a.in.data + (length > 0 ? a.in.map.offset(group) : 0);
  T* values = a.values.data + (length > 0 ? a.values.map.offset(group) : 0);
  std::int64_t* indices = a.indices.data + (length > 0 ? a.indices.map.offset(group) : 0);
  Pack<kBytes> next[kRows] = {};  // of the tile after this
  const auto fetch = [&](std::int64_t first) {
    const int left = left_of(length, first, kRows);
    const T* from = in + first * a.in.step;
#pragma unroll
    for (int k = 0; k < kRows; ++k, from += a.in.step)
      if (k < left) next[k] = load_pack<kBytes, false>(from, 0);
  };
  Carried<kLargest, V> carried[kColumns];
  const int place = slot * kRows;
  fetch(place);
  int parity = 0;
  for (std::int64_t begin = 0; begin < a.shape.length; begin += slots * kRows) {
    const std::int64_t first = begin + place;
    const int left = left_of(length, first, kRows);
    V x[kColumns][kRows];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
#pragma unroll
      for (int k = 0; k < kRows; ++k) x[c][k] = value_at<T>(next[k], c);
    fetch(first + slots * kRows);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const Leader<V> own = leader_of<kLargest>(x[c], place, left);
      value[parity][slot][c][lane] = own.value;
      at[parity][slot][c][lane] = own.at;
    }
    __syncthreads();
    V best[kColumns];
    std::int64_t index[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      Leader<V> running = carried[c].leader, after = carried[c].leader;
      for (int s = 0; s < slots; ++s) {
        if (s == slot) running = after;
        after = lead<kLargest>(after, Leader<V>{value[parity][s][c][lane], at[parity][s][c][lane]});
      }
      best[c] = running.at == kNothing ? x[c][0] : running.value;
      index[c] = running.at == kNothing ? first : carried[c].index_of(running, begin);
      carried[c].take(after, begin);
    }
    T* to = values + first * a.values.step;
    std::int64_t* to_index = indices + first * a.indices.step;
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c)
        if (rm::runs_on<kLargest>(x[c][k], best[c])) {
          best[c] = x[c][k];
          index[c] = first + k;
        }
      if (k < left) {
        store_pack<true>(to, 0, pack_values<T>(best));
        store_pack<true>(to_index, 0, pack_values<std::int64_t>(index));
      }
      to += a.values.step;
      to_index += a.indices.step;
    }
    parity = 1 - parity;
  }
}

// Places in a tile: kScanWarps * kWarpStretch fit into 16 bits.
using Place = std::int16_t;

template <class T>
struct ExtremeTile {
  ScanTile<T> values;
  ScanTile<Place> places;
};

template <class T, bool kLargest>
__global__ void __launch_bounds__(kScanThreads, sizeof(T) == 8 ? 2 : 3)
    extreme_rows(const ExtremeArguments<T> a) {
  using V = Value<T>;
  using Tile = ExtremeTile<T>;
  constexpr int kRun = ScanTile<T>::kRun, kRuns = ScanTile<T>::kRuns;
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ V value[2][kScanWarps];
  __shared__ int at[2][kScanWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = a.shape.warps(), own_warp = warp & (warps - 1);  // of the row's
  Tile& tile = reinterpret_cast<Tile*>(memory)[warp];
  const std::int64_t row = a.shape.row_of(warp);
  const int lanes = 1 << a.shape.log2_lanes, lane_of_row = lane & (lanes - 1);
  const int place = own_warp * kWarpStretch + lane_of_row * kStretch;
  Carried<kLargest, V> carried;
  int parity = 0;
  for (std::int64_t begin = 0; begin < a.shape.length; begin += warps * kWarpStretch) {
    const std::int64_t first = begin + own_warp * kWarpStretch;
    tile.values.load(ScanPart<const T>(a.in, a.shape, row, first), a.in_packs);
    V x[kStretch];
#pragma unroll
    for (int r = 0; r < kRuns; ++r) {
      const uint4 v = tile.values.at(lane, r);
      const Pack<16> p{{v.x, v.y, v.z, v.w}};
#pragma unroll
      for (int e = 0; e < kRun; ++e) x[r * kRun + e] = element<T>(p, e);
    }
    // The leader of the row's lanes up to this one, and before it.
    const int left = left_of(a.shape.length, begin + place, kStretch);
    Leader<V> own = leader_of<kLargest>(x, place, left);
    for (int d = 1; d < lanes; d *= 2) {
      const Leader<V> before = from_lane_before(own, d);
      if (lane_of_row >= d) own = lead<kLargest>(before, own);
    }
    Leader<V> running = from_lane_before(own, 1);
    if (lane_of_row == 0) running.at = kNothing;
    if (warps > 1) {
      if (lane == 31) {
        value[parity][warp] = own.value;
        at[parity][warp] = own.at;
      }
      __syncthreads();
      Leader<V> after = carried.leader;
      for (int w = 0; w < warps; ++w) {
        if (w == own_warp) running = lead<kLargest>(after, running);
        const int from = warp - own_warp + w;
        after = lead<kLargest>(after, Leader<V>{value[parity][from], at[parity][from]});
      }
      own = after;
      parity = 1 - parity;
    }
    if (running.at == kNothing) running = {x[0], place};
    constexpr int kPlaces = ScanTile<Place>::kRun;  // of a run: those of whole runs of values
#pragma unroll
    for (int r = 0; r < kStretch / kPlaces; ++r) {
      T y[kPlaces];
      Place places[kPlaces];
#pragma unroll
      for (int e = 0; e < kPlaces; ++e) {
        const int k = r * kPlaces + e;
        if (rm::runs_on<kLargest>(x[k], running.value)) running = {x[k], place + k};
        y[e] = extreme_stored<T>(running.value);
        places[e] = static_cast<Place>(running.at);
      }
      uint4 v[kPlaces / kRun], p;
      memcpy(v, y, sizeof v);
      memcpy(&p, places, sizeof p);
#pragma unroll
      for (int k = 0; k < kPlaces / kRun; ++k)
        tile.values.at(lane, r * (kPlaces / kRun) + k) = v[k];
      tile.places.at(lane, r) = p;
    }
    tile.values.template store<true>(ScanPart<T>(a.values, a.shape, row, first), a.values_packs);
    const ScanPart<std::int64_t> indices(a.indices, a.shape, row, first);
    const auto index_of = [&](Place p) { return p == kCarried ? carried.index : begin + p; };
    if (a.indices_packs) {  // neighbouring lanes, neighbouring 16 bytes
      const bool whole = indices.whole();
#pragma unroll
      for (int k = 0; k < kStretch / 2; ++k) {
        const int i = (k * 32 + lane) * 2;
        if (!whole && !indices.has(i)) continue;
        const auto v = *reinterpret_cast<const std::uint32_t*>(&tile.places.element(i));
        __stcs(
            reinterpret_cast<longlong2*>(whole ? indices.base + i : indices.at(i)),
            make_longlong2(index_of(static_cast<Place>(v)), index_of(static_cast<Place>(v >> 16))));
      }
    } else {
      for (int i = lane; i < kWarpStretch; i += 32)
        if (indices.has(i)) *indices.at(i) = index_of(tile.places.element(i));
    }
    carried.take(own, begin);
    __syncwarp();
  }
}

template <class T, bool kLargest>
Result<void> running_extreme(const Stream& stream, const ReduceProblem& p,
                             const Operands& operands) {
  const ReduceLayout l = ReduceLayout::make(p, operands[0], operands[1], &operands[2]);
  if (l.groups == 0 || l.length == 0) return {};
  int axis = 0;
  while (!p.reduces(axis)) ++axis;
  const auto operand = [&]<class U>(int number, U* data) {
    return ScanOperand<U>{data, AxisMap::of(walk_of(l.kept, number)), 0,
                          operands[static_cast<std::size_t>(number)].strides[axis]};
  };
  ExtremeArguments<T> a{operand(0, static_cast<const T*>(operands[0].data)),
                        operand(1, static_cast<T*>(operands[1].data)),
                        operand(2, static_cast<std::int64_t*>(operands[2].data)),
                        ScanRows{l.groups, l.length},
                        false,
                        false,
                        false};
  const char* name = kLargest ? "cummax" : "cummin";
  if (l.columns && l.groups >= kFewColumns) {
    const bool pairs = l.groups >= 2 * kFewPairs && a.in.pairs(l.groups) &&
                       a.values.pairs(l.groups) && a.indices.pairs(l.groups);
    const int columns = pairs ? 2 : 1;
    int slots = 1;
    while (slots < kSlots && slots * (kStretch / columns) < l.length) slots *= 2;
    return launch(stream, name,
                  pairs ? extreme_columns<T, kLargest, 2> : extreme_columns<T, kLargest, 1>,
                  ceil_div(l.groups, 32 * columns), 32 * slots, a);
  }
  a.shape = ScanRows::make(l.groups, l.length,
                           a.in.map.rank == 1 && a.values.map.rank == 1 && a.indices.map.rank == 1);
  a.in_packs = a.in.packs(l.length, false);
  a.values_packs = a.values.packs(l.length, false);
  a.indices_packs = a.indices.packs(l.length, false);
  constexpr int kBytes = kScanWarps * sizeof(ExtremeTile<T>);
  if (auto ok =
          cuda_result(cudaFuncSetAttribute(extreme_rows<T, kLargest>,
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                      name);
      !ok)
    return ok;
  if (a.shape.blocks() > INT32_MAX)
    return fail(ErrorCode::device, std::string(name) + ": more rows than a grid has blocks");
  extreme_rows<T, kLargest>
      <<<static_cast<unsigned>(a.shape.blocks()), kScanThreads, kBytes, native(stream)>>>(a);
  return cuda_result(cudaGetLastError(), name);
}

template <class T>
Result<void> running_extreme(const Stream& stream, const ReduceProblem& p,
                             const Operands& operands) {
  return p.kind == ReduceKind::cummax ? running_extreme<T, true>(stream, p, operands)
                                      : running_extreme<T, false>(stream, p, operands);
}

}  // namespace
}  // namespace reduce_device

Result<void> running_extreme_cuda(const Stream& stream, Workspace, const ReduceProblem& p,
                                  const Operands& operands) {
  using namespace reduce_device;
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return visit_number(p.element_dtype, [&](auto type) {
    return running_extreme<typename decltype(type)::type>(stream, p, operands);
  });
}

}  // namespace planck
