// Cpu and Cuda: one backend over the plans (planned.h). Work goes to the stream of the first input;
// inputs on different devices are an error.
#pragma once

#include "planck/backend/planned.h"
#include "planck/backend/quantized.h"
#include "planck/backend/tensor.h"
#include "planck/core/with_cuda.h"

namespace planck {

namespace backend_detail {
std::size_t device_count(DeviceKind kind);
Rng& generator(Device device);        // of this thread
void wait_for(const Stream& stream);  // throws what was found in its work
}  // namespace backend_detail

template <DeviceKind D>
class DeviceBackend {
 public:
  using Device = Stream;  // a place to run
  using FloatElem = float;
  using IntElem = std::int64_t;
  using FloatTensor = Primitive<FloatKind>;
  using IntTensor = Primitive<IntKind>;
  using BoolTensor = Primitive<BoolKind>;
  using QuantizedTensor = Quantized<DeviceBackend>;

  template <class Op>
  static constexpr bool applies = ViewOp<Op> || AssemblyOp<Op> || PlanOp<Op> || ComputedOp<Op>;

  static Stream default_device() {
    static const Stream stream = backend_detail::shared_stream({D, 0});
    return stream;
  }
  static std::size_t device_count() { return backend_detail::device_count(D); }
  static std::string name(const Stream& stream) { return to_string(stream.device()); }
  static std::span<const Dtype> dtypes(const Stream&) { return kAllDtypes; }
  static Rng& generator(const Stream& stream) { return backend_detail::generator(stream.device()); }
  static void seed(const Stream& stream, std::uint64_t seed) { generator(stream) = {.seed = seed}; }
  static void synchronize(const Stream& stream) { backend_detail::wait_for(stream); }

  template <class K>
  static const Stream& device(const Primitive<K>& t) {
    return t.stream();
  }
  template <class K>
  static Dtype dtype(const Primitive<K>& t) {
    return t.dtype();
  }
  template <class K>
  static const Shape& shape(const Primitive<K>& t) {
    return t.shape();
  }

  // Row-major elements from and to the host; to_host returns when they are there.
  template <class K>
  static Primitive<K> from_host(const Stream& stream, Dtype dtype, const Shape& shape,
                                const void* data) {
    return {backend_detail::from_host(stream, dtype, shape, data)};
  }
  template <class K>
  static void to_host(const Primitive<K>& t, void* data) {
    backend_detail::to_host(t, data);
  }

  // Memory of someone else, which `owner` keeps alive; on the stream's device, read alone.
  template <class K>
  static Primitive<K> borrow(const Stream& stream, const View& view,
                             std::shared_ptr<const void> owner) {
    return {backend_detail::borrow(stream, view, std::move(owner))};
  }

  // An op without inputs.
  template <class Op>
  static auto create(const Op& op, const Stream& stream) {
    return Planned<Op>::create(op, stream);
  }

  template <class Op, class... In>
  static auto apply(const Op& op, In&&... in) {
    return apply_handed(op, handed_over<In...>(), in...);
  }
  template <class Op, class First, class... Rest>
  static Given<DeviceBackend, Op, KindOf<First>> apply_handed(const Op& op, unsigned handed,
                                                              const First& first,
                                                              const Rest&... rest) {
    if constexpr (ComputedOp<Op>)
      return primitives_of(op.compute(Tensor<DeviceBackend, KindOf<First>>(first),
                                      Tensor<DeviceBackend, KindOf<Rest>>(rest)...));
    else
      return Planned<Op, KindOf<First>, KindOf<Rest>...>::apply(op, handed, first, rest...);
  }
};

using Cpu = DeviceBackend<DeviceKind::cpu>;
using Cuda = DeviceBackend<DeviceKind::cuda>;

// Calls f(std::type_identity<B>{}) for every backend that has a device on this machine.
template <class F>
void for_each_backend(F&& f) {
  f(std::type_identity<Cpu>{});
  PLANCK_IF_CUDA(if (Stream::on({DeviceKind::cuda, 0})) f(std::type_identity<Cuda>{});)
}

// f(std::type_identity<B>{}) of the backend whose device the stream is of. Without CUDA there is no
// other than Cpu, and nothing is compiled for one.
template <class F>
decltype(auto) with_backend_of(const Stream& stream, F&& f) {
  PLANCK_IF_CUDA(
      if (stream.device().kind == DeviceKind::cuda) return f(std::type_identity<Cuda>{});)
  static_cast<void>(stream);
  return f(std::type_identity<Cpu>{});
}

}  // namespace planck
