// CPU kernels of the elementwise family.
//
// Four ways, none of which changes a result:
//   small     up to kSmall contiguous elements: one call of the loop, no nest, no scheduler
//   rows      a copy whose rows lie densely on both sides: moved as they are
//   map       the nest follows the output's memory (loops/cpu/map.h); dense operands are used in
//             place, a value that repeats along a row is loaded once, other operands are gathered
//             into portions of 1,024, transposed ones come in tiles
//   sequence  arange and random numbers: portions in logical order, scattered if the output is not
//             dense
#include <cstring>

#include "planck/loops/cpu/map.h"
#include "planck/ops/elementwise/cpu/kernels.h"
#include "planck/ops/elementwise/cpu/loops.h"

namespace planck {

namespace {

using namespace elementwise_cpu;
using Op = ElementwiseOp;

constexpr std::int64_t kSmall = 256;
constexpr std::int64_t kRowsAhead = 8;  // of a tile: 4 KiB of f32, as elsewhere

std::size_t at(int k) { return static_cast<std::size_t>(k); }

bool moves_bits(Op op) {
  return op == Op::where || op == Op::mask_fill || op == Op::copy || op == Op::fill;
}

// What runs the portions of a problem: vectors, or a loop, and whether that reads 16-bit floats as
// f32.
struct Chosen {
  Loop loop;
  bool widens;
  RunPortion run = run_portion();
};
RunPortion vectors_of(Dtype t, std::size_t op) {
  if (t == Dtype::f32) return f32_portions().run[op];
  if (t == Dtype::f16) return f16_portions().run[op];
  return t == Dtype::bf16 ? bf16_portions().run[op] : nullptr;
}
Chosen choose(const ElementwiseProblem& p) {
  const auto op = static_cast<std::size_t>(p.op);
  if (moves_bits(p.op)) return {other_loops().bits[size_class(p.dtype)].loop[op], false};
  if (p.op == Op::cast)
    return {other_loops().cast[static_cast<std::size_t>(p.dtype)][static_cast<std::size_t>(p.to)],
            false};
  if (const RunPortion vectors = vectors_of(p.dtype, op)) return {nullptr, false, vectors};
  switch (p.dtype) {
    case Dtype::f64:
      return {f64_loops().loop[op], false};
    case Dtype::i32:
      return {other_loops().i32.loop[op], false};
    case Dtype::i64:
      return {other_loops().i64.loop[op], false};
    case Dtype::boolean:
      return {other_loops().boolean.loop[op], false};
    case Dtype::f32:
      return {f32_loops().loop[op], false};
    default:
      const HalfLoops& half = half_loops();
      const Loop own = (p.dtype == Dtype::f16 ? half.f16 : half.bf16).loop[op];
      return {own != nullptr ? own : f32_loops().loop[op], own == nullptr};
  }
}

LoopScalars scalars_for(const ElementwiseProblem& p) {
  using elementwise_math::scalars_of;
  return {scalars_of<float>(p), scalars_of<double>(p), scalars_of<std::int32_t>(p),
          scalars_of<std::int64_t>(p),
          p.op == Op::fill || p.op == Op::mask_fill ? scalar_bits(p) : 0};
}

bool all_contiguous(const ElementwiseProblem& p, const Operands& operands) {
  for (int k = 0; k <= p.inputs(); ++k)
    if (!is_contiguous(p.shape, operands[at(k)].strides)) return false;
  return true;
}

void run_small(const ElementwiseProblem& p, const Operands& operands, int n) {
  const Chosen chosen = choose(p);
  const LoopScalars scalars = scalars_for(p);
  const int inputs = p.inputs();
  Portion portion{chosen.loop, inputs, n, {}, {}, chosen.widens, &scalars};
  for (int k = 0; k < inputs; ++k)
    portion.in[at(k)] = {operands[at(k)].data, operands[at(k)].dtype};
  portion.out = {operands[at(inputs)].data, operands[at(inputs)].dtype, false};
  chosen.run(portion);
}

NestStrides strides_of(const Extents& e) {
  NestStrides s{};
  for (int d = 0; d < e.rank(); ++d) s[at(d)] = e[d];
  return s;
}

// Dense elements of an input in a portion: in place or gathered, or one value for all of them,
// which stays for the next portion.
class Gatherer {
 public:
  void source(const MapOperand& o, std::int64_t begin, int n, Source& from, bool& repeats) {
    if (const void* dense = dense_at(o, begin, n)) {
      from = {dense, o.dtype, o.ahead};
      return;
    }
    from = {buffer_, o.dtype, 0};
    const std::size_t size = storage_bytes(o.dtype), kind = size_class(o.dtype);
    std::byte* to = buffer_;
    o.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
      repeats = stride == 0 && length == n;
      if (repeats && offset == repeated_) return;
      repeated_ = repeats ? offset : -1;
      const auto* value = static_cast<const std::byte*>(o.base) + offset * std::int64_t(size);
      other_loops().gather[kind](value, stride, repeats ? kStep : static_cast<int>(length), to);
      to += static_cast<std::size_t>(length) * size;
    });
  }

