// "cuda:gather": elements by index, bit for bit; "cuda:classes": one_hot; plain strided copies.
//
// A thread moves kMoveItems items, a block's width apart: all indices, then all loads, then all
// stores. Items are elements, or vectors of up to 16 bytes where an index serves a dense run of
// them. index_select of matrix rows goes to cuda:rows of loops/table.
#include "planck/loops/cuda/pack.cuh"
#include "planck/loops/table/kernels.h"
#include "planck/ops/index/cuda/kernels.h"
#include "planck/ops/index/cuda/move.cuh"

namespace planck {

namespace index_device {

namespace {

// Operands out, index, x without the axis; strides of out and x in bytes.
struct Gather {
  DeviceNest<3> nest;
  Indices index;
  const char* x;
  char* out;
  std::int64_t extent, axis_bytes;
  unsigned long long* bad;
};

template <int kBytes>
__global__ void __launch_bounds__(kMoveThreads) gather_items(const __grid_constant__ Gather a) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
  std::int64_t at[kMoveItems][3], chosen[kMoveItems];
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    a.nest.at(p < a.nest.total ? p : 0, at[k]);
    chosen[k] = a.index[at[k][1]];
  }
  Pack<kBytes> packs[kMoveItems];
  int bad = 0;
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const bool wrong = outside(chosen[k], a.extent);
    bad += wrong && first + k * kMoveThreads < a.nest.total;
    packs[k] = {};
    if (!wrong) packs[k] = load_pack<kBytes, false>(a.x + at[k][2] + chosen[k] * a.axis_bytes, 0);
  }
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k)
    if (first + k * kMoveThreads < a.nest.total) store_pack<true>(a.out + at[k][0], 0, packs[k]);
  count_bad(a.bad, bad);
}

// Operands out, from.
template <int kBytes>
__global__ void __launch_bounds__(kMoveThreads)
    copy_items(const __grid_constant__ DeviceNest<2> nest, const char* from, char* to) {
  const std::int64_t first = std::int64_t{blockIdx.x} * (kMoveThreads * kMoveItems) + threadIdx.x;
  std::int64_t at[kMoveItems][2];
  Pack<kBytes> packs[kMoveItems];
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k) {
    const std::int64_t p = first + k * kMoveThreads;
    nest.at(p < nest.total ? p : 0, at[k]);
    packs[k] = {};
    if (from != nullptr) packs[k] = load_pack<kBytes, false>(from + at[k][1], 0);
  }
#pragma unroll
  for (int k = 0; k < kMoveItems; ++k)
    if (first + k * kMoveThreads < nest.total) store_pack<false>(to + at[k][0], 0, packs[k]);
}

__global__ void __launch_bounds__(kMoveThreads)
    count_entries(Indices index, std::int64_t count, std::int64_t stride, std::int64_t extent,
                  unsigned long long* bad) {
  const std::int64_t k = std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x;
  count_bad(bad, k < count && outside(index[k * stride], extent));
}

// Operands out (with its last axis), index (without). Classes of an index are neighbours.
struct OneHot {
  DeviceNest<2> nest;
  Indices index;
  char* out;
  std::int64_t classes;
  Pack<8> one;
  unsigned long long* bad;
};

template <int kBytes>
__global__ void __launch_bounds__(kMoveThreads) one_hot(const __grid_constant__ OneHot a) {
  const std::int64_t p = std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x;
  if (p >= a.nest.total) return;
  std::int64_t at[2];
  a.nest.at(p, at);
  const std::int64_t c = p % a.classes;
  Pack<kBytes> value = {};
  if (a.index[at[1]] == c) {
#pragma unroll
    for (int w = 0; w < Pack<kBytes>::kWords; ++w) value.word[w] = a.one.word[w];
  }
  store_pack<false>(a.out + at[0], 0, value);
}

