// A step of many tensors in one launch: the table of tensors is the kernel's parameter (32 KiB on
// sm_90), a block finds its tensor in it by bisection and steps 4,096 elements, 4 of a thread at a
// time; of few tensors and elements, a table of 4 KiB and 1,024 elements. Which dtype a tensor has
// is a choice that all threads of a block share; sums of nothing are made, so that the order of
// blocks does not matter.
#include <memory>

#include "planck/loops/cuda/launch.cuh"
#include "planck/loops/cuda/values.cuh"
#include "planck/optim/step/cuda/kernels.h"
#include "planck/optim/step/rule.math.h"

namespace planck::optim {

namespace {

constexpr int kThreads = 256, kEach = 4;

// How many rows a table has and how often a block takes 1,024 elements: much, or little.
template <int kMostRows, int kTurnsOfBlock>
struct Way {
  static constexpr int kRows = kMostRows, kTurns = kTurnsOfBlock;
  static constexpr std::int64_t kBlockElements = kThreads * kEach * kTurns;
};
constexpr std::int64_t kLittle = std::int64_t{1} << 20;  // elements

template <class C>
struct Row {
  void* w;
  const void* g;
  void* slot[kStepSlots];
  float* master;
  const double* factor;
  std::int64_t count;
  double gradient;
  StepNumbers<C> numbers;
  int first_block;
  Dtype w_dtype, g_dtype, slot_dtype;
};
template <class C>
constexpr int rows_in(int bytes) {
  return (bytes - 32) / static_cast<int>(sizeof(Row<C>));
}
template <class C>
using Much = Way<rows_in<C>(32000), 4>;
template <class C>
using Little = Way<rows_in<C>(4096), 1>;

template <class C, class W>
struct Table {
  const std::int64_t* veto;
  const double* norm;
  int rows, blocks;
  Row<C> row[W::kRows];
};

// Elements [i, i + 4) as the compute type; beyond `count` they are 0.
template <class T, class C>
__device__ __forceinline__ void load_as(const void* data, std::int64_t i, std::int64_t count,
                                        C (&v)[kEach]) {
  const T* at = static_cast<const T*>(data) + i;
  constexpr int kBytes = kEach * static_cast<int>(sizeof(T));
  if (i + kEach <= count &&
      reinterpret_cast<std::uintptr_t>(at) % (kBytes < 16 ? kBytes : 16) == 0) {
    const auto p = load_pack<kBytes, false>(at, 0);
#pragma unroll
    for (int e = 0; e < kEach; ++e) v[e] = element_of<T>(p, e);
    return;
  }
#pragma unroll
  for (int e = 0; e < kEach; ++e) v[e] = i + e < count ? C(loaded(at[e])) : C(0);
}
template <class T, class C>
__device__ __forceinline__ void store_as(void* data, std::int64_t i, std::int64_t count,
                                         const C (&v)[kEach]) {
  T* at = static_cast<T*>(data) + i;
  constexpr int kBytes = kEach * static_cast<int>(sizeof(T));
  if (i + kEach <= count && reinterpret_cast<std::uintptr_t>(at) % (kBytes < 16 ? kBytes : 16) == 0)
    return store_pack<false>(at, 0, packed<T, kBytes>(v));
  for (int e = 0; e < kEach; ++e)
    if (i + e < count) at[e] = stored<T>(canonical_nan(v[e]));
}

template <class C>
__device__ __forceinline__ void load(Dtype dtype, const void* data, std::int64_t i,
                                     std::int64_t count, C (&v)[kEach]) {
  if constexpr (std::is_same_v<C, double>) {
    load_as<double>(data, i, count, v);
  } else {
    if (dtype == Dtype::f32)
      load_as<float>(data, i, count, v);
    else if (dtype == Dtype::bf16)
      load_as<bf16>(data, i, count, v);
    else
      load_as<f16>(data, i, count, v);
  }
}
template <class C>
__device__ __forceinline__ void store(Dtype dtype, void* data, std::int64_t i, std::int64_t count,
                                      const C (&v)[kEach]) {
  if constexpr (std::is_same_v<C, double>) {
    store_as<double>(data, i, count, v);
  } else {
    if (dtype == Dtype::f32)
      store_as<float>(data, i, count, v);
    else if (dtype == Dtype::bf16)
      store_as<bf16>(data, i, count, v);
    else
      store_as<f16>(data, i, count, v);
  }
}

// What a weight is after rounding.
__device__ __forceinline__ float rounded(Dtype dtype, float v) {
  return dtype == Dtype::bf16 ? widen(stored<bf16>(v)) : widen(stored<f16>(v));
}

template <StepKind kKind, class C, class W>
__global__ void __launch_bounds__(kThreads) step_kernel(const __grid_constant__ Table<C, W> table) {
  if (table.veto != nullptr && *table.veto != 0) return;
  if (table.norm != nullptr && !isfinite(*table.norm)) return;
  int low = 0, high = table.rows;  // the last row whose first block is not behind this one
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.row[middle].first_block <= static_cast<int>(blockIdx.x) ? low : high) = middle;
  }
  const Row<C>& row = table.row[low];
  const std::int64_t begin =
      (static_cast<std::int64_t>(blockIdx.x) - row.first_block) * W::kBlockElements;
  const C factor = static_cast<C>(row.gradient * (row.factor != nullptr ? *row.factor : 1.0));
  constexpr unsigned kSlots = kSlotsUsed<kKind>;
#pragma unroll
  for (int turn = 0; turn < W::kTurns; ++turn) {
    const std::int64_t i = begin + (turn * kThreads + static_cast<int>(threadIdx.x)) * kEach;
    if (i >= row.count) return;
    C w[kEach], g[kEach], slot[kStepSlots][kEach] = {};
    load(row.w_dtype, row.w, i, row.count, w);
    load(row.g_dtype, row.g, i, row.count, g);
    if constexpr (std::is_same_v<C, float>)
      if (row.master != nullptr) {
        float master[kEach];
        load_as<float>(row.master, i, row.count, master);
#pragma unroll
        for (int e = 0; e < kEach; ++e) {
          const float r = rounded(row.w_dtype, master[e]);
          w[e] = r == w[e] || (r != r && w[e] != w[e]) ? master[e] : w[e];
        }
      }
#pragma unroll
    for (int s = 0; s < kStepSlots; ++s)
      if ((kSlots >> s & 1u) != 0 && row.slot[s] != nullptr)
        load(row.slot_dtype, row.slot[s], i, row.count, slot[s]);
#pragma unroll
    for (int e = 0; e < kEach; ++e) {
      StepElement<C> x{w[e], g[e] * factor, slot[0][e], slot[1][e], slot[2][e]};
      step_element<kKind>(row.numbers, x);
      w[e] = x.w;
      slot[0][e] = x.a;
      slot[1][e] = x.b;
      slot[2][e] = x.c;
    }
    if constexpr (kKind != StepKind::lamb) {
      store(row.w_dtype, row.w, i, row.count, w);
      if constexpr (std::is_same_v<C, float>)
        if (row.master != nullptr) store_as<float>(row.master, i, row.count, w);
    }
#pragma unroll
    for (int s = 0; s < kStepSlots; ++s)
      if ((kSlots >> s & 1u) != 0 && row.slot[s] != nullptr)
        store(row.slot_dtype, row.slot[s], i, row.count, slot[s]);
  }
}

