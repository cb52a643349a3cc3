//   cuda:winners           scatter: the last item wins whatever the order of threads
//   cuda:integer_atomics   sums of integers, which do not depend on their order
//   cuda:sorted_rows       sums of floats, by the sorted index of loops/table
//
// scatter: each element of out learns the highest position of an item that names it (an atomic
// maximum in the workspace), then takes that item or x.
//
// Tried for scatter_add of 2^24 items to 2^24 elements, ms on one H200:  uniform   all to one
//   rows of one element in loops/table                                   1.69      1.46
//   the toolkit's radix sort of items alone, then a thread at the head
//   of every chunk                                                       1.67      1.81
#include "planck/loops/cuda/pack.cuh"
#include "planck/loops/table/kernels.h"
#include "planck/ops/index/cuda/kernels.h"
#include "planck/ops/index/cuda/move.cuh"
#include "planck/ops/index/host/sums.h"

namespace planck {

namespace index_device {

namespace {

// Operands index, and out's line in row-major order. The position on the axis comes with its own
// strides: 1 along the axis, else 0.
struct Mark {
  DeviceNest<3> nest;
  Indices index;
  std::int64_t extent, axis_stride;
  std::uint32_t* winners;
  unsigned long long* bad;
};

// Where the active lanes all want the same element, one claims it for all, and only if it would
// win: 2^24 items for one element took 12.4 ms one by one.
__device__ __forceinline__ void claim(std::uint32_t* winners, std::int64_t element,
                                      std::uint32_t position) {
  const unsigned active = __activemask();
  int same = 0;
  __match_all_sync(active, element, &same);
  if (same == 0) {
    atomicMax(winners + element, position);
    return;
  }
  const std::uint32_t last = __reduce_max_sync(active, position);
  if (position == last && __ldcg(winners + element) < last) atomicMax(winners + element, last);
}

// Calls f(at, the distance of the chosen element along the axis) for a thread's items; those whose
// index is bad are counted in a.bad.
template <class A, class F>
__device__ __forceinline__ void each_item(const A& a, const F& f) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
  int bad = 0;
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    if (p >= a.nest.total) break;
    std::int64_t at[3];
    a.nest.at(p, at);
    const std::int64_t chosen = a.index[at[0]];
    if (outside(chosen, a.extent))
      ++bad;
    else
      f(at, chosen * a.axis_stride);
  }
  count_bad(a.bad, bad);
}

__global__ void __launch_bounds__(kMoveThreads) mark_winners(const __grid_constant__ Mark a) {
  each_item(a, [&](const std::int64_t(&at)[3], std::int64_t chosen) {
    claim(a.winners, at[1] + chosen, static_cast<std::uint32_t>(at[2]) + 1);
  });
}

// Operands out, x, the source's line; over out in row-major order. Strides in bytes.
struct Take {
  DeviceNest<3> nest;
  const std::uint32_t* winners;
  const char *x, *source;
  char* out;
  std::int64_t axis_bytes;  // of the source
};

template <int kBytes>
__global__ void __launch_bounds__(kMoveThreads) take_winners(const __grid_constant__ Take a) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    if (p >= a.nest.total) break;
    std::int64_t at[3];
    a.nest.at(p, at);
    const std::uint32_t winner = a.winners[p];
    Pack<kBytes> value = {};
    if (winner != 0)
      value =
          load_pack<kBytes, true>(a.source + at[2] + (std::int64_t{winner} - 1) * a.axis_bytes, 0);
    else if (a.x != nullptr)
      value = load_pack<kBytes, true>(a.x + at[1], 0);
    store_pack<false>(a.out + at[0], 0, value);
  }
}

// Operands index, source, out's line.
struct Add {
  DeviceNest<3> nest;
  Indices index;
  std::int64_t extent, axis_stride;
  unsigned long long* bad;
};

template <class T>
__global__ void __launch_bounds__(kMoveThreads)
    add_integers(const __grid_constant__ Add a, const T* source, T* out) {
  each_item(a, [&](const std::int64_t(&at)[3], std::int64_t chosen) {
    atomicAdd(out + at[2] + chosen, source[at[1]]);
  });
}

// Operands index, the key's base; in the order of the source.
template <class K>
__global__ void __launch_bounds__(kMoveThreads)
    make_keys(const __grid_constant__ DeviceNest<2> nest, Indices index, std::int64_t extent,
              std::int64_t axis_stride, K* keys) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
  std::int64_t at[kMoveItems][2], chosen[kMoveItems];
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    nest.at(p < nest.total ? p : 0, at[k]);
    chosen[k] = index[at[k][0]];
  }
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    if (p < nest.total)
      keys[p] =
          outside(chosen[k], extent) ? K(-1) : static_cast<K>(at[k][1] + chosen[k] * axis_stride);
  }
}

Strides in_bytes(const Strides& strides, Dtype t) {
  Strides s;
  for (std::int64_t v : strides) s.push_back(v * static_cast<std::int64_t>(storage_bytes(t)));
  return s;
}

}  // namespace

}  // namespace index_device

using namespace index_device;
using index_detail::index_strides;
using index_detail::SumPlan;
using index_detail::without_axis;
using O = index_operand::Write;

