// What a reduction does with an element, and where its results go, on the device.
#pragma once

#include "planck/loops/rows/cpu/reduce.h"
#include "planck/loops/rows/cuda/axis_map.cuh"
#include "planck/loops/rows/cuda/exponentials.cuh"
#include "planck/loops/rows/cuda/joins.cuh"
#include "planck/ops/reduce/host/finish.h"

namespace planck::reduce_device {

// Joins results that carry an index.
struct Better {
  template <class A>
  __device__ static A nothing() {
    return {rm::kLeastKey<decltype(A::key)>, INT64_MAX};
  }
  template <class A>
  __device__ static A of(const A& a, const A& b) {
    return rm::better(a, b);
  }
};

// T: the tensor's element. kJoined: the input is results of an earlier round.
template <class T, class J, Lift kLift, bool kJoined>
struct Fold {
  using C = Value<T>;
  using K = rm::KeyOf<C>;
  static constexpr bool kFinds = kLift == Lift::index_key;
  static constexpr bool kSearches = kFinds && !kJoined;  // among elements
  using A = std::conditional_t<kFinds, rm::Found<K>, std::conditional_t<kLift == Lift::key, K, C>>;
  using Stored = std::conditional_t<kJoined, A, T>;
  using Result = std::conditional_t<kFinds, std::int64_t, T>;
  using Join = J;
  // Elements of a run: 16 bytes, or 8 elements of a byte.
  static constexpr int kRun = sizeof(Stored) == 1 ? 8 : 16 / static_cast<int>(sizeof(Stored));
  static constexpr int kRunBytes = kRun * static_cast<int>(sizeof(Stored));

  __device__ static A lift(const Value<Stored>& x, K flip, std::int64_t index) {
    if constexpr (kJoined)
      return x;
    else if constexpr (kFinds)
      return {rm::index_key_of(oriented(x, flip), K(0)), index};
    else if constexpr (kLift == Lift::key)
      return rm::key_of(x, flip);
    else
      return x;
  }
  __device__ static A nothing() { return J::template nothing<A>(); }

  // The first of n > 0 consecutive elements that no other exceeds; index: of x[0]. Floats are
  // compared as they are, which takes half as long as making keys of all.
  template <int kCount>
  __device__ static A best_of(const C (&x)[kCount], int n, K flip, std::int64_t index) {
    C best = oriented(x[0], flip);
    int at = 0;
#pragma unroll
    for (int k = 1; k < kCount; ++k) {
      const C v = oriented(x[k], flip);
      if (k < n && rm::takes_over<true>(v, best)) {
        best = v;
        at = k;
      }
    }
    return {rm::index_key_of(best, K(0)), index + at};
  }

  // No order of joining changes the result: a thread may join what it sees as it goes.
  static constexpr bool kAnyOrder = kLift == Lift::key || kFinds;
  // Joins what comes later.
  __device__ static A then(const A& a, const A& b) {
    if constexpr (kSearches)
      return b.key > a.key || a.index > b.index ? b : a;  // a later index: nothing has been seen
    else
      return J::template of<A>(a, b);
  }

  // Negative where the smallest is looked for; integers turned around.
  __device__ static C oriented(C x, K flip) {
    if constexpr (std::is_floating_point_v<C>)
      return rm::from_bits(rm::bits_of(x) ^ (flip & rm::kLeastKey<K>));
    else
      return x ^ flip;
  }
};

// What a thread has seen of elements that may be joined in any order, each after those before it.
template <class F>
struct Seen {
  using C = typename F::C;
  using A = typename F::A;
  static constexpr bool kFloats = std::is_same_v<C, float> && std::is_same_v<A, typename F::K> &&
                                  !std::is_same_v<typename F::Stored, A>;
  using Best = std::conditional_t<F::kSearches || kFloats, C, A>;
  Best best = least();
  int at = 0;  // the first, which the least leaves where it is

  __device__ __forceinline__ void take(const Value<typename F::Stored>& x, int place,
                                       typename F::K flip) {
    if constexpr (F::kSearches) {
      const C v = F::oriented(x, flip);
      if (rm::takes_over<true>(v, best)) {
        best = v;
        at = place;
      }
    } else if constexpr (kFloats) {
      best = row_device::larger(best, F::oriented(x, flip));
    } else {
      best = F::Join::template of<A>(best, F::lift(x, flip, 0));
    }
  }
  // What was seen later, of which place 0 is `place` here.
  __device__ __forceinline__ void join(const Seen& later, int place) {
    if (!rm::takes_over<true>(later.best, best)) return;
    best = later.best;
    at = place + later.at;
  }
  // first: the index of place 0; any: whether anything was seen.
  __device__ __forceinline__ A result(std::int64_t first, bool any) const {
    if (!any) return F::nothing();
    if constexpr (F::kSearches)
      return {rm::index_key_of(best, typename F::K(0)), first + at};
    else if constexpr (kFloats)
      return rm::key_of(best, typename F::K(0));
    else
      return best;
  }

 private:
  __device__ static Best least() {
    if constexpr (!F::kSearches && !kFloats)
      return F::nothing();
    else if constexpr (std::is_floating_point_v<C>)
      return -math::infinity_of(C(0));
    else
      return rm::kLeastKey<C>;
  }
};

template <class F>
struct FoldSink {
  typename F::Result* out = nullptr;
  typename F::A* partials = nullptr;  // not null: the results of chunks
  AxisMap out_map;
  rm::Finish<typename F::C> finish;

  __device__ __forceinline__ void put(std::int64_t group, std::int64_t partial,
                                      const typename F::A& value) const {
    using C = typename F::C;
    if (partials != nullptr) {
      partials[partial] = value;
      return;
    }
    if constexpr (F::kFinds) {
      out[out_map.offset(group)] = value.index;
    } else if constexpr (!std::is_same_v<typename F::A, C> || !std::is_floating_point_v<C>) {
      C result;
      if (finish.kind == ReduceKind::sum || finish.kind == ReduceKind::prod)
        result = static_cast<C>(value);
      else
        result = finish.of_key(value);
      out[out_map.offset(group)] = stored<typename F::Result>(result);
    } else {
      out[out_map.offset(group)] = stored<typename F::Result>(finish.of_sum(value, C(0)));
    }
  }
};

}  // namespace planck::reduce_device