template <StepKind kKind, class C, class W>
Result<void> launch_table(const Stream& stream, const Table<C, W>& table) {
  return launch(stream, "step", step_kernel<kKind, C, W>, table.blocks, kThreads, table);
}

template <class C, class W>
Result<void> launch_kind(const Stream& stream, StepKind kind, const Table<C, W>& table) {
  switch (kind) {
    case StepKind::sgd:
      return launch_table<StepKind::sgd>(stream, table);
    case StepKind::adam:
      return launch_table<StepKind::adam>(stream, table);
    case StepKind::adagrad:
      return launch_table<StepKind::adagrad>(stream, table);
    case StepKind::rmsprop:
      return launch_table<StepKind::rmsprop>(stream, table);
    case StepKind::lion:
      return launch_table<StepKind::lion>(stream, table);
    default:
      return launch_table<StepKind::lamb>(stream, table);
  }
}

// Those rows that are computed in C, in tables of as many as fit; each has rows of one kind.
template <class C, class W>
Result<void> step_in(const Stream& stream, std::span<const StepRow> rows, const std::int64_t* veto,
                     const double* norm) {
  auto table = std::make_unique<Table<C, W>>();
  table->veto = veto;
  table->norm = norm;
  StepKind kind = StepKind::sgd;
  const auto flush = [&]() -> Result<void> {
    auto done = table->rows > 0 ? launch_kind(stream, kind, *table) : Result<void>{};
    table->rows = table->blocks = 0;
    return done;
  };
  table->rows = table->blocks = 0;
  for (const StepRow& r : rows) {
    if ((r.w_dtype == Dtype::f64) != std::is_same_v<C, double> || r.count == 0) continue;
    const std::int64_t blocks = ceil_div(r.count, W::kBlockElements);
    if (table->rows > 0 &&
        (table->rows == W::kRows || kind != r.rule.kind || table->blocks + blocks > INT32_MAX))
      if (auto ok = flush(); !ok) return ok;
    kind = r.rule.kind;
    Row<C>& to = table->row[table->rows++];
    to = {r.w,
          r.g,
          {r.slot[0], r.slot[1], r.slot[2]},
          r.master,
          r.factor,
          r.count,
          r.rule.gradient,
          StepNumbers<C>(r.rule),
          table->blocks,
          r.w_dtype,
          r.g_dtype,
          r.slot_dtype};
    table->blocks += static_cast<int>(blocks);
  }
  return flush();
}

// A model of few elements is stepped sooner by many blocks that know few tensors.
template <class C>
Result<void> step_rows(const Stream& stream, std::span<const StepRow> rows,
                       const std::int64_t* veto, const double* norm) {
  std::int64_t all = rows.size() <= Little<C>::kRows ? 0 : kLittle + 1;
  for (const StepRow& r : rows) all += r.count;
  return all <= kLittle ? step_in<C, Little<C>>(stream, rows, veto, norm)
                        : step_in<C, Much<C>>(stream, rows, veto, norm);
}

}  // namespace

Result<void> step_cuda(const Stream& stream, std::span<const StepRow> rows,
                       const std::int64_t* veto, const double* norm) {
  const DeviceScope scope(stream.device().ordinal);
  if (auto ok = scope.entered(); !ok) return ok;
  if (auto ok = step_rows<float>(stream, rows, veto, norm); !ok) return ok;
  return step_rows<double>(stream, rows, veto, norm);
}

}  // namespace planck::optim