 private:
  std::int64_t repeated_ = -1;
  alignas(64) std::byte buffer_[kPortion * sizeof(double)];
};

void scatter(const MapOperand& o, std::int64_t begin, int n, const std::byte* from) {
  const std::size_t size = storage_bytes(o.dtype), kind = size_class(o.dtype);
  o.walk.runs(begin, n, [&](std::int64_t offset, std::int64_t stride, std::int64_t length) {
    auto* to = static_cast<std::byte*>(o.base) + offset * std::int64_t(size);
    other_loops().scatter[kind](from, static_cast<int>(length), to, stride);
    from += static_cast<std::size_t>(length) * size;
  });
}

// The length of rows along which every operand is dense or one value, if that is worth a call of
// its own; else 0.
std::int64_t row_length(const Map& map, int out_operand) {
  if (map.in_tiles()) return 0;
  const int last = map.nest().rank - 1;
  bool rows = map.stride(out_operand, last) == 1;
  for (int k = 0; k < out_operand; ++k)
    rows &= map.stride(k, last) == 1 || map.stride(k, last) == 0;
  const std::int64_t row = map.nest().extent[at(last)];
  return rows && (row >= kStep || map.nest().rank == 1) ? row : 0;
}

// Whether a copy was one of rows that lie densely on both sides, and are long enough to be moved
// one by one. Outputs larger than the caches are left to the nest, which goes around these.
bool copied_rows(const Stream& stream, const ElementwiseProblem& p, const Operands& operands) {
  constexpr std::int64_t kLeast = 64;  // bytes of a row
  if (p.op != Op::copy) return false;
  const NestStrides strides[] = {strides_of(operands[0].strides), strides_of(operands[1].strides)};
  Nest nest = make_nest(p.shape.rank(), strides_of(p.shape), strides);
  sort_by(nest, 1);
  collapse(nest);
  const std::size_t last = at(nest.rank - 1);
  const auto size = static_cast<std::int64_t>(storage_bytes(p.dtype));
  const std::int64_t length = nest.extent[last], bytes = length * size;
  if (nest.rank == 1 || nest.stride[0][last] != 1 || nest.stride[1][last] != 1 || bytes < kLeast ||
      bytes_for(p.dtype, nest.total()) >= kStreamBytes)
    return false;
  const std::int64_t rows = nest.total() / length;
  const std::int64_t together = std::max<std::int64_t>(1, kTaskElements / length);
  parallel_for(stream, (rows + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(rows, (task + 1) * together);
    NestStrides place{};
    std::int64_t from = nest.offset[0], to = nest.offset[1], rest = task * together;
    for (std::size_t d = last; d-- > 0; rest /= nest.extent[d]) {
      place[d] = rest % nest.extent[d];
      from += place[d] * nest.stride[0][d];
      to += place[d] * nest.stride[1][d];
    }
    for (std::int64_t row = task * together; row < end; ++row) {
      std::memcpy(static_cast<std::byte*>(operands[1].data) + to * size,
                  static_cast<const std::byte*>(operands[0].data) + from * size,
                  static_cast<std::size_t>(bytes));
      for (std::size_t d = last; d-- > 0;) {
        from += nest.stride[0][d], to += nest.stride[1][d];
        if (++place[d] < nest.extent[d]) break;
        from -= nest.extent[d] * nest.stride[0][d], to -= nest.extent[d] * nest.stride[1][d];
        place[d] = 0;
      }
    }
  });
  return true;
}

