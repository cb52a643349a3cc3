// Operands as the kernels see them: a pointer, strides, and the geometry of a problem.
//
// I is int32 where every extent is below 2^30 and no offset within an image reaches 2^31, else
// int64. Offsets from image to image are always int64.
#pragma once

#include <cuda_runtime.h>

#include <string>

#include "planck/core/cuda/architectures.h"
#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/ops/grid_sample/cuda/elements.cuh"
#include "planck/ops/grid_sample/grid_sample.problem.h"

namespace planck::sample_device {

// [N, C, D, H, W]
template <class T, class I>
struct Image {
  T* data;
  std::int64_t n;
  I c, z, y, x;
};

// [N, OD, OH, OW, dims]
template <class T>
struct Grid {
  T* data;
  std::int64_t n, z, y, x, k;
};

template <class C, class I>
struct Frame {
  std::int64_t batch, channels;
  std::int64_t points;     // of one image
  std::int64_t out[3];     // depth, height, width
  gm::Axis<C, I> axis[3];  // x, y, z
  Divisor width, height;   // of the output; where points < 2^31
};

inline bool short_span(const View& v) {
  if (!v.present) return true;
  std::int64_t span = 0;
  for (int d = 1; d < v.shape.rank(); ++d) {
    if (v.shape[d] >= (std::int64_t{1} << 30)) return false;
    const std::int64_t s = v.strides[d] < 0 ? -v.strides[d] : v.strides[d];
    if (s >= (std::int64_t{1} << 31)) return v.shape[d] <= 1;
    span += s * (v.shape[d] > 0 ? v.shape[d] - 1 : 0);
    if (span >= (std::int64_t{1} << 31)) return false;
  }
  return true;
}

template <class T, class I>
Image<T, I> image_of(const View& v) {
  if (!v.present) return {nullptr, 0, 0, 0, 0, 0};
  const int r = v.shape.rank();
  const auto step = [&](int d) { return v.shape[d] > 1 ? static_cast<I>(v.strides[d]) : I(0); };
  return {static_cast<T*>(v.data), v.strides[0], step(1),
          r == 5 ? step(2) : I(0), step(r - 2),  step(r - 1)};
}

template <class T>
Grid<T> grid_of(const View& v) {
  if (!v.present) return {nullptr, 0, 0, 0, 0, 0};
  const int r = v.shape.rank();
  return {static_cast<T*>(v.data), v.strides[0],     r == 5 ? v.strides[1] : 0,
          v.strides[r - 3],        v.strides[r - 2], v.strides[r - 1]};
}

template <class C, class I>
Frame<C, I> frame_of(const GridSampleProblem& p) {
  const SampleGeometry g = p.geometry();
  Frame<C, I> f;
  f.batch = g.batch;
  f.channels = g.channels;
  f.points = g.points();
  for (int d = 0; d < 3; ++d) {
    f.out[d] = g.out[d];
    f.axis[d] = gm::make_axis<C, I>(static_cast<I>(g.in[2 - d]), p.padding, p.align_corners);
  }
  if (f.points > 0 && f.points < kDivisorLimit) {
    f.width = Divisor(static_cast<std::uint32_t>(g.out[2]));
    f.height = Divisor(static_cast<std::uint32_t>(g.out[1]));
  }
  return f;
}

inline std::int64_t numel_of(const Shape& shape, int from, int to) {
  std::int64_t n = 1;
  for (int d = from; d <= to; ++d) n *= shape[d];
  return n;
}

// Taps, with what is known of the padding put to use: the code of the other paddings is left out.
template <bool kZeros, class C, class I>
__device__ __forceinline__ gm::LinearTaps<C, I> taps_of(C g, gm::Axis<C, I> axis) {
  if constexpr (kZeros) axis.padding = SamplePadding::zeros;
  return gm::linear_taps(g, axis);
}

struct OutputAt {
  std::int64_t z, y, x;
};

// Output position p of an image.
template <int kDims, class C, class I>
__device__ __forceinline__ OutputAt output_at(const Frame<C, I>& f, std::int64_t p) {
  if (f.points < kDivisorLimit) {
    const auto u = static_cast<std::uint32_t>(p);
    const std::uint32_t row = f.width.quotient(u);
    const std::uint32_t z = kDims == 3 ? f.height.quotient(row) : 0;
    return {z, row - z * f.height.value, u - row * f.width.value};
  }
  const std::int64_t row = p / f.out[2];
  const std::int64_t z = kDims == 3 ? row / f.out[1] : 0;
  return {z, row - z * f.out[1], p - row * f.out[2]};
}

// The coordinates of a point: x, y, z.
template <int kDims, class T>
__device__ __forceinline__ void coordinates(const Grid<const T>& g, std::int64_t n,
                                            const OutputAt& at, Compute<T> (&out)[3]) {
  const T* p = g.data + n * g.n + at.z * g.z + at.y * g.y + at.x * g.x;
  if constexpr (kDims == 2) {
    if (g.k == 1 && reinterpret_cast<std::uintptr_t>(p) % (2 * sizeof(T)) == 0) {
      const auto pair = *reinterpret_cast<const Vector<T, 2>*>(p);
      out[0] = widen(pair.v[0]);
      out[1] = widen(pair.v[1]);
      return;
    }
  }
#pragma unroll
  for (int k = 0; k < kDims; ++k) out[k] = load(p + k * g.k);
}

template <class T, class I>
__device__ __forceinline__ std::int64_t offset_in(const Image<T, I>& v, std::int64_t n,
                                                  const OutputAt& at) {
  return n * v.n + at.z * static_cast<std::int64_t>(v.z) + at.y * static_cast<std::int64_t>(v.y) +
         at.x * static_cast<std::int64_t>(v.x);
}

// Whether consecutive output positions are one stride apart, from row to row as well.
inline bool positions_joined(const View& v, bool is_grid) {
  if (!v.present) return true;
  const int first = is_grid ? 1 : 2, last = v.shape.rank() - (is_grid ? 2 : 1);
  for (int d = first; d < last; ++d)
    if (v.shape[d] > 1 && v.strides[d] != v.strides[last] * numel_of(v.shape, d + 1, last))
      return false;
  return true;
}

// Neighbours of the grid, as one kernel has counted them for those after it: how many were looked
// at (high word), and how many of them read far apart (low word).
using Neighbours = unsigned long long;

// Scattered where a quarter of the neighbours read far apart.
__device__ __forceinline__ bool is_scattered(Neighbours n) {
  return (n & 0xffffffffu) * 4 > n >> 32;
}

// Kernels that are chosen on the device: null, or what to decide by.
template <class Call>
__device__ __forceinline__ bool is_not_meant(const Call& a) {
  return a.neighbours != nullptr && is_scattered(*a.neighbours) != a.when_scattered;
}

// The first thing that a kernel does which may be launched to follow another one.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// From here on, the kernel after this one may start, as far as there is room for it.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Options of a launch.
struct LaunchDetails {
  std::size_t shared = 0;  // bytes of dynamic shared memory
  // Starts while the kernel before it ends, and waits for it: wait_for_previous().
  bool follows = false;
  int carveout = -1;  // percentage of the first-level cache for shared memory; −1: the driver's

