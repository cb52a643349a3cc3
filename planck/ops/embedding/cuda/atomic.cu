// "cuda:atomic": the gradient of a table by float atomics, in whatever order they come.
//
// Only on request, by name. It needs no workspace; hot rows serialize, and two runs differ.
#include "planck/loops/cuda/division.cuh"
#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/table/cuda/add_rows.cuh"
#include "planck/ops/embedding/cuda/kernels.h"

namespace planck {

using namespace table_device;

namespace {

constexpr int kThreads = 256;

template <class T>
struct AddRows {
  Keys keys;
  const T* dout;
  FlatView rows;
  std::int64_t column_stride;
  T* dweight;
  std::int64_t weight_row, weight_column, count, columns;
  unsigned long long* bad;
};

__global__ void __launch_bounds__(kThreads)
    clear_table(const __grid_constant__ ClearRows clear, unsigned long long* bad) {
  if (bad != nullptr && blockIdx.x == 0 && threadIdx.x == 0) *bad = 0;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
       i < clear.pieces(); i += std::int64_t{gridDim.x} * (kThreads / 32))
    clear(i);
}

// One warp per entry.
template <class T>
__global__ void __launch_bounds__(kThreads) add_rows(const __grid_constant__ AddRows<T> a) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32; i < a.count;
       i += std::int64_t{gridDim.x} * (kThreads / 32)) {
    bool outside;
    const std::uint32_t key = a.keys(i, outside);
    if (outside && lane == 0 && a.bad != nullptr) atomicAdd(a.bad, 1ull);
    if (key == kNoKey) continue;
    const T* from = a.dout + a.rows(i);
    T* to = a.dweight + key * a.weight_row;
    for (std::int64_t d = lane; d < a.columns; d += 32)
      atomicAdd(to + d * a.weight_column, from[d * a.column_stride]);
  }
}

}  // namespace

Result<void> embedding_backward_atomic_cuda(const Stream& stream, Workspace,
                                            const EmbeddingProblem& p, const Operands& operands) {
  using O = table_operand::Backward;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const auto processors = multiprocessors(stream);
  if (!processors) return tl::unexpected(processors.error());
  const std::int64_t most = std::int64_t{*processors} * 8;
  const View &dout = operands[O::dout], &dweight = operands[O::dweight];
  ClearRows clear;
  if (!p.accumulate) clear = ClearRows::of(dweight, storage_bytes(p.element_dtype));
  unsigned long long* bad = counter_of(operands[O::bad_indices]);
  const std::int64_t warps = std::max<std::int64_t>(1, clear.pieces());
  if (auto ok = launch(stream, "embedding_backward", clear_table,
                       std::min(ceil_div(warps, kThreads / 32), most), kThreads, clear, bad);
      !ok)
    return ok;
  return with_element(p.element_dtype, [&](auto element) -> Result<void> {
    using T = decltype(element);
    if constexpr (sizeof(T) == 2) {
      return fail(ErrorCode::unsupported, "embedding_backward: cuda:atomic adds f32 and f64 alone");
    } else {
      const int axes = dout.shape.rank() - 1;
      AddRows<T> a = {};
      a.keys.indices = Integers::of(operands[O::indices]);
      a.keys.rows = p.num_embeddings;
      a.keys.padding = p.padding_idx;
      a.dout = static_cast<const T*>(dout.data);
      a.rows = FlatView::over(dout, axes);
      a.column_stride = dout.strides[axes];
      a.dweight = static_cast<T*>(dweight.data);
      a.weight_row = dweight.strides[0];
      a.weight_column = dweight.strides[1];
      a.count = p.count();
      a.columns = p.dim;
      a.bad = bad;
      return launch(stream, "embedding_backward", add_rows<T>,
                    std::min(ceil_div(p.count(), kThreads / 32), most), kThreads, a);
    }
  });
}

}  // namespace planck
