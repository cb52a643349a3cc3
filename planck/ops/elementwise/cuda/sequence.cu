// arange and random numbers: a thread makes the numbers of one counter, for logical positions.
#include "planck/loops/cuda/random.cuh"
#include "planck/math/random.h"
#include "planck/ops/elementwise/cast.math.h"
#include "planck/ops/elementwise/cuda/functions.cuh"

namespace planck::elementwise_device {

namespace {

template <class T>
struct Random {
  using Made = T;
  static constexpr int kCount = RandomBlock<T>::kCount;
  ElementwiseOp op;
  em::Scalars<T> s;
  RandomPlace random;
  __device__ __forceinline__ void make(std::int64_t counter, T (&y)[kCount]) const {
    const Philox4 w = random.stream().words(static_cast<std::uint64_t>(counter));
    const bool normal = op == ElementwiseOp::random_normal;
    const RandomBlock<T> v = normal ? RandomBlock<T>::normal(w) : RandomBlock<T>::uniform(w);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (op == ElementwiseOp::random_bernoulli)
        y[k] = v.v[k] < s.a ? T(1) : T(0);
      else
        y[k] = math::canonical(s.a + v.v[k] * (normal ? s.b : s.b - s.a));
    }
  }
};

template <class T>
struct Arange {
  using Made = T;
  static constexpr int kCount = 4;
  em::Scalars<T> s;
  __device__ __forceinline__ void make(std::int64_t counter, T (&y)[kCount]) const {
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      y[k] = em::stored(em::plus(s.a, em::times(static_cast<T>(counter * kCount + k), s.b)));
  }
};

template <class Fn, class D>
__global__ void __launch_bounds__(kThreads)
    sequence_kernel(const __grid_constant__ Map m, const __grid_constant__ Fn fn) {
  const std::int64_t counter = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = counter * Fn::kCount;
  if (first >= m.count) return;
  typename Fn::Made made[Fn::kCount];
  fn.make(counter, made);
  D y[Fn::kCount];
#pragma unroll
  for (int k = 0; k < Fn::kCount; ++k) y[k] = em::cast_to<D>(made[k]);
  constexpr int kBytes = Fn::kCount * static_cast<int>(sizeof(D));
  D* base = static_cast<D*>(m.base[0]);
  if (m.tail == 0 && first + Fn::kCount <= m.count) {  // dense and aligned
    Pack<kBytes> p;
    __builtin_memcpy(&p, y, kBytes);
    store_pack<false>(base + first, 0, p);
    return;
  }
#pragma unroll
  for (int k = 0; k < Fn::kCount; ++k) {
    if (first + k >= m.count) return;
    std::int64_t at[kOperands];
    m.locate<1>(first + k, at);
    base[at[0]] = y[k];
  }
}

template <class D, class Fn>
Result<void> launch_one(const Stream& stream, const Map& map, const Fn& fn) {
  return launch(stream, "elementwise sequence", sequence_kernel<Fn, D>,
                ceil_div(ceil_div(map.count, Fn::kCount), kThreads), kThreads, map, fn);
}

template <class Fn>
Result<void> launch_as(const Stream& stream, const Map& map, Dtype dtype, const Fn& fn) {
  if constexpr (std::is_integral_v<typename Fn::Made>) {
    if (dtype == Dtype::i32) return launch_one<std::int32_t>(stream, map, fn);
    return launch_one<std::int64_t>(stream, map, fn);
  } else {
    switch (dtype) {
      case Dtype::f64:
        return launch_one<double>(stream, map, fn);
      case Dtype::f16:
        return launch_one<f16>(stream, map, fn);
      case Dtype::bf16:
        return launch_one<bf16>(stream, map, fn);
      case Dtype::boolean:
        return launch_one<bool>(stream, map, fn);
      default:
        return launch_one<float>(stream, map, fn);
    }
  }
}

}  // namespace

Result<void> launch_sequence(const Stream& stream, const ElementwiseProblem& p, const View& y) {
  NestStrides extent{}, stride{};
  for (int d = 0; d < p.shape.rank(); ++d) {
    extent[static_cast<std::size_t>(d)] = p.shape[d];
    stride[static_cast<std::size_t>(d)] = y.strides[d];
  }
  Call call{make_nest(p.shape.rank(), extent, {&stride, 1}), 0, {storage_bytes(y.dtype)}, {y.data}};
  collapse(call.nest);
  Map map = strided_map(call);
  const bool dense = call.nest.rank == 1 && call.nest.stride[0][0] == 1 &&
                     reinterpret_cast<std::uintptr_t>(y.data) % 16 == 0;
  map.tail = dense ? 0 : 1;
  if (p.op == ElementwiseOp::arange) {
    if (!is_float(p.dtype))
      return launch_as(stream, map, p.dtype, Arange<std::int64_t>{em::scalars_of<std::int64_t>(p)});
    return launch_as(stream, map, p.dtype, Arange<double>{em::scalars_of<double>(p)});
  }
  const auto place = random_place(stream, p.seed, p.offset);
  if (!place) return tl::unexpected(place.error());
  if (p.dtype == Dtype::f64)
    return launch_as(stream, map, p.dtype, Random<double>{p.op, em::scalars_of<double>(p), *place});
  return launch_as(stream, map, p.dtype, Random<float>{p.op, em::scalars_of<float>(p), *place});
}

}  // namespace planck::elementwise_device
