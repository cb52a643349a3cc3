#include "planck/backend/device_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "planck/backend/faults.h"
#include "planck/backend/staging.h"
#include "planck/core/cuda/runtime.h"
#include "planck/core/stream/recording.h"
#include "planck/ops/elementwise/elementwise.problem.h"

namespace planck {

namespace backend_detail {

void refuse_other_place(std::string_view op, const Stream& first, const Stream& other) {
  if (first.device() != other.device())
    raise(ErrorCode::device, fmt::format("{}: inputs are on {} and {}; move one with to()", op,
                                         to_string(first.device()), to_string(other.device())));
  raise(ErrorCode::device, fmt::format("{}: inputs belong to two streams of {}; move one with to()",
                                       op, to_string(first.device())));
}

std::uint64_t hash(std::span<const InputSpec> specs) {
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (const InputSpec& s : specs) {
    h = (h ^ static_cast<std::uint64_t>(s.dtype)) * 0xD6E8FEB86659FD93u;
    for (std::int64_t e : s.shape) h = (h ^ static_cast<std::uint64_t>(e)) * 0xD6E8FEB86659FD93u;
    h ^= h >> 32;
  }
  return h;
}

namespace {

void run_elementwise(const ElementwiseProblem& problem, const Stream& stream,
                     const Operands& operands) {
  const InputSpec spec{problem.dtype, problem.shape};
  const auto& plan =
      PlanCache<ElementwiseProblem>::get(stream, problem, {}, hash(std::span(&spec, 1)));
  value_or_throw(plan.run(stream, {}, operands));
}

// Of each axis, the part of a piece that lies within the tensor it is put on.
struct Overlap {
  View from, onto;
};
Overlap overlap(const View& piece, const Slice& where, const View& whole) {
  Overlap both{piece, whole};
  std::int64_t skipped = 0, first = 0;
  for (int d = 0; d < piece.shape.rank(); ++d) {
    std::int64_t begin = 0, end = piece.shape[d];
    const auto inside = [&](std::int64_t i) {
      const std::int64_t at = where.start[d] + i * where.step[d];
      return at >= 0 && at < whole.shape[d];
    };
    if (where.step[d] == 1) {
      begin = std::max<std::int64_t>(begin, -where.start[d]);
      end = std::min(end, whole.shape[d] - where.start[d]);
    } else {  // slices of an axis lie within it
      while (begin < end && !inside(begin)) ++begin;
    }
    both.from.shape[d] = both.onto.shape[d] = std::max<std::int64_t>(0, end - begin);
    skipped += begin * piece.strides[d];
    first += (where.start[d] + begin * where.step[d]) * whole.strides[d];
    both.onto.strides[d] = whole.strides[d] * where.step[d];
  }
  if (numel(both.onto.shape) == 0) return both;
  const auto element = static_cast<std::int64_t>(storage_bytes(piece.dtype));
  both.from.data = static_cast<std::byte*>(piece.data) + skipped * element;
  both.onto.data = static_cast<std::byte*>(whole.data) + first * element;
  return both;
}

}  // namespace

void copy(const View& from, const View& to, const Stream& stream) {
  if (numel(to.shape) == 0) return;
  ElementwiseProblem problem{
      .op = ElementwiseOp::copy, .dtype = to.dtype, .to = to.dtype, .shape = to.shape};
  run_elementwise(problem, stream, Operands{from, to});
}

namespace {

void fill_and_copy(const Assembly& assembly, std::span<const View> inputs, const View& out,
                   const Stream& stream) {
  if (assembly.fill) {
    ElementwiseProblem problem{.op = ElementwiseOp::fill,
                               .dtype = out.dtype,
                               .to = out.dtype,
                               .shape = out.shape,
                               .scalars = {*assembly.fill, {}}};
    run_elementwise(problem, stream, Operands{out});
  }
  for (const auto& piece : assembly.pieces) {
    const auto [from, onto] =
        overlap(inputs[static_cast<std::size_t>(piece.input)], piece.onto, out);
    copy(from, onto, stream);
  }
}

}  // namespace

void assemble(std::string_view op, const Assembly& assembly, std::span<const View> inputs,
              const View& out, const Stream& stream) {
  if (numel(out.shape) == 0) return;
  const auto run = [&] { fill_and_copy(assembly, inputs, out, stream); };
  if (!Observer::any()) return run();
  observed(op, stream, inputs, std::span(&out, 1), run);
}

Strides dense_in_order_of(const Shape& shape, const Strides& like) {
  const auto apart = [&](int d) { return like[d] < 0 ? -like[d] : like[d]; };
  std::array<int, kMaxRank> axes{};  // those that count, outermost first
  int count = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    int at = count++;
    for (; at > 0 && apart(axes[static_cast<std::size_t>(at - 1)]) < apart(d); --at)
      axes[static_cast<std::size_t>(at)] = axes[static_cast<std::size_t>(at - 1)];
    axes[static_cast<std::size_t>(at)] = d;
  }
  if (std::is_sorted(axes.begin(), axes.begin() + count)) return row_major(shape);
  Strides strides = Strides::filled(shape.rank(), 1);
  std::int64_t step = 1;
  for (int at = count; at-- > 0;
       step *= std::max<std::int64_t>(1, shape[axes[static_cast<std::size_t>(at)]]))
    strides[axes[static_cast<std::size_t>(at)]] = step;
  return strides;
}

Neighbours neighbours(std::span<const View> views) {
  if (views.size() < 2) return {};
  struct Rows {  // dense, so many elements each, one after the other by the same steps
    std::int64_t each = 1;
    std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // strides and extents, rising
    const std::byte* first;
  };
  std::vector<Rows> all;
  for (const View& v : views) {
    if (v.dtype != views[0].dtype || bits(v.dtype) < 8 || numel(v.shape) == 0) return {};
    Rows rows;
    rows.first = static_cast<const std::byte*>(v.data);
    for (int d = 0; d < v.shape.rank(); ++d)
      if (v.shape[d] > 1) rows.steps.emplace_back(v.strides[d], v.shape[d]);
    std::sort(rows.steps.begin(), rows.steps.end());
    std::size_t inner = 0;
    while (inner < rows.steps.size() && rows.steps[inner].first == rows.each)
      rows.each *= rows.steps[inner++].second;
    rows.steps.erase(rows.steps.begin(), rows.steps.begin() + static_cast<std::ptrdiff_t>(inner));
    if (!all.empty() && rows.steps != all[0].steps) return {};
    all.push_back(std::move(rows));
  }
  std::sort(all.begin(), all.end(), [](const Rows& a, const Rows& b) { return a.first < b.first; });
  std::int64_t elements = 0;  // of a row of the block
  for (const Rows& rows : all) {
    if (rows.first != all[0].first + bytes_for(views[0].dtype, elements)) return {};
    elements += rows.each;
  }
  for (const auto& [stride, extent] : all[0].steps) {
    if (stride != elements) return {};
    elements *= extent;
  }
  return {elements, all[0].first};
}

std::optional<StoredView> seen_together(const Assembly& assembly,
                                        std::span<const StoredView* const> inputs) {
  const Shared<Storage>& storage = inputs[0]->storage;
  const View out{storage->data(), assembly.dtype, assembly.shape, row_major(assembly.shape), true};
  if (inputs.size() < 2 || assembly.fill || bits(out.dtype) < 8 || storage->borrowed() ||
      numel(out.shape) == 0 || storage->bytes() != bytes_for(out.dtype, numel(out.shape)))
    return std::nullopt;
  for (const auto& piece : assembly.pieces) {
    const StoredView& in = *inputs[static_cast<std::size_t>(piece.input)];
    std::int64_t from = 0;
    for (int d = 0; d < out.shape.rank(); ++d) {
      from += piece.onto.start[d] * out.strides[d];
      if (piece.onto.step[d] != 1 || (in.view.shape[d] > 1 && in.view.strides[d] != out.strides[d]))
        return std::nullopt;
    }
    if (in.storage.get() != storage.get() ||
        in.view.data != static_cast<std::byte*>(out.data) + bytes_for(out.dtype, from))
      return std::nullopt;
  }
  return StoredView{storage, out};
}

std::vector<View> views_of(std::span<StoredView* const> tensors) {
  std::vector<View> views;
  for (const StoredView* t : tensors) views.push_back(t->view);
  return views;
}

std::size_t device_count(DeviceKind kind) {
  return kind == DeviceKind::cpu ? 1 : static_cast<std::size_t>(cuda::device_count());
}

Rng& generator(Device device) {
  thread_local std::map<std::pair<DeviceKind, int>, Rng> generators;
  return generators[{device.kind, device.ordinal}];
}

StoredView contiguous(const StoredView& t) {
  if (is_contiguous(t.shape(), t.view.strides)) return t;
  auto dense = StoredView::empty(t.stream(), t.dtype(), t.shape());
  const auto run = [&] { copy(t.view, dense.view, t.stream()); };
  if (Recording* beside = side_by_side(t.stream()))
    run_beside(*beside, std::span(&t.view, 1), std::array{&dense}, nullptr, run);
  else if (Observer::any())
    observed("contiguous", t.stream(), std::span(&t.view, 1), std::span(&dense.view, 1), run);
  else
    run();
  return dense;
}

StoredView from_host(const Stream& stream, Dtype dtype, const Shape& shape, const void* data) {
  value_or_throw(check_shape(shape, "from_host"));
  auto t = StoredView::empty(stream, dtype, shape);
  const std::size_t bytes = bytes_for(dtype, numel(shape));
  if (bytes == 0) return t;
  if (stream.device().kind == DeviceKind::cpu) {
    std::memcpy(t.view.data, data, bytes);
    return t;
  }
  if (Recording::of(stream) != nullptr)
    check_not_recorded(stream, fmt::format("a tensor of shape {} is made from values of the host",
                                           to_string(shape)));
  copy_from_host(stream, t.view.data, data, bytes);  // the caller may reuse its memory
  return t;
}

StoredView borrow(const Stream& stream, const View& view, std::shared_ptr<const void> owner) {
  const ByteRange range = byte_range(view);
  StoredView t;
  t.storage = Storage::borrow(stream, const_cast<std::byte*>(range.begin),
                              static_cast<std::size_t>(range.end - range.begin), std::move(owner));
  t.view = view;
  return t;
}

void to_host(const StoredView& t, void* data) {
  const Stream& stream = t.stream();
  const bool on_cpu = stream.device().kind == DeviceKind::cpu;
  if (!on_cpu && Recording::of(stream) != nullptr)
    check_not_recorded(stream,
                       fmt::format("the host reads a tensor of shape {}{}{}", to_string(t.shape()),
                                   Observer::gradient_of.empty() ? "" : " for the gradient of ",
                                   Observer::gradient_of));
  const StoredView dense = contiguous(t);
  const std::size_t bytes = bytes_for(t.dtype(), numel(t.shape()));
  if (bytes == 0) return check_faults(stream);
  if (on_cpu) {
    std::memcpy(data, dense.view.data, bytes);
    return;
  }
  value_or_throw(
      cuda::copy_to_host(stream.device().ordinal, stream.native(), data, dense.view.data, bytes));
  value_or_throw(stream.synchronize());
  check_faults(stream);
}

void wait_for(const Stream& stream) {
  value_or_throw(stream.synchronize());
  check_faults(stream);
}

}  // namespace backend_detail

}  // namespace planck
