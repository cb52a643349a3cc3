// The largest row of each bag, column by column, and the entry that has it.
//
// A warp holds 32 columns of a bag; a bag that is long on average is shared by the warps of a
// block, each with a run of its entries. Which of two values is larger does not depend on the
// order, and of equal ones the first entry's wins.
#include "planck/loops/cuda/floats.cuh"
#include "planck/loops/table/cuda/add_rows.cuh"
#include "planck/loops/table/table.math.h"
#include "planck/ops/embedding/cuda/bags.cuh"

namespace planck::table_device {

namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;

template <class T>
struct Largest {
  Bags bags;
  const T* weight;
  std::int64_t weight_row, weight_column;
  T* out;
  std::int64_t out_row, out_column;
  std::int64_t* argmax;  // or null
  std::int64_t argmax_row, argmax_column;
  std::int64_t columns, tiles;
  int sharing;  // warps that share a bag: 1 or all of a block
};

template <class T>
struct Candidate {
  Compute<T> value = 0;
  std::int64_t entry = -1;  // none yet

  __device__ __forceinline__ void meet(Compute<T> v, std::int64_t later) {
    if (entry >= 0 && !table_math::exceeds(v, value)) return;
    value = v;
    entry = later;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) largest_rows(const __grid_constant__ Largest<T> a) {
  __shared__ Candidate<T> found[kWarps][32];
  follow();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t unit =
      a.sharing == 1 ? std::int64_t{blockIdx.x} * kWarps + warp : std::int64_t{blockIdx.x};
  const std::int64_t bag = unit / a.tiles, column = unit % a.tiles * 32 + lane;
  const bool any = bag < a.bags.bags;
  Candidate<T> best;
  if (any) {
    const std::int64_t begin = a.bags.starts[bag], end = a.bags.starts[bag + 1];
    const std::int64_t length = (end - begin + a.sharing - 1) / a.sharing;
    const std::int64_t from = begin + (a.sharing == 1 ? 0 : warp * length);
    constexpr int kAhead = 4;
    for (std::int64_t n = from; n < min(end, from + length); n += kAhead) {
      std::uint32_t rows[kAhead];
      Pack<sizeof(T)> packs[kAhead];
#pragma unroll
      for (int u = 0; u < kAhead; ++u) {
        bool bad;
        rows[u] = n + u < min(end, from + length) ? a.bags.keys(n + u, bad) : kNoKey;
      }
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (rows[u] != kNoKey && column < a.columns)
          packs[u] = load_pack<sizeof(T), false>(
              a.weight + rows[u] * a.weight_row + column * a.weight_column, 0);
#pragma unroll
      for (int u = 0; u < kAhead; ++u)
        if (rows[u] != kNoKey && column < a.columns) best.meet(element_of<T>(packs[u], 0), n + u);
    }
  }
  if (a.sharing > 1) {
    found[warp][lane] = best;
    __syncthreads();
    if (warp > 0) return;
    best = {};
    for (int w = 0; w < kWarps; ++w)
      if (found[w][lane].entry >= 0) best.meet(found[w][lane].value, found[w][lane].entry);
  }
  if (!any || column >= a.columns) return;
  store_pack<false>(a.out + bag * a.out_row + column * a.out_column, 0,
                    packed<T, sizeof(T)>(&best.value));
  if (a.argmax != nullptr) a.argmax[bag * a.argmax_row + column * a.argmax_column] = best.entry;
}

// Counts the indices outside the table, which building an index does for the other modes.
__global__ void __launch_bounds__(kThreads)
    count_bad(const __grid_constant__ Keys keys, std::int64_t count, unsigned long long* bad) {
  follow();
  std::uint32_t outside = 0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads) {
    bool wrong;
    (void)keys(i, wrong);
    outside += wrong;
  }
  outside = __reduce_add_sync(~0u, outside);
  if (threadIdx.x % 32 == 0 && outside > 0)
    atomicAdd(bad, static_cast<unsigned long long>(outside));
}

}  // namespace

Result<void> launch_largest(const Stream& stream, const EmbeddingProblem& p, const Bags& bags,
                            const View& weight, const View& out, const View& argmax) {
  constexpr const char* kName = "embedding_bag";
  if (bags.bad_indices != nullptr)
    if (auto ok = launch_next(stream, kName, count_bad,
                              std::min<std::int64_t>(ceil_div(p.count(), kThreads), 1024), kThreads,
                              bags.keys, p.count(), bags.bad_indices);
        !ok)
      return ok;
  return with_element(p.element_dtype, [&](auto element) {
    using T = decltype(element);
    Largest<T> a = {};
    a.bags = bags;
    a.weight = static_cast<const T*>(weight.data);
    a.weight_row = weight.strides[0];
    a.weight_column = weight.strides[1];
    a.out = static_cast<T*>(out.data);
    a.out_row = out.strides[0];
    a.out_column = out.strides[1];
    if (argmax.present) {
      a.argmax = static_cast<std::int64_t*>(argmax.data);
      a.argmax_row = argmax.strides[0];
      a.argmax_column = argmax.strides[1];
    }
    a.columns = p.dim;
    a.tiles = ceil_div(p.dim, 32);
    a.sharing = p.bags > 0 && p.count() / p.bags > 256 ? kWarps : 1;
    const std::int64_t units = p.bags * a.tiles;
    return launch_next(stream, kName, largest_rows<T>,
                       a.sharing == 1 ? ceil_div(units, kWarps) : units, kThreads, a);
  });
}

}  // namespace planck::table_device