  LaunchDetails(std::size_t bytes = 0, bool after = false, int percentage = -1)
      : shared(bytes), follows(after), carveout(percentage) {}
};

// Queues one kernel with up to three grid dimensions. Kernels stride over y and z where there are
// more than a grid holds.
template <class... P, class... A>
Result<void> launch_grid(const Stream& stream, const char* name, void (*kernel)(P...),
                         std::int64_t x, std::int64_t y, std::int64_t z, int threads,
                         const LaunchDetails& details, const A&... arguments) {
  if (x <= 0 || y <= 0 || z <= 0) return {};
  if (x > INT32_MAX)
    return fail(ErrorCode::device,
                std::string(name) + ": " + std::to_string(x) + " blocks exceed a grid");
  constexpr std::int64_t kMost = 65535;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(x), static_cast<unsigned>(y < kMost ? y : kMost),
                        static_cast<unsigned>(z < kMost ? z : kMost));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = details.shared;
  config.stream = native(stream);
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (details.follows && cuda::code_of(stream.device().ordinal) >= 90) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    a.val.programmaticStreamSerializationAllowed = 1;
  }
  if (details.carveout >= 0) {
    cudaLaunchAttribute& a = attributes[config.numAttrs++];
    a.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    a.val.sharedMemCarveout = static_cast<unsigned>(details.carveout);
  }
  if (details.shared > 48 * 1024) {
    const cudaError_t status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(details.shared));
    if (status != cudaSuccess) return cuda_result(status, name);
  }
  return cuda_result(cudaLaunchKernelEx(&config, kernel, P(arguments)...), name);
}

}  // namespace planck::sample_device
