// Backward of FakeQuantize with learnable scale and zero point: dx, and the terms of both sums.
#pragma once

#include "planck/loops/cuda/teams.cuh"
#include "planck/ops/quantize/cuda/members.cuh"
#include "planck/ops/quantize/cuda/runs.cuh"

namespace planck::quantize_device {

// Operands of a MemberCall.
enum LearnOperand { kDy, kX, kDx, kScaleIn, kZeroIn, kDscale, kDzero };

template <class T, bool kDense>
struct LearnArguments {
  const void* dy;
  const void* x;
  void* dx;
  const T* scale;
  const std::int32_t* zero_point;
  T* dscale;  // null: not wanted; likewise dzero_point
  T* dzero_point;
  Compute<T>* partials[2];  // [groups, chunks] of dscale and dzero_point, where a group has several
  Groups<kDense> groups;
  bool empty;  // groups without members
  GridAttributes grid;
};

template <class T, bool kDense>
__device__ __forceinline__ StoredGroup<T> load_stored(const LearnArguments<T, kDense>& args,
                                                      std::int64_t group) {
  return {load_scale(args.scale + args.groups.offset(0, group)),
          load_early(args.zero_point + args.groups.offset(1, group))};
}
template <class T>
__device__ __forceinline__ Cell<T> learn_cell(const StoredGroup<T>& g, const GridAttributes& grid) {
  return make_cell<T>(widen(g.scale), g.z, 1, grid);
}

// One of a group's two sums, over one of its chunks, is done.
template <class T, bool kDense>
__device__ __forceinline__ void store_sum(const LearnArguments<T, kDense>& args,
                                          std::int64_t chunks, std::int64_t group,
                                          std::int64_t chunk, bool second, Compute<T> sum) {
  if (chunks > 1) {
    args.partials[second ? 1 : 0][group * chunks + chunk] = sum;
    return;
  }
  T* target = second ? args.dzero_point : args.dscale;
  if (target == nullptr) return;
  target[args.groups.offset(second ? 3 : 2, group)] =
      narrow<T>(args.empty ? Compute<T>(0) : qm::canonical(sum));
}

// dx and both terms of one element.
template <class T, Way kWay>
__device__ __forceinline__ Two<Compute<T>> learn_element(Compute<T> x, Compute<T> dy,
                                                         const Cell<T>& c,
                                                         const GridAttributes& grid,
                                                         Compute<T>& dx) {
  using C = Compute<T>;
  if constexpr (kWay == Way::careful || std::is_same_v<T, double>) {
    const C v = position<kWay>(x, c.scale, c.inverse, grid);
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
  } else {  // v is x's own position where it matters: in range
    const float v = clamped_position<kWay>(x, c);
    const float t = v + kRound - kRound;
    const bool inside = t >= c.lo && t <= c.hi;
    const float steps = fminf(fmaxf(t, c.lo), c.hi);
    dx = inside ? dy : 0.0f;
    return {qm::scale_term(dy, v, steps, inside), qm::zero_point_term(dy, c.scale, inside)};
  }
}

// Elements that go the careful way: NaN, and x whose quick quotient may be off. (Huge x is
// clamped.)
template <class T>
__device__ __forceinline__ bool is_delicate_pair(Compute<T> x, Compute<T> dy) {
  if constexpr (std::is_same_v<T, double>)
    return false;
  else
    return is_tiny<T>(x) || x != x || dy != dy;
}

template <class T, int R>
struct LearnedRun {
  RunPack<T, R> dx;
  Two<Compute<T>> terms[R];

  __device__ __forceinline__ Two<Compute<T>> sum() {
#pragma unroll
    for (int half = 1; half < R; half *= 2)
#pragma unroll
      for (int e = 0; e < R; e += 2 * half)
        terms[e] = AddTwo<Compute<T>>()(terms[e], terms[e + half]);
    return terms[0];
  }
};

// Stores dx of elements e and e + 1; of e alone where a run has one element.
template <class T, int R, bool kNan>
__device__ __forceinline__ void put_dx(RunPack<T, R>& p, int e, const Compute<T>* dx) {
  if constexpr (R > 1)
    put_floats<T, kNan>(p, e, dx[0], dx[1]);
  else if constexpr (sizeof(T) == 2)
    p.word[0] = narrow<T>(dx[0]).bits;
  else if constexpr (sizeof(T) == 4)
    p.word[0] = __float_as_uint(dx[0]);
  else
    p = {{static_cast<std::uint32_t>(__double2loint(dx[0])),
          static_cast<std::uint32_t>(__double2hiint(dx[0]))}};
}

// A run of R elements, cell_of(e) the group of element e.
template <Way kWay, class T, int R, class CellOf>
__device__ __forceinline__ void learn_quick(const RunPack<T, R>& x, const RunPack<T, R>& dy,
                                            const GridAttributes& grid, const CellOf& cell_of,
                                            LearnedRun<T, R>& run) {
#pragma unroll
  for (int e = 0; e < R; e += 2) {
    Compute<T> dx[2];
#pragma unroll
    for (int i = e; i < R && i < e + 2; ++i)
      run.terms[i] = learn_element<T, kWay>(element_of<T>(x, i), element_of<T>(dy, i), cell_of(i),
                                            grid, dx[i - e]);
    put_dx<T, R, false>(run.dx, e, dx);
  }
}

// A rolled loop over copies in local memory: for elements that are rare.
template <class T, int R, class CellOf>
__device__ __forceinline__ void learn_careful(const RunPack<T, R>& x, const RunPack<T, R>& dy,
                                              const GridAttributes& grid, const CellOf& cell_of,
                                              LearnedRun<T, R>& run) {
  using C = Compute<T>;
  C xs[R], dys[R], dxs[R];
  Two<C> terms[R];
#pragma unroll
  for (int e = 0; e < R; ++e) {
    xs[e] = element_of<T>(x, e);
    dys[e] = element_of<T>(dy, e);
  }
#pragma unroll 1
  for (int e = 0; e < R; ++e)
    terms[e] = learn_element<T, Way::careful>(xs[e], dys[e], cell_of(e), grid, dxs[e]);
#pragma unroll
  for (int e = 0; e < R; ++e) {
    run.terms[e] = terms[e];
    if (e % 2 == 0) put_dx<T, R, true>(run.dx, e, dxs + e);
  }
}

template <class T, int R>
__device__ __forceinline__ bool any_delicate(const RunPack<T, R>& x, const RunPack<T, R>& dy) {
  bool any = false;
#pragma unroll
  for (int e = 0; e < R; ++e) any |= is_delicate_pair<T>(element_of<T>(x, e), element_of<T>(dy, e));
  return any;
}

// A run that lies in one group.
template <class T, int R>
__device__ __forceinline__ void learn_run(const RunPack<T, R>& x, const RunPack<T, R>& dy,
                                          const Cell<T>& cell, const GridAttributes& grid,
                                          LearnedRun<T, R>& run) {
  const auto cell_of = [&](int) -> const auto& { return cell; };
  if (!cell.quick || any_delicate<T, R>(x, dy))
    learn_careful<T, R>(x, dy, grid, cell_of, run);
  else if (grid.reciprocal)
    learn_quick<Way::reciprocal, T, R>(x, dy, grid, cell_of, run);
  else
    learn_quick<Way::divide, T, R>(x, dy, grid, cell_of, run);
}

}  // namespace planck::quantize_device
