// affine_grid and its backward, "cuda:direct": one thread per position.
//
// Backward, a block sums 1,024 aligned positions as a tree; a second kernel merges the blocks of an
// image: together the canonical pairwise order.
#include "planck/math/pairwise_sum.h"
#include "planck/ops/grid_sample/cuda/kernels.h"
#include "planck/ops/grid_sample/cuda/views.cuh"

namespace planck {

namespace {

namespace sd = sample_device;

constexpr int kThreads = 256, kBlockPositions = 1024;

template <class T>
struct AffineCall {
  T* theta;                                                      // [N, dims, dims + 1]
  T* grid;                                                       // [N, …, dims]
  std::int64_t theta_stride[3], grid_n, grid_stride[3], grid_k;  // along depth, height, width
  std::int64_t batch, extent[3], positions, blocks;
  sd::Compute<T>* partial;  // [N, dims · (dims + 1), blocks]
  bool align;
};

template <class T, int kDims>
struct At {
  sd::Compute<T> coordinate[4];  // x, y, (z,) 1
  std::int64_t offset;           // of the grid's entry
};

template <class T, int kDims>
__device__ __forceinline__ At<T, kDims> at_position(const AffineCall<T>& a, std::int64_t p) {
  using C = sd::Compute<T>;
  namespace gm = grid_sample_math;
  std::int64_t x, y, z = 0;
  if (a.positions < (std::int64_t{1} << 31)) {
    const auto u = static_cast<std::uint32_t>(p), w = static_cast<std::uint32_t>(a.extent[2]);
    const std::uint32_t row = u / w, h = static_cast<std::uint32_t>(a.extent[1]);
    x = u - row * w;
    z = kDims == 3 ? row / h : 0;
    y = row - static_cast<std::uint32_t>(z) * h;
  } else {
    const std::int64_t row = p / a.extent[2];
    x = p - row * a.extent[2];
    z = kDims == 3 ? row / a.extent[1] : 0;
    y = row - z * a.extent[1];
  }
  At<T, kDims> at;
  at.coordinate[0] = gm::base_coordinate<C>(x, a.extent[2], a.align);
  at.coordinate[1] = gm::base_coordinate<C>(y, a.extent[1], a.align);
  if constexpr (kDims == 3) at.coordinate[2] = gm::base_coordinate<C>(z, a.extent[0], a.align);
  at.offset = z * a.grid_stride[0] + y * a.grid_stride[1] + x * a.grid_stride[2];
  return at;
}

template <class T, int kDims>
__global__ void __launch_bounds__(kThreads) forward(const __grid_constant__ AffineCall<T> a) {
  using C = sd::Compute<T>;
  const std::int64_t p = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (p >= a.positions) return;
  const At<T, kDims> at = at_position<T, kDims>(a, p);
  for (std::int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    T* to = a.grid + n * a.grid_n + at.offset;
#pragma unroll
    for (int i = 0; i < kDims; ++i) {
      C t[kDims + 1];
#pragma unroll
      for (int j = 0; j <= kDims; ++j)
        t[j] = sd::load(a.theta + n * a.theta_stride[0] + i * a.theta_stride[1] +
                        j * a.theta_stride[2]);
      C sum = t[0] * at.coordinate[0];
#pragma unroll
      for (int j = 1; j < kDims; ++j) sum = sum + t[j] * at.coordinate[j];
      to[i * a.grid_k] = sd::narrow<T>(sum + t[kDims]);
    }
  }
}

// The tree over values[0 … count) of a block, count <= 1,024: thread t has those at t, t + 256, ….
// The result is thread 0's.
template <class C>
__device__ C block_tree(C (&v)[kBlockPositions / kThreads], int count) {
  __shared__ C warps[kBlockPositions / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const auto tree = [&](C x, int have) {
#pragma unroll
    for (int d = 1; d < 32; d *= 2) {
      const C right = __shfl_down_sync(~0u, x, d);
      if (lane % (2 * d) == 0 && lane + d < have) x = x + right;
    }
    return x;
  };
#pragma unroll
  for (int k = 0; k < kBlockPositions / kThreads; ++k) {
    const int first = k * kThreads + warp * 32;
    const C sum = tree(v[k], count - first);
    if (lane == 0) warps[first / 32] = sum;
  }
  __syncthreads();
  const C all = tree(warps[lane], (count + 31) / 32);
  __syncthreads();
  return all;
}

template <class T, int kDims>
__global__ void __launch_bounds__(kThreads)
    backward_blocks(const __grid_constant__ AffineCall<T> a) {
  using C = sd::Compute<T>;
  constexpr int kEach = kBlockPositions / kThreads;
  const std::int64_t first = std::int64_t{blockIdx.x} * kBlockPositions;
  const int count =
      static_cast<int>(min(a.positions - first, static_cast<std::int64_t>(kBlockPositions)));
  for (std::int64_t n = blockIdx.z; n < a.batch; n += gridDim.z)
    for (int i = 0; i < kDims; ++i) {
      C d[kEach] = {};
      C at[kEach][kDims];
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int local = k * kThreads + static_cast<int>(threadIdx.x);
        if (local >= count) continue;
        const At<T, kDims> where = at_position<T, kDims>(a, first + local);
        d[k] = sd::load(a.grid + n * a.grid_n + where.offset + i * a.grid_k);
#pragma unroll
        for (int j = 0; j < kDims; ++j) at[k][j] = where.coordinate[j];
      }
#pragma unroll
      for (int j = 0; j <= kDims; ++j) {
        C term[kEach];
#pragma unroll
        for (int k = 0; k < kEach; ++k)
          term[k] = j < kDims ? d[k] * at[k][j < kDims ? j : 0] : d[k];
        const C sum = block_tree(term, count);
        if (threadIdx.x == 0)
          a.partial[(n * kDims * (kDims + 1) + i * (kDims + 1) + j) * a.blocks + blockIdx.x] = sum;
      }
    }
}

template <class T, int kDims>
__global__ void __launch_bounds__(kThreads)
    backward_images(const __grid_constant__ AffineCall<T> a) {
  using C = sd::Compute<T>;
  constexpr int kEach = kBlockPositions / kThreads, kEntries = kDims * (kDims + 1);
  const int entry = static_cast<int>(blockIdx.x);
  for (std::int64_t n = blockIdx.z; n < a.batch; n += gridDim.z) {
    PairwiseSum<C> total;
    for (std::int64_t first = 0; first < a.blocks; first += kBlockPositions) {
      const int count =
          static_cast<int>(min(a.blocks - first, static_cast<std::int64_t>(kBlockPositions)));
      C v[kEach] = {};
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int local = k * kThreads + static_cast<int>(threadIdx.x);
        if (local < count) v[k] = a.partial[(n * kEntries + entry) * a.blocks + first + local];
      }
      const C sum = block_tree(v, count);
      total.add(sum);
    }
    if (threadIdx.x == 0)
      a.theta[n * a.theta_stride[0] + entry / (kDims + 1) * a.theta_stride[1] +
              entry % (kDims + 1) * a.theta_stride[2]] = sd::narrow<T>(total.result());
  }
}

template <class T, int kDims>
Result<void> dispatch(const Stream& stream, Workspace workspace, const AffineGridProblem& p,
                      const Operands& o) {
  const View& theta = o[p.backward ? 1 : 0];
  const View& grid = o[p.backward ? 0 : 1];
  AffineCall<T> a = {};
  a.theta = static_cast<T*>(theta.data);
  a.grid = static_cast<T*>(grid.data);
  for (int d = 0; d < 3; ++d) {
    a.theta_stride[d] = theta.strides[d];
    a.extent[d] = d < 3 - kDims ? 1 : p.size[2 + d - (3 - kDims)];
    a.grid_stride[d] = d < 3 - kDims ? 0 : grid.strides[1 + d - (3 - kDims)];
  }
  a.grid_n = grid.strides[0];
  a.grid_k = grid.strides[kDims + 1];
  a.batch = p.size[0];
  a.positions = a.extent[0] * a.extent[1] * a.extent[2];
  a.blocks = ceil_div(a.positions, kBlockPositions);
  a.partial = static_cast<sd::Compute<T>*>(workspace.data);
  a.align = p.align_corners;
  if (!p.backward)
    return sd::launch_grid(stream, "affine_grid", forward<T, kDims>,
                           ceil_div(a.positions, kThreads), 1, a.batch, kThreads, 0, a);
  if (auto ok = sd::launch_grid(stream, "affine_grid_backward", backward_blocks<T, kDims>, a.blocks,
                                1, a.batch, kThreads, 0, a);
      !ok)
    return ok;
  return sd::launch_grid(stream, "affine_grid_backward merge", backward_images<T, kDims>,
                         kDims * (kDims + 1), 1, a.batch, kThreads, 0, a);
}

}  // namespace

Result<void> affine_grid_cuda(const Stream& stream, Workspace workspace, const AffineGridProblem& p,
                              const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  return visit_float(p.dtype, [&]<class T>(std::type_identity<T>) {
    return p.dims() == 3 ? dispatch<T, 3>(stream, workspace, p, o)
                         : dispatch<T, 2>(stream, workspace, p, o);
  });
}

}  // namespace planck