Result<void> index_scatter_cuda(const Stream& stream, Workspace workspace, const IndexProblem& p,
                                const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &index = o[O::index], &source = o[O::source], &out = o[O::out];
  const auto bad = clear_counter(stream, o[O::bad_indices], "scatter");
  if (!bad) return tl::unexpected(bad.error());
  auto* winners = static_cast<std::uint32_t*>(workspace.data);
  if (numel(p.x) > 0)
    if (auto ok = cuda_result(
            cudaMemsetAsync(winners, 0, index_scatter_cuda_workspace(p), native(stream)),
            "scatter");
        !ok)
      return ok;
  const Strides of_out = row_major(p.x);
  Strides position = Extents::filled(p.x.rank(), 0);
  position[p.axis] = 1;
  if (numel(p.index) > 0) {
    Nest nest = nest_over(p.index, {index.strides, without_axis(of_out, p.axis), position});
    sort_by(nest, 0);
    collapse(nest);
    const Mark a = {DeviceNest<3>::of(nest), Indices(index), p.extent(),
                    of_out[p.axis],          winners,        *bad};
    if (auto ok =
            launch(stream, "scatter", mark_winners, move_blocks(a.nest.total), kMoveThreads, a);
        !ok)
      return ok;
  }
  if (numel(p.x) == 0) return {};
  const Strides of_x = p.with_x ? o[O::x].strides : out.strides;
  Nest nest =
      nest_over(p.x, {in_bytes(out.strides, p.element_dtype), in_bytes(of_x, p.element_dtype),
                      in_bytes(without_axis(source.strides, p.axis), p.element_dtype)});
  collapse(nest);
  const Take a = {
      DeviceNest<3>::of(nest),
      winners,
      p.with_x ? static_cast<const char*>(o[O::x].data) : nullptr,
      static_cast<const char*>(source.data),
      static_cast<char*>(out.data),
      source.strides[p.axis] * static_cast<std::int64_t>(storage_bytes(p.element_dtype))};
  return with_bytes(storage_bytes(p.element_dtype), [&]<int kBytes>() {
    if constexpr (kBytes <= 8)
      return launch(stream, "scatter", take_winners<kBytes>, move_blocks(a.nest.total),
                    kMoveThreads, a);
    else
      return Result<void>{};
  });
}

Result<void> index_integer_sums_cuda(const Stream& stream, Workspace, const IndexProblem& p,
                                     const Operands& o) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &index = o[O::index], &source = o[O::source], &out = o[O::out];
  const auto bad = clear_counter(stream, o[O::bad_indices], "scatter_add");
  if (!bad) return tl::unexpected(bad.error());
  if (p.by_slice())
    if (auto ok = index_device::count_list(stream, index, p.extent(), *bad); !ok) return ok;
  if (auto ok = index_device::copy_elements(stream, p.with_x ? o[O::x] : View{}, out); !ok)
    return ok;
  Nest nest = nest_over(
      p.items(), {index_strides(p, index), source.strides, without_axis(out.strides, p.axis)});
  if (nest.total() == 0) return {};
  sort_by(nest, 1);
  collapse(nest);
  const Add a = {DeviceNest<3>::of(nest), Indices(index), p.extent(), out.strides[p.axis],
                 p.by_slice() ? nullptr : *bad};
  const std::int64_t blocks = move_blocks(a.nest.total);
  if (storage_bytes(p.element_dtype) == 4)
    return launch(stream, "scatter_add", add_integers<unsigned>, blocks, kMoveThreads, a,
                  static_cast<const unsigned*>(source.data), static_cast<unsigned*>(out.data));
  using Wide = unsigned long long;
  return launch(stream, "scatter_add", add_integers<Wide>, blocks, kMoveThreads, a,
                static_cast<const Wide*>(source.data), static_cast<Wide*>(out.data));
}

Result<void> index_sums_cuda(const Stream& stream, Workspace workspace, const IndexProblem& p,
                             const Operands& o) {
  using B = table_operand::Backward;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const SumPlan plan(p, add_rows_cuda_workspace);
  SumPlan::Copies copied;
  const Operands e = plan.operands(p, o, workspace, copied);
  if (plan.makes_keys && p.by_slice()) {
    const auto bad = clear_counter(stream, o[O::bad_indices], "index_add");
    if (!bad) return tl::unexpected(bad.error());
    if (auto ok = index_device::count_list(stream, o[O::index], p.extent(), *bad); !ok) return ok;
  }
  if (plan.makes_keys && plan.embedding.count() > 0) {
    const SumPlan::Keys k = plan.key_nest(p, o[O::index]);
    Nest nest = nest_over(k.shape, {k.index, k.base});
    collapse(nest);
    const auto device = DeviceNest<2>::of(nest);
    const auto fill = [&](auto kernel, auto* keys) {
      return launch(stream, "scatter_add", kernel, move_blocks(device.total), kMoveThreads, device,
                    Indices(o[O::index]), p.extent(), k.axis_stride, keys);
    };
    void* keys = e[B::indices].data;
    auto ok = plan.key_dtype == Dtype::i32
                  ? fill(make_keys<std::int32_t>, static_cast<std::int32_t*>(keys))
                  : fill(make_keys<std::int64_t>, static_cast<std::int64_t*>(keys));
    if (!ok) return ok;
  }
  View target = o[O::out], source = o[O::source];
  if (copied.source) {
    source.data = e[B::dout].data;
    source.strides = row_major(source.shape);
    if (auto ok = index_device::copy_elements(stream, o[O::source], source); !ok) return ok;
  }
  if (copied.out) {
    target.data = e[B::dweight].data;
    target.strides = row_major(target.shape);
  }
  if (p.with_x)
    if (auto ok = index_device::copy_elements(stream, o[O::x], target); !ok) return ok;
  if (auto ok = add_rows_cuda(stream, workspace, plan.embedding, e); !ok) return ok;
  if (copied.out) return index_device::copy_elements(stream, target, o[O::out]);
  return {};
}

}  // namespace planck
