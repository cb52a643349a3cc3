// Casts of the elementwise family: every pair of dtypes.
#include "planck/ops/elementwise/cast.math.h"
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

namespace {

// A bool is stored as a byte; any but 0 is true. 16-bit floats are rounded as they are stored, so
// that a wider source has to be rounded to their bits here.
template <class T>
using Byte = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
template <class T>
inline constexpr bool kHalf = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class S, class D>
struct Cast {
  using A = Byte<S>;
  using B = None;
  using C = None;
  using Out = std::conditional_t<kHalf<D>, std::uint16_t, Byte<D>>;
  __device__ __forceinline__ Out operator()(Value<A> x, None, None) const {
    if constexpr (kHalf<D>) {
      return converted(x).bits;
    } else {
      return static_cast<Out>(converted(x));
    }
  }
  __device__ __forceinline__ static D converted(Value<A> x) {
    if constexpr (std::is_same_v<S, bool>)
      return em::cast_to<D>(x != 0);
    else
      return em::cast_to<D>(x);
  }
};

template <class S, class... D>
Result<void> launch_from(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  Result<void> done;
  (void)((p.to == dtype_of<D> ? (done = launch_map(stream, call, Cast<S, D>{}), true) : false) ||
         ...);
  return done;
}
template <class... S>
Result<void> launch_any(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  Result<void> done;
  (void)((p.dtype == dtype_of<S> ? (done = launch_from<S, S...>(stream, p, call), true) : false) ||
         ...);
  return done;
}

}  // namespace

Result<void> launch_cast(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  return launch_any<double, float, f16, bf16, std::int64_t, std::int32_t, std::int8_t, std::uint8_t,
                    bool>(stream, p, call);
}

}  // namespace planck::elementwise_device
