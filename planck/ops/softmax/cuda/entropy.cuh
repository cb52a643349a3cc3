// cross_entropy on the device: its target, and rows that are held in registers, or read for the
// largest element and again for the terms. Long dense rows are streamed (entropy_streamed.cuh).
#pragma once

#include "planck/loops/rows/cuda/held_rows.cuh"
#include "planck/math/exp_terms.h"
#include "planck/math/log.h"

namespace planck::row_device {

struct Targets {
  const void* data;
  std::int64_t stride, ignore;
  bool wide;
  __device__ __forceinline__ std::int64_t at(std::int64_t row) const {
    return wide ? static_cast<const std::int64_t*>(data)[row * stride]
                : static_cast<const std::int32_t*>(data)[row * stride];
  }
};

// loss or dloss: of the elements' type or of the compute type.
template <class T>
struct Losses {
  void* data;
  std::int64_t stride;
  bool wide;
  __device__ __forceinline__ void put(std::int64_t row, Compute<T> value) const {
    if (wide)
      static_cast<Compute<T>*>(data)[row * stride] = value;
    else
      static_cast<T*>(data)[row * stride] = stored<T>(value);
  }
  __device__ __forceinline__ Compute<T> at(std::int64_t row) const {
    return wide ? static_cast<const Compute<T>*>(data)[row * stride]
                : widen(static_cast<const T*>(data)[row * stride]);
  }
};

template <class T, RowWay kWay>
struct EntropyArguments {
  RowShape shape;
  OperandOf<const T, kWay> in[1];
  Targets targets;
  Losses<T> loss;
  Compute<T>* lse;
  std::int64_t lse_stride;
  int tiles;  // of a warp's share, a power of two, where rows are streamed

  template <RowWay kTo>
  EntropyArguments<T, kTo> as() const {
    return {shape, {in[0]}, targets, loss, lse, lse_stride, tiles};
  }
};

// The target's element, for one thread of a row: its index is prefetched before the row's elements
// are loaded, and nothing waits for it there.
template <class T>
struct TargetLogit {
  std::int32_t low = 0, high = 0;
  bool counts = false;
  Compute<T> logit = 0;

  template <class A>
  __device__ __forceinline__ void ask(const A& a, std::int64_t row) {
    const auto* at = static_cast<const std::int32_t*>(a.targets.data) +
                     row * a.targets.stride * (a.targets.wide ? 2 : 1);
    low = load_early(at);
    if (a.targets.wide) high = load_early(at + 1);
  }
  template <class A>
  __device__ __forceinline__ void find(const A& a, std::int64_t row) {
    const std::int64_t target =
        a.targets.wide ? static_cast<std::int64_t>(high) << 32 | static_cast<std::uint32_t>(low)
                       : low;
    counts = target != a.targets.ignore && target >= 0 && target < a.shape.length;
    if (!counts) return;
    const T* at = a.in[0].at(row, target);
    if constexpr (sizeof(T) == 2)
      logit = widen(T::from_bits(load_early(reinterpret_cast<const std::uint16_t*>(at))));
    else
      logit = load_early(at);
  }
  // sum: of e(x − center).
  template <class A, class C>
  __device__ __forceinline__ void finish(const A& a, std::int64_t row, C largest, C center,
                                         C sum) const {
    const C log_sum = math::log(sum / math::exp_term(largest - center));
    const C loss = counts ? (largest - logit) + log_sum : C(0);
    a.loss.put(row, canonical_nan(loss));
    a.lse[row * a.lse_stride] =
        canonical_nan(largest - largest == C(0) ? largest + log_sum : largest);
  }
};

// Rows that are held: the largest element is known before the first term.
template <class T, RowWay kWay>
__global__ void __launch_bounds__(1024) entropy_forward(const EntropyArguments<T, kWay> a) {
  using R = RowOf<T, 1, kWay>;
  using C = typename R::C;
  __shared__ C sums[kMostWarps];
  __shared__ typename R::K keys[kMostWarps];
  R row(a.shape, a.in);
  TargetLogit<T> target;
  if (row.leads()) target.ask(a, row.row);
  bool near;
  const C largest = row.largest(keys, near), center = math::center_of_terms(largest);
  if (row.leads()) target.find(a, row.row);
  const auto part = [&](const auto& term) {
    return row.part([&](const C(&x)[1], std::int64_t, int, int) { return term(x[0] - center); });
  };
  const C sum = row.joined(near && (largest >= C(0) || center != C(0))
                               ? part([](C z) { return term_near(z); })
                               : part([](C z) { return math::exp_term(z); }),
                           sums);
  if (row.leads()) target.finish(a, row.row, largest, center, sum);
}

}  // namespace planck::row_device
