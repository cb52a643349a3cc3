// grid_sample_backward, "cuda:atomic": one thread per point, dinput by atomic additions. The order
// of additions, and with it the last bits, differs from run to run.
#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/ops/grid_sample/cuda/launchers.cuh"

namespace planck {

namespace {

namespace sd = sample_device;

constexpr int kChannels = 16;

template <class T>
struct AtomicCall {
  using I = std::int64_t;
  sd::Image<const T, I> dout;
  sd::Grid<const T> grid;
  sd::Image<T, I> dinput;
  sd::Frame<T, I> frame;
  std::int64_t pixels;
};

template <class T>
__global__ void __launch_bounds__(256) clear(const __grid_constant__ AtomicCall<T> a) {
  const std::int64_t p = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (p >= a.pixels) return;
  const std::int64_t width = a.frame.axis[0].size, height = a.frame.axis[1].size;
  const std::int64_t row = p / width, x = p - row * width, z = row / height, y = row - z * height;
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z)
    for (std::int64_t c = blockIdx.y; c < a.frame.channels; c += gridDim.y)
      a.dinput.data[n * a.dinput.n + c * a.dinput.c + z * a.dinput.z + y * a.dinput.y +
                    x * a.dinput.x] = T(0);
}

template <int kDims, class T, class I>
__device__ __forceinline__ void scatter(const sd::LinearPoint<kDims, T, I>& p, T* to, T d) {
#pragma unroll
  for (int k = 0; k < (1 << kDims); ++k) {
    I at = p.offset + (k & 1 ? p.step[0] : 0) + (k & 2 ? p.step[1] : 0);
    if constexpr (kDims == 3) at += k & 4 ? p.step[2] : 0;
    if (p.inside >> k & 1) atomicAdd(to + at, p.weight(k) * d);
  }
}
template <int kDims, class T, class I>
__device__ __forceinline__ void scatter(const sd::NearestPoint<kDims, T, I>& p, T* to, T d) {
  if (p.inside) atomicAdd(to + p.offset, d);
}
template <class T, class I>
__device__ __forceinline__ void scatter(const sd::CubicPoint<T, I>& p, T* to, T d) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (!(p.outside >> (4 + i) & 1) && !(p.outside >> j & 1))
        atomicAdd(to + p.y[i] + p.x[j], (p.wx[j] * p.wy[i]) * d);
}

template <class T, SampleMode kMode, int kDims>
__global__ void __launch_bounds__(256) add_points(const __grid_constant__ AtomicCall<T> a) {
  using Point = typename sd::PointOf<kMode, kDims, T, std::int64_t>::type;
  const std::int64_t i = std::int64_t{blockIdx.x} * 256 + threadIdx.x;
  if (i >= a.frame.points) return;
  const sd::OutputAt at = sd::output_at<kDims>(a.frame, i);
  for (std::int64_t n = blockIdx.z; n < a.frame.batch; n += gridDim.z) {
    T g[3];
    sd::coordinates<kDims>(a.grid, n, at, g);
    Point point(g, a.frame);
    point.prepare(a.dinput);
    for (std::int64_t c0 = std::int64_t{blockIdx.y} * kChannels; c0 < a.frame.channels;
         c0 += std::int64_t{gridDim.y} * kChannels) {
      const std::int64_t end = min(a.frame.channels, c0 + kChannels);
      for (std::int64_t c = c0; c < end; ++c)
        scatter(point, a.dinput.data + n * a.dinput.n + c * a.dinput.c,
                a.dout.data[sd::offset_in(a.dout, n, at) + c * a.dout.c]);
    }
  }
}

template <class T>
Result<void> atomic_backward(const Stream& stream, const GridSampleProblem& p, const Operands& o) {
  using B = sample_operand::Backward;
  const SampleGeometry g = p.geometry();
  if (o[B::dinput].present) {
    const AtomicCall<T> a = {
        sd::image_of<const T, std::int64_t>(o[B::dout]), sd::grid_of<const T>(o[B::grid]),
        sd::image_of<T, std::int64_t>(o[B::dinput]), sd::frame_of<T, std::int64_t>(p), g.pixels()};
    if (!p.accumulate)
      if (auto ok = sd::launch_grid(stream, "grid_sample_backward clear", clear<T>,
                                    ceil_div(g.pixels(), 256), g.channels, g.batch, 256, 0, a);
          !ok)
        return ok;
    const auto added = sd::visit_mode(p, [&](auto mode, auto dims) {
      return sd::launch_grid(stream, "grid_sample_backward atomic",
                             add_points<T, decltype(mode)::value, decltype(dims)::value>,
                             ceil_div(g.points(), 256), ceil_div(g.channels, kChannels), g.batch,
                             256, 0, a);
    });
    if (!added) return added;
  }
  return o[B::dgrid].present ? sd::launch_dgrid<T>(stream, p, o) : Result<void>{};
}

}  // namespace

Result<void> grid_sample_backward_atomic_cuda(const Stream& stream, Workspace,
                                              const GridSampleProblem& p, const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  return p.dtype == Dtype::f64 ? atomic_backward<double>(stream, p, o)
                               : atomic_backward<float>(stream, p, o);
}

}  // namespace planck
