// The gradient of per-sample weights: for each entry the product of two rows, summed in the
// canonical pairwise order.
//
// One warp per entry. 32 products at a time become a sum over lanes, which one lane keeps; 32 of
// those become the next, and so on. Combining lanes 1, 2, 4, … apart is the pairwise tree, and −0
// stands for what is not there: x + −0 is x.
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/table/cuda/add_rows.cuh"
#include "planck/ops/embedding/cuda/bags.cuh"

namespace planck::table_device {

namespace {

constexpr int kThreads = 256;

template <class T>
struct WeightsGradient {
  Bags bags;
  const T *dout, *weight;
  T* dweights;
  std::int64_t dout_row, dout_column, weight_row, weight_column, stride, columns;
};

template <class C>
__device__ __forceinline__ C sum_of_lanes(C v) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) v += __shfl_xor_sync(~0u, v, step);
  return v;
}

template <class T>
__device__ __forceinline__ Compute<T> element_at(const T* p) {
  return element_of<T>(load_pack<sizeof(T), false>(p, 0), 0);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    weights_gradient(const __grid_constant__ WeightsGradient<T> a) {
  using C = Compute<T>;
  constexpr int kLevels = 6;  // 2^30 groups of 32
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t n = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32; n < a.bags.count;
       n += std::int64_t{gridDim.x} * (kThreads / 32)) {
    bool bad;
    const std::uint32_t row = a.bags.keys(n, bad), bag = a.bags.bag_of[n];
    C result = 0;
    if (row != kNoKey && bag != kNoKey && a.columns > 0) {
      const T* x = a.dout + bag * a.dout_row;
      const T* y = a.weight + row * a.weight_row;
      C kept[kLevels];
#pragma unroll
      for (int l = 0; l < kLevels; ++l) kept[l] = C(-0.0);
      const std::int64_t groups = (a.columns + 31) / 32;
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t d = g * 32 + lane;
        C v = C(-0.0);
        if (d < a.columns)
          v = element_at(x + d * a.dout_column) * element_at(y + d * a.weight_column);
        v = sum_of_lanes(v);
        // Lane g % 32 keeps it; a full set of 32 goes up, and so do all at the end.
        std::int64_t place = g;
        const bool last = g + 1 == groups;
#pragma unroll
        for (int l = 0; l < kLevels; ++l) {
          if (lane == place % 32) kept[l] = v;
          if (place % 32 != 31 && !last) break;
          v = sum_of_lanes(kept[l]);
          kept[l] = C(-0.0);
          place /= 32;
        }
        result = v;
      }
    }
    if (lane == 0) {
      result = canonical_nan(result);
      store_pack<false>(a.dweights + n * a.stride, 0, packed<T, sizeof(T)>(&result));
    }
  }
}

}  // namespace

Result<void> launch_weights_gradient(const Stream& stream, const EmbeddingProblem& p,
                                     const Bags& bags, const View& dout, const View& weight,
                                     const View& dweights) {
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    WeightsGradient<T> a = {};
    a.bags = bags;
    a.dout = static_cast<const T*>(dout.data);
    a.weight = static_cast<const T*>(weight.data);
    a.dweights = static_cast<T*>(dweights.data);
    a.dout_row = dout.strides[0];
    a.dout_column = dout.strides[1];
    a.weight_row = weight.strides[0];
    a.weight_column = weight.strides[1];
    a.stride = dweights.strides[0];
    a.columns = p.dim;
    return launch_next(stream, "embedding_bag_backward", weights_gradient<T>,
                       std::min<std::int64_t>(ceil_div(p.count(), kThreads / 32), 1 << 16),
                       kThreads, a);
  });
}

}  // namespace planck::table_device
