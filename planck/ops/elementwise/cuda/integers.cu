// Integers, booleans and bits of the elementwise family.
#include "planck/ops/elementwise/cuda/functions.cuh"
#include "planck/ops/elementwise/cuda/kernels.h"

namespace planck::elementwise_device {

namespace {

template <class U>
struct Where {
  using A = std::uint8_t;
  using B = U;
  using C = U;
  using Out = U;
  __device__ __forceinline__ U operator()(std::uint8_t condition, U a, U b) const {
    return condition != 0 ? a : b;
  }
};
template <class U>
struct MaskFill {
  using A = U;
  using B = std::uint8_t;
  using C = None;
  using Out = U;
  U value;
  __device__ __forceinline__ U operator()(U x, std::uint8_t mask, None) const {
    return mask != 0 ? value : x;
  }
};
template <class U>
struct Copy {
  using A = U;
  using B = None;
  using C = None;
  using Out = U;
  __device__ __forceinline__ U operator()(U x, None, None) const { return x; }
};
template <class U>
struct Fill {
  using A = None;
  using B = None;
  using C = None;
  using Out = U;
  U value;
  __device__ __forceinline__ U operator()(None, None, None) const { return value; }
};

template <class U>
Result<void> launch_words(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  switch (p.op) {
    case ElementwiseOp::where:
      return launch_map(stream, call, Where<U>{});
    case ElementwiseOp::mask_fill:
      return launch_map(stream, call, MaskFill<U>{static_cast<U>(scalar_bits(p))});
    case ElementwiseOp::fill:
      return launch_map(stream, call, Fill<U>{static_cast<U>(scalar_bits(p))});
    default:
      return launch_map(stream, call, Copy<U>{});
  }
}

}  // namespace

Result<void> launch_integers(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  switch (p.dtype) {
    case Dtype::i32:
      return launch_typed<std::int32_t, em::IntegerUnary, em::IntegerBinary>(stream, p, call);
    case Dtype::i64:
      return launch_typed<std::int64_t, em::IntegerUnary, em::IntegerBinary>(stream, p, call);
    default:
      return launch_typed<std::uint8_t, em::BooleanUnary, em::BooleanBinary>(stream, p, call);
  }
}

Result<void> launch_bits(const Stream& stream, const ElementwiseProblem& p, const Call& call) {
  switch (storage_bytes(p.dtype)) {
    case 1:
      return launch_words<std::uint8_t>(stream, p, call);
    case 2:
      return launch_words<std::uint16_t>(stream, p, call);
    case 4:
      return launch_words<std::uint32_t>(stream, p, call);
    default:
      return launch_words<std::uint64_t>(stream, p, call);
  }
}

}  // namespace planck::elementwise_device
