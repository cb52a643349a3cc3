#include <cstring>

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/gemm/cuda/epilogue.cuh"

namespace planck::gemm_device {

namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) follow_elements(gemm::Geometry g, Following<T> f) {
  constexpr int kBytes = sizeof(T);
  const std::int64_t count = g.batches.count * g.m * g.n;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < count;
       at += std::int64_t{gridDim.x} * kThreads) {
    const std::int64_t j = at % g.n, i = at / g.n % g.m, t = at / g.n / g.m;
    T* const c = static_cast<T*>(g.c.data) + g.batches.offset(2, t) + i * g.c.row + j * g.c.column;
    Following<T> of_batch = f;
    of_batch.residual.data += of_batch.residual.data != nullptr ? g.batches.offset(3, t) : 0;
    const Compute<T> product = widen(*c);
    const auto v = of_batch.template applied<kBytes>(packed<T, kBytes>(&product), 0, i, j, 1);
    std::memcpy(c, v.word, kBytes);
  }
}

}  // namespace

template <class T>
Result<void> follow_in_place(const Stream& stream, const gemm::Geometry& given) {
  if (!given.epilogue.any()) return {};
  // Threads go along rows of C, which should be what lies side by side.
  const gemm::Geometry g = given.c.row == 1 && given.c.column != 1 ? given.transposed() : given;
  const std::int64_t blocks = ceil_div(g.batches.count * g.m * g.n, kThreads);
  return launch(stream, "matmul", follow_elements<T>,
                std::min<std::int64_t>(blocks, std::int64_t{1} << 20), kThreads, g,
                following<T>(g, 0, 0));
}
template Result<void> follow_in_place<float>(const Stream&, const gemm::Geometry&);
template Result<void> follow_in_place<double>(const Stream&, const gemm::Geometry&);
template Result<void> follow_in_place<f16>(const Stream&, const gemm::Geometry&);
template Result<void> follow_in_place<bf16>(const Stream&, const gemm::Geometry&);

}  // namespace planck::gemm_device