void run_map(const Stream& stream, const ElementwiseProblem& p, const Operands& operands) {
  const int inputs = p.inputs(), out_operand = inputs;
  std::array<NestStrides, kElementwiseOperands> strides{};
  std::size_t widest = 1;
  for (int k = 0; k <= inputs; ++k) {
    strides[at(k)] = strides_of(operands[at(k)].strides);
    widest = std::max(widest, storage_bytes(operands[at(k)].dtype));
  }
  const Nest nest =
      make_nest(p.shape.rank(), strides_of(p.shape), {strides.data(), at(inputs + 1)});
  Map map(nest, out_operand, out_operand, (1u << inputs) - 1, widest, false);
  std::array<MapOperand, kElementwiseOperands> operand;
  for (int k = 0; k <= inputs; ++k)
    operand[at(k)] = map.operand(k, operands[at(k)].data, operands[at(k)].dtype);
  const std::int64_t row = row_length(map, out_operand);
  if (row > 0) map.use_long_lines();
  const MapOperand& out = operand[at(out_operand)];
  const bool streams = bytes_for(out.dtype, map.total()) >= kStreamBytes;
  const Chosen chosen = choose(p);
  const LoopScalars scalars = scalars_for(p);

  struct State {
    State() {}  // buffers are not cleared
    std::array<Gatherer, 3> gather;
    std::array<std::byte*, kElementwiseOperands> rows{};  // of a tile: the first, and where next
    std::array<std::int64_t, kElementwiseOperands> next{};
    alignas(64) std::byte result[kPortion * sizeof(double)];
    alignas(64) std::byte tile[3][Map::kTileBytes];
  };
  // Dense rows of a tile are a fixed distance apart.
  const auto begin_rows = [&](State& s, std::int64_t first, int rows, int columns) {
    for (int k = 0; k <= inputs; ++k) {
      const MapOperand& o = operand[at(k)];
      const auto size = static_cast<std::int64_t>(storage_bytes(o.dtype));
      s.rows[at(k)] = nullptr;
      s.next[at(k)] = o.row;
      if (map.tiled(k)) {
        map.load_tile(o, k, first, rows, columns, s.tile[k]);
        s.rows[at(k)] = s.tile[k];
        s.next[at(k)] = size * Map::kTileColumns;
      } else if (map.stride(k, map.nest().rank - 1) == 1) {
        s.rows[at(k)] = static_cast<std::byte*>(o.base) + map.offset_at(k, first) * size;
      }
    }
    return false;
  };
  const auto work_portion = [&](State& s, const PortionAt& portion_at) {
    Portion portion{chosen.loop, inputs, portion_at.n, {}, {}, chosen.widens, &scalars};
    for (int k = 0; k < inputs; ++k) {
      const MapOperand& o = operand[at(k)];
      if (s.rows[at(k)] != nullptr)
        portion.in[at(k)] = {s.rows[at(k)] + portion_at.row * s.next[at(k)], o.dtype,
                             kRowsAhead * s.next[at(k)]};
      else
        s.gather[at(k)].source(o, portion_at.begin, portion_at.n, portion.in[at(k)],
                               portion.repeats[at(k)]);
    }
    std::byte* const first_row = s.rows[at(out_operand)];
    if (void* to = first_row != nullptr ? first_row + portion_at.row * s.next[at(out_operand)]
                                        : dense_at(out, portion_at.begin, portion_at.n)) {
      portion.out = {to, out.dtype, streams};
      return chosen.run(portion);
    }
    portion.out = {s.result, out.dtype, false};
    chosen.run(portion);
    scatter(out, portion_at.begin, portion_at.n, s.result);
  };
  const auto work = [&](State& s, const PortionAt& line) {
    if (row == 0) return work_portion(s, line);
    const std::int64_t end = line.begin + line.n;
    for (std::int64_t n = 0, begin = line.begin; begin < end; begin += n) {
      n = std::min(end - begin, row - begin % row);
      work_portion(s, {begin, static_cast<int>(n)});
    }
  };
  map.run(
      stream, [] { return State(); }, begin_rows, work);
}

// ---- arange and random numbers ----

Result<void> run_sequence(const Stream& stream, const ElementwiseProblem& p, const View& y) {
  const NestStrides strides = strides_of(y.strides);
  Nest nest = make_nest(p.shape.rank(), strides_of(p.shape), {&strides, 1});
  const MapOperand out{y.data, y.dtype, walk_of(nest, 0)};
  const std::int64_t total = numel(p.shape);
  const bool wide = p.op == Op::arange ? is_float(p.dtype) : p.dtype == Dtype::f64;
  const Dtype made = p.op != Op::arange ? (wide ? Dtype::f64 : Dtype::f32)
                     : wide             ? Dtype::f64
                                        : Dtype::i64;
  const Loop convert =
      other_loops().cast[static_cast<std::size_t>(made)][static_cast<std::size_t>(p.dtype)];
  const Sequence sequence{p.op, scalars_for(p), p.seed, p.offset};
  const bool streams = bytes_for(out.dtype, total) >= kStreamBytes;
  parallel_for(stream, (total + kTaskElements - 1) / kTaskElements, [&](std::int64_t task) {
    alignas(64) std::byte numbers[kPortion * sizeof(double)], result[kPortion * sizeof(double)];
    const std::int64_t end = std::min(total, (task + 1) * kTaskElements);
    for (std::int64_t begin = task * kTaskElements; begin < end; begin += kPortion) {
      const int n = static_cast<int>(std::min<std::int64_t>(kPortion, end - begin));
      make_sequence()(sequence, wide, begin, n, numbers);
      Portion portion{convert, 1, n, {{{numbers, made, 0}}}, {}, false, &sequence.scalars};
      if (void* to = dense_at(out, begin, n)) {
        portion.out = {to, out.dtype, streams};
        run_portion()(portion);
      } else {
        portion.out = {result, out.dtype, false};
        run_portion()(portion);
        scatter(out, begin, n, result);
      }
    }
  });
  return {};
}

}  // namespace

Result<void> elementwise_cpu_run(const Stream& stream, Workspace, const ElementwiseProblem& p,
                                 const Operands& operands) {
  const std::int64_t total = numel(p.shape);
  if (total == 0) return {};
  if (p.op >= Op::arange) return run_sequence(stream, p, operands[0]);
  if (total <= kSmall && all_contiguous(p, operands))
    run_small(p, operands, static_cast<int>(total));
  else if (!copied_rows(stream, p, operands))
    run_map(stream, p, operands);
  return {};
}

}  // namespace planck
