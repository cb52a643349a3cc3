// One pass of a reduction on the device: its first round over the tensor, then rounds over the
// results of chunks until there is one per group.
#pragma once

#include "planck/ops/reduce/cuda/outer_map.cuh"
#include "planck/ops/reduce/cuda/reduce_pass.h"
#include "planck/ops/reduce/cuda/tall_columns.cuh"
#include "planck/ops/reduce/host/layout.h"

namespace planck::reduce_device {

template <class F>
FoldSink<F> make_sink(const ReducePass& pass) {
  FoldSink<F> sink;
  sink.out = static_cast<typename F::Result*>(pass.out);
  sink.out_map = AxisMap::of(walk_of(pass.layout.kept, 1));
  sink.finish = rm::make_finish<typename F::C>(pass.problem);
  return sink;
}

template <class F>
constexpr typename F::K flip_of(const ReducePass& pass) {
  return rm::make_finish<typename F::C>(pass.problem).flip;
}

inline bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

template <class F, class FNext>
Result<void> reduce_rows(const Stream& stream, const ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  RowArguments<F> a{};
  a.in = static_cast<const typename F::Stored*>(pass.x);
  a.kept = AxisMap::of(walk_of(l.kept, 0));
  a.reduced = AxisMap::of(l.reduced);
  a.groups = l.groups;
  a.length = l.length;
  a.runs = ceil_div(l.length, F::kRun);
  a.packs = is_aligned(pass.x) && F::kRunBytes == 16 &&
            a.kept.aligned(sizeof(typename F::Stored)) &&
            a.reduced.packs(F::kRun, sizeof(typename F::Stored), l.length);
  a.dense = a.packs && a.reduced.rank == 1;
  a.whole = l.length / F::kRun;
  a.flip = flip_of<F>(pass);
  a.sink = make_sink<F>(pass);
  const RowCut cut = RowCut::make(a.groups, a.runs);
  auto* partials = static_cast<typename F::A*>(pass.partials);
  if (cut.chunks > 1) a.sink.partials = partials;
  a.padded_chunks = ceil_div(cut.chunks, 4) * 4;  // so that those of a group are whole packs
  if (auto ok = launch_rows(stream, a, true, cut); !ok || cut.chunks == 1) return ok;
  RowArguments<FNext> b{};
  b.in = partials;
  b.kept = AxisMap::line(a.padded_chunks);
  b.reduced = AxisMap::line(1);
  b.reduced.extent[0] = cut.chunks;
  b.groups = a.groups;
  b.length = cut.chunks;
  b.runs = ceil_div(cut.chunks, FNext::kRun);
  b.packs = b.dense = true;
  b.whole = cut.chunks / FNext::kRun;
  b.sink = make_sink<FNext>(pass);
  RowCut whole = RowCut::make(b.groups, b.runs);
  while (whole.chunks > 1) {  // never: kEnoughBlocks chunks at most
    whole.turns *= 2;
    whole.chunks =
        ceil_div(b.runs, static_cast<std::int64_t>(whole.warps) * kWarpRuns * whole.turns);
  }
  return launch_rows(stream, b, false, whole);
}

template <class F, class FNext>
Result<void> reduce_columns(const Stream& stream, const ReducePass& pass) {
  const ReduceLayout& l = pass.layout;
  constexpr int kRun = F::kRun;
  ColumnArguments<F> a{};
  a.in = static_cast<const typename F::Stored*>(pass.x);
  a.inner = l.inner();
  a.outer = l.groups / a.inner;
  a.length = l.length;
  a.outer_map = outer_map_of(l);
  a.reduced = AxisMap::of(l.reduced);
  a.flip = flip_of<F>(pass);
  a.sink = make_sink<F>(pass);
  const bool packs = is_aligned(pass.x) && a.inner % kRun == 0 && a.reduced.rank == 1 &&
                     a.outer_map.aligned(sizeof(typename F::Stored)) &&
                     a.reduced.aligned(sizeof(typename F::Stored));
  const bool tall = packs && is_tall(a);
  const int warps = tall ? cut_tall_columns(a) : 0;
  if (!tall) cut_columns(a, packs ? kRun : 1);
  auto* partials = static_cast<typename F::A*>(pass.partials);
  if (a.chunks > 1) a.sink.partials = partials;
  const auto launch_first = [&] {
    if (tall) return launch_tall_columns(stream, a, warps);
    return packs ? launch_columns<F, kRun>(stream, a, true) : launch_columns<F, 1>(stream, a, true);
  };
  if (auto ok = launch_first(); !ok || a.chunks == 1) return ok;
  std::int64_t chunks = a.chunks;
  while (true) {  // over [outer, chunks, inner]
    ColumnArguments<FNext> b{};
    b.in = partials;
    b.inner = a.inner;
    b.outer = a.outer;
    b.length = chunks;
    b.outer_map = AxisMap::line(chunks * a.inner);
    b.reduced = AxisMap::line(a.inner);
    b.reduced.extent[0] = chunks;
    b.sink = make_sink<FNext>(pass);
    constexpr int kNextRun = FNext::kRun;
    const bool whole = a.inner % kNextRun == 0;
    cut_columns(b, whole ? kNextRun : 1);
    partials += a.outer * chunks * a.inner;
    if (b.chunks > 1) b.sink.partials = partials;
    if (auto ok = whole ? launch_columns<FNext, kNextRun>(stream, b, false)
                        : launch_columns<FNext, 1>(stream, b, false);
        !ok || b.chunks == 1)
      return ok;
    chunks = b.chunks;
  }
}

template <class T, class J, Lift kLift>
Result<void> reduce_pass(const Stream& stream, const ReducePass& pass) {
  using F = Fold<T, J, kLift, false>;
  using FNext = Fold<T, J, kLift, true>;
  return pass.layout.columns ? reduce_columns<F, FNext>(stream, pass)
                             : reduce_rows<F, FNext>(stream, pass);
}

}  // namespace planck::reduce_device
