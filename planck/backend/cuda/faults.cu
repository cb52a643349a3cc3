// Kernels of one block behind the op whose data they look at: they read a number and, nearly
// always, return.
#include "planck/backend/cuda/kernels.h"
#include "planck/loops/cuda/launch.cuh"

namespace planck::backend_detail {

namespace {

constexpr int kThreads = 256;

struct Indices {
  const void* data;
  std::int64_t count;
  std::int64_t shape[kMaxRank], strides[kMaxRank];
  int rank;
  bool narrow;  // i32

  __device__ std::int64_t operator[](std::int64_t n) const {
    std::int64_t at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += n % shape[d] * strides[d];
      n /= shape[d];
    }
    return narrow ? static_cast<const std::int32_t*>(data)[at]
                  : static_cast<const std::int64_t*>(data)[at];
  }
};
struct Check {
  Indices indices;
  std::int64_t id, extent, ignored;
  bool ignores, ends;

  // The least that is valid at n, if all before it are.
  __device__ std::int64_t least(std::int64_t n) const { return ends && n > 0 ? indices[n - 1] : 0; }
  __device__ bool is_bad(std::int64_t n) const {
    const std::int64_t v = indices[n];
    if (ignores && v == ignored) return false;
    return v < least(n) || v >= extent + (ends ? 1 : 0);
  }
};

// Whether nothing was found before: kernels of a graph may look at the same time.
__device__ bool is_first(std::int64_t id, Fault* fault) {
  return atomicCAS(reinterpret_cast<unsigned long long*>(&fault->id), 0ull,
                   static_cast<unsigned long long>(id)) == 0;
}

__global__ void __launch_bounds__(kThreads)
    find_bad_index(const __grid_constant__ Check check, const std::int64_t* count, Fault* fault) {
  const std::int64_t bad = *count;
  if (bad == 0 || fault->id != 0) return;
  constexpr unsigned long long kNone = ~0ull;
  __shared__ unsigned long long first;
  if (threadIdx.x == 0) first = kNone;
  __syncthreads();  // every thread has read fault, too
  for (std::int64_t n = threadIdx.x; n < check.indices.count; n += kThreads)
    if (check.is_bad(n)) {
      atomicMin(&first, static_cast<unsigned long long>(n));
      break;
    }
  __syncthreads();
  if (threadIdx.x != 0 || !is_first(check.id, fault)) return;
  fault->count = bad;
  fault->place = -1;
  if (first != kNone) {
    const auto n = static_cast<std::int64_t>(first);
    fault->place = n;
    fault->value = check.indices[n];
    fault->least = check.least(n);
  }
}

__global__ void find_not_finite(const void* number, bool wide, std::int64_t id, Fault* fault) {
  const double v = wide ? *static_cast<const double*>(number) : *static_cast<const float*>(number);
  if (isfinite(v) || !is_first(id, fault)) return;
  fault->number = v;
}

}  // namespace

Result<void> find_not_finite_cuda(const Stream& stream, std::int64_t id, const View& number,
                                  Fault* fault) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  return launch(stream, "find not finite", find_not_finite, 1, 1,
                static_cast<const void*>(number.data), number.dtype == Dtype::f64, id, fault);
}
Result<void> find_bad_index_cuda(const Stream& stream, const IndexCheck& c,
                                 const std::int64_t* count, Fault* fault) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  const View& v = c.indices;
  Check check{};
  check.indices.data = v.data;
  check.indices.count = numel(v.shape);
  check.indices.rank = v.shape.rank();
  check.indices.narrow = v.dtype == Dtype::i32;
  for (int d = 0; d < v.shape.rank(); ++d) {
    check.indices.shape[d] = v.shape[d];
    check.indices.strides[d] = v.strides[d];
  }
  check.id = c.id;
  check.extent = c.extent;
  check.ignored = c.ignored;
  check.ignores = c.ignores;
  check.ends = c.ends;
  return launch(stream, "find bad index", find_bad_index, 1, kThreads, check, count, fault);
}

}  // namespace planck::backend_detail
