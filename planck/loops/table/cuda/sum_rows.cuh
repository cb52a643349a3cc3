// Rows as sums of the entries that belong to them, in the canonical order.
//
// A warp, or a team of its lanes where rows are short, takes work from a counter: first the chunks
// of hot rows, then light rows, four at a time, then rows to clear. Either is a list of at most 64
// entries for one tile of columns (row_team.cuh).
#pragma once

#include "planck/loops/table/cuda/row_team.cuh"

namespace planck::table_device {

__device__ __forceinline__ Item load_item(const Item* p) {
  const uint4 v = *reinterpret_cast<const uint4*>(p);
  return {v.x, v.y, v.z, v.w};
}

// Vectors per lane where a row is hot: its many chunks fill the device without more.
template <class T, int kBytes, int kVectors>
inline constexpr int kHotVectors = kBytes == sizeof(T) ? kVectors : 1;

template <class Team, class T>
__device__ __forceinline__ void sum_hot(const SumRows<T>& a, uint4* places) {
  Team team(a, places);
  const std::uint32_t teams = 32 / team.lanes, mine = threadIdx.x % 32 / team.lanes;
  const std::uint32_t units = a.index.counters->hot * a.hot_tiles;
  if (units == 0) return;
  Dealer dealer(&a.index.counters->next_hot, units, static_cast<int>(teams));
  std::uint32_t first;
  while (dealer.redeem(dealer.ticket(), first)) {
    const std::uint32_t unit = first + mine;
    if (unit >= units) continue;
    const std::uint32_t place = a.by_hot_tiles.quotient(unit), tile = unit - place * a.hot_tiles;
    team.enter_tile(tile);
    team.chunk(load_item(a.index.items + a.index.count - 1 - place), tile);
  }
  __syncwarp();
}

// While the rows of one ticket are in flight, the items of the next are loaded and the ticket after
// it is taken.
template <class Team, class T>
__device__ __forceinline__ void sum_light(const SumRows<T>& a, uint4* places) {
  Team team(a, places);
  const std::uint32_t teams = 32 / team.lanes, mine = threadIdx.x % 32 / team.lanes;
  const std::uint32_t light = a.index.counters->light;
  const std::uint32_t units = (light + Team::kLight - 1) / Team::kLight * a.tiles;
  if (units == 0) return;
  Dealer dealer(&a.index.counters->next_light, units, static_cast<int>(teams));
  const auto load_items = [&](std::uint32_t ticket, std::uint32_t& unit, Item& item) {
    std::uint32_t first;
    const bool any = dealer.redeem(ticket, first);
    unit = first + mine;
    item.many = 0;
    if (any && unit < units) {
      const std::uint32_t i = a.by_tiles.quotient(unit) * Team::kLight + team.lane;
      if (team.lane < Team::kLight && i < light) item = load_item(a.index.items + i);
    }
    return any;
  };
  Item item = {}, next = {};
  std::uint32_t unit, next_unit = 0;
  bool more = load_items(dealer.ticket(), unit, item);
  std::uint32_t ticket = dealer.ticket();
  while (more) {
    more = load_items(ticket, next_unit, next);
    if (more) ticket = dealer.ticket();
    if (unit < units) {
      team.enter_tile(unit - a.by_tiles.quotient(unit) * a.tiles);
      team.light_rows(item);
    }
    __syncwarp();
    item = next;
    unit = next_unit;
  }
}

template <class T, int kBytes, int kVectors, SourceKind kSource>
__global__ void __launch_bounds__(kSumThreads, kBytes == 16 && sizeof(T) == 4 ? 6 : 4)
    sum_rows(const __grid_constant__ SumRows<T> a) {
  using Team = RowTeam<T, kBytes, kVectors, kSource>;
  using HotTeam = RowTeam<T, kBytes, kHotVectors<T, kBytes, kVectors>, kSource>;
  __shared__ uint4 places[Team::kRings ? Ring<kVectors>::kVectorsABlock : 1];
  follow();
  sum_hot<HotTeam>(a, places);
  sum_light<Team>(a, places);
  Counters* counters = a.index.counters;
  if (a.clear.rows > 0)
    clear_rest(a.clear, &counters->next_clear, a.clear_rest ? counters->rows : 0);
}

}  // namespace planck::table_device