// A list of indices of any shape: how many are bad.
__global__ void __launch_bounds__(kMoveThreads)
    count_nest(const __grid_constant__ DeviceNest<1> nest, Indices index, std::int64_t extent,
               unsigned long long* bad) {
  const std::int64_t p = std::int64_t{blockIdx.x} * kMoveThreads + threadIdx.x;
  std::int64_t at[1];
  nest.at(p < nest.total ? p : 0, at);
  count_bad(bad, p < nest.total && outside(index[at[0]], extent));
}

// Makes the innermost axis one of vectors, where the operands in `moved` are dense along it and
// everything about them is a multiple of the vector. Strides become bytes. Returns the vector's
// size.
int widen(Nest& nest, std::initializer_list<int> moved, std::initializer_list<int> still,
          std::int64_t element, std::int64_t common) {
  const auto last = static_cast<std::size_t>(nest.rank - 1);
  bool dense = true;
  for (int k : moved) dense &= nest.stride[static_cast<std::size_t>(k)][last] == 1;
  for (int k : still) dense &= nest.stride[static_cast<std::size_t>(k)][last] == 0;
  for (int k : moved) {
    auto& stride = nest.stride[static_cast<std::size_t>(k)];
    for (std::size_t d = 0; d <= last; ++d) {
      stride[d] *= element;
      if (d < last) common |= stride[d];
    }
    nest.offset[static_cast<std::size_t>(k)] *= element;
    common |= nest.offset[static_cast<std::size_t>(k)];
  }
  common |= nest.extent[last] * element;
  std::int64_t bytes = dense ? 16 : element;
  while (bytes > element && common % bytes != 0) bytes /= 2;
  for (int k : moved) nest.stride[static_cast<std::size_t>(k)][last] *= bytes / element;
  nest.extent[last] = nest.extent[last] * element / bytes;
  return static_cast<int>(bytes);
}

std::int64_t address(const View& v) { return reinterpret_cast<std::int64_t>(v.data); }

}  // namespace

Result<void> copy_elements(const Stream& stream, const View& from, const View& to) {
  if (numel(to.shape) == 0) return {};
  Nest nest = nest_over(to.shape, {to.strides, from.present ? from.strides : to.strides});
  sort_by(nest, 0);
  collapse(nest);
  const auto element = static_cast<std::int64_t>(storage_bytes(to.dtype));
  const std::int64_t common = address(to) | (from.present ? address(from) : 0);
  const int bytes = widen(nest, {0, 1}, {}, element, common);
  const auto device = DeviceNest<2>::of(nest);
  const char* source = from.present ? static_cast<const char*>(from.data) : nullptr;
  return with_bytes(static_cast<std::size_t>(bytes), [&]<int kBytes>() {
    return launch(stream, "copy", copy_items<kBytes>, move_blocks(device.total), kMoveThreads,
                  device, source, static_cast<char*>(to.data));
  });
}

Result<void> count_list(const Stream& stream, const View& index, std::int64_t extent,
                        unsigned long long* bad) {
  if (bad == nullptr) return {};
  return launch(stream, "index", count_entries, ceil_div(index.shape[0], kMoveThreads),
                kMoveThreads, Indices(index), index.shape[0], index.strides[0], extent, bad);
}

}  // namespace index_device

using namespace index_device;

namespace {

using Read = index_operand::Read;

// index_select of the rows of matrices, by cuda:rows: only the element's size counts there.
bool select_rows(const IndexProblem& p, const Operands& o, TableProblem& e, Operands& rows) {
  if (p.kind != IndexKind::index_select || p.element_dtype == Dtype::boolean) return false;
  for (int d = 0; d < p.axis; ++d)
    if (p.x[d] != 1) return false;
  const auto x = as_rows(o[Read::x], p.axis);
  const auto out = as_rows(o[Read::out], p.axis);
  if (!x || !out || numel(p.x) == 0 || p.index[0] == 0) return false;
  e.kind = TableOp::read;
  const std::size_t bytes = storage_bytes(p.element_dtype);
  e.element_dtype = bytes == 8 ? Dtype::f64 : bytes == 4 ? Dtype::f32 : Dtype::f16;
  e.num_embeddings = p.extent();
  e.dim = p.inner();
  e.indices = p.index;
  rows = {*x, o[Read::index], *out, o[Read::bad_indices]};
  return true;
}

}  // namespace

