// Backward of FakeQuantize with learnable scale and zero point: dx, and the terms of both sums.
#pragma once

#include "planck/loops/teams.cuh"
#include "planck/ops/quantize/elements.cuh"
#include "planck/ops/quantize/members.cuh"

namespace planck::quantize_device {

// Operands of a MemberCall.
enum LearnOperand { kDy, kX, kDx, kScaleIn, kZeroIn, kDscale, kDzero };

template <class T>
struct LearnArguments {
  const void* dy;
  const void* x;
  void* dx;
  const T* scale;
  const std::int32_t* zero_point;
  T* dscale;  // null: not asked for, as dzero_point
  T* dzero_point;
  Compute<T>* partials[2];  // [groups, chunks] of dscale and dzero_point, where a group has several
  GroupWalk groups;
  bool empty;  // groups without members
  GridAttributes grid;
};

template <class T>
__device__ __forceinline__ void group_offsets(const LearnArguments<T>& args, std::int64_t group,
                                              std::int64_t (&offset)[kGroupOperands]) {
#pragma unroll
  for (auto& o : offset) o = 0;
  args.groups.add(group, offset);
}

template <class T>
__device__ __forceinline__ Cell<T> learn_cell(const LearnArguments<T>& args, std::int64_t group) {
  std::int64_t offset[kGroupOperands];
  group_offsets(args, group, offset);
  return make_cell<T>(widen(args.scale[offset[0]]), args.zero_point[offset[1]], 0, args.grid);
}

template <class T>
__device__ __forceinline__ void store_sums(const LearnArguments<T>& args, std::int64_t group,
                                           Two<Compute<T>> sums) {
  std::int64_t offset[kGroupOperands];
  group_offsets(args, group, offset);
  if (args.empty) sums = {};
  if (args.dscale) args.dscale[offset[2]] = narrow<T>(qm::canonical(sums.first));
  if (args.dzero_point) args.dzero_point[offset[3]] = narrow<T>(qm::canonical(sums.second));
}

// One chunk of a group is done.
template <class T>
__device__ __forceinline__ void store_chunk(const LearnArguments<T>& args, std::int64_t chunks,
                                            std::int64_t group, std::int64_t chunk,
                                            const Two<Compute<T>>& sums) {
  if (chunks == 1) return store_sums(args, group, sums);
  args.partials[0][group * chunks + chunk] = sums.first;
  args.partials[1][group * chunks + chunk] = sums.second;
}

// dx and both terms of one element.
template <class T, Way kWay>
__device__ __forceinline__ Two<Compute<T>> learn_element(Compute<T> dy, Compute<T> v,
                                                         const Cell<T>& c,
                                                         const GridAttributes& grid,
                                                         Compute<T>& dx) {
  using C = Compute<T>;
  bool inside;
  C steps;
  if constexpr (kWay == Way::careful) {
    inside = qm::in_range(v, c.z, grid.q_min, grid.q_max);
    steps = qm::steps<C>(qm::quantized(v, c.z, grid.q_min, grid.q_max), c.z);
  } else {
    inside = qm::ordinary_in_range(v, c.lo, c.hi);
    steps = qm::ordinary_steps(v, c.lo, c.hi);
  }
  dx = inside ? qm::canonical(dy) : C(0);
  return {qm::scale_term(dy, v, steps, inside), qm::zero_point_term(dy, c.scale, inside)};
}

// A run of R elements, all of the group of cell_of, or one group each.
template <class T, int R, class CellOf, class CarefulCell>
__device__ __forceinline__ void learn_run(const Compute<T> (&x)[R], const Compute<T> (&dy)[R],
                                          bool ordinary, const GridAttributes& grid,
                                          const CellOf& cell_of, const CarefulCell& careful_cell,
                                          Compute<T> (&dx)[R], Two<Compute<T>> (&terms)[R]) {
  using C = Compute<T>;
  if (ordinary) {
    C v[R];
    if (grid.reciprocal) {
#pragma unroll
      for (int e = 0; e < R; ++e) v[e] = x[e] * cell_of(e).inverse;
    } else {
#pragma unroll
      for (int e = 0; e < R; ++e) v[e] = x[e] / cell_of(e).scale;
    }
#pragma unroll
    for (int e = 0; e < R; ++e)
      terms[e] = learn_element<T, Way::divide>(dy[e], v[e], cell_of(e), grid, dx[e]);
    return;
  }
  C xs[R], dys[R], dxs[R];  // rare: rolled, from copies that may lie in local memory
  Two<C> ts[R];
#pragma unroll
  for (int e = 0; e < R; ++e) {
    xs[e] = x[e];
    dys[e] = dy[e];
  }
#pragma unroll 1
  for (int e = 0; e < R; ++e) {
    const Cell<T> c = careful_cell(e);
    const C v = position<Way::careful>(xs[e], c.scale, c.inverse, grid);
    ts[e] = learn_element<T, Way::careful>(dys[e], v, c, grid, dxs[e]);
  }
#pragma unroll
  for (int e = 0; e < R; ++e) {
    dx[e] = dxs[e];
    terms[e] = ts[e];
  }
}

// Also for runs of one element.
template <class T, int R>
__device__ __forceinline__ Pack<R * sizeof(T)> pack_run(const Compute<T> (&v)[R]) {
  if constexpr (R == 1 && sizeof(T) == 2)
    return {{narrow<T>(v[0]).bits}};
  else
    return pack<T, R>(v);
}

template <class T>
__device__ __forceinline__ bool is_ordinary(const Cell<T>& c) {
  return c.z >= -qm::kOrdinaryZero && c.z <= qm::kOrdinaryZero;
}

}  // namespace planck::quantize_device