Result<void> index_read_cuda(const Stream& stream, Workspace workspace, const IndexProblem& p,
                             const Operands& o) {
  TableProblem embedding;
  Operands rows;
  if (select_rows(p, o, embedding, rows)) return read_rows_cuda(stream, workspace, embedding, rows);
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &x = o[Read::x], &index = o[Read::index], &out = o[Read::out];
  const auto bad = clear_counter(stream, o[Read::bad_indices], "gather");
  if (!bad) return tl::unexpected(bad.error());
  if (p.by_slice())
    if (auto ok = count_list(stream, index, p.extent(), *bad); !ok) return ok;
  if (numel(out.shape) == 0) return {};
  Nest nest = nest_over(out.shape, {out.strides, index_detail::index_strides(p, index),
                                    index_detail::without_axis(x.strides, p.axis)});
  sort_by(nest, 0);
  collapse(nest);
  const auto element = static_cast<std::int64_t>(storage_bytes(p.element_dtype));
  const std::int64_t axis_bytes = x.strides[p.axis] * element;
  const int bytes = widen(nest, {0, 2}, {1}, element, address(x) | address(out) | axis_bytes);
  const Gather a = {DeviceNest<3>::of(nest),      Indices(index), static_cast<const char*>(x.data),
                    static_cast<char*>(out.data), p.extent(),     axis_bytes,
                    p.by_slice() ? nullptr : *bad};
  return with_bytes(static_cast<std::size_t>(bytes), [&]<int kBytes>() {
    return launch(stream, "gather", gather_items<kBytes>, move_blocks(a.nest.total), kMoveThreads,
                  a);
  });
}

Result<void> index_one_hot_cuda(const Stream& stream, Workspace, const IndexProblem& p,
                                const Operands& o) {
  using O = index_operand::OneHot;
  const DeviceScope scope(stream.device().ordinal);
  if (auto entered = scope.entered(); !entered) return entered;
  const View &index = o[O::index], &out = o[O::out];
  const auto bad = clear_counter(stream, o[O::bad_indices], "one_hot");
  if (!bad) return tl::unexpected(bad.error());
  if (numel(p.index) == 0) return {};
  if (*bad != nullptr) {
    Nest entries = nest_over(p.index, {index.strides});
    collapse(entries);
    if (auto ok = launch(stream, "one_hot", count_nest, ceil_div(numel(p.index), kMoveThreads),
                         kMoveThreads, DeviceNest<1>::of(entries), Indices(index), p.classes, *bad);
        !ok)
      return ok;
  }
  if (p.classes == 0) return {};
  const auto element = static_cast<std::int64_t>(storage_bytes(p.element_dtype));
  Strides of_index = index.strides, of_out;
  of_index.push_back(0);
  for (std::int64_t s : out.strides) of_out.push_back(s * element);
  Nest nest = nest_over(out.shape, {of_out, of_index});
  collapse(nest);  // the order is kept: position % classes is the class
  OneHot a = {
      DeviceNest<2>::of(nest), Indices(index), static_cast<char*>(out.data), p.classes, {}, *bad};
  const std::uint64_t one = p.element_dtype == Dtype::f64    ? 0x3ff0000000000000u
                            : p.element_dtype == Dtype::f32  ? 0x3f800000u
                            : p.element_dtype == Dtype::f16  ? 0x3c00u
                            : p.element_dtype == Dtype::bf16 ? 0x3f80u
                                                             : 1u;
  a.one.word[0] = static_cast<std::uint32_t>(one);
  a.one.word[1] = static_cast<std::uint32_t>(one >> 32);
  return with_bytes(static_cast<std::size_t>(element), [&]<int kBytes>() {
    if constexpr (kBytes <= 8)
      return launch(stream, "one_hot", one_hot<kBytes>, ceil_div(a.nest.total, kMoveThreads),
                    kMoveThreads, a);
    else
      return Result<void>{};
  });
}

}  // namespace planck
