// CPU kernels of the quantize family, elementwise kinds: blocks of 1,024 elements in the
// first-level cache.
#include "planck/loops/map.cpu.h"
#include "planck/ops/quantize/groups.cpu.h"
#include "planck/ops/quantize/kernels.h"

namespace planck {

QuantNest quant_nest(const QuantProblem& p, std::initializer_list<const View*> elements,
                     std::initializer_list<const View*> groups) {
  QuantNest out;
  std::array<NestStrides, kMaxNestOperands> strides{};
  std::size_t count = 0;
  for (const View* v : elements) {
    out.views[count] = *v;
    strides[count++] = p.element_strides(*v);
  }
  for (const View* v : groups) {
    out.views[count] = *v;
    strides[count++] = p.group_strides(*v);
  }
  const QuantProblem::Axes axes = p.axes();
  out.nest = make_nest(axes.rank, axes.extent, {strides.data(), count});
  return out;
}

GroupNeeds group_needs(const QuantProblem& p) {
  const bool masks =
      p.kind == QuantKind::quantize_backward || p.kind == QuantKind::fake_quantize_backward;
  return {.q_min = p.q_min,
          .q_max = p.q_max,
          .element = p.element_dtype,
          .sign = sign_of(p.quantized_dtype),
          .reciprocal = p.math == QuantMath::reciprocal,
          .masks = masks,
          .ordinary = !p.learnable};
}

Walk group_walk(const QuantProblem& p, const View& v) {
  const Shape shape = p.group_shape();
  const Strides steps = reshaped_strides(v, shape).value_or(Strides{});
  NestStrides extent{}, stride{};
  for (int d = 0; d < shape.rank(); ++d) {
    extent[static_cast<std::size_t>(d)] = shape[d];
    stride[static_cast<std::size_t>(d)] = steps[d];
  }
  return walk_of(make_nest(shape.rank(), extent, {&stride, 1}), 0);
}

namespace {

// Which operands a kind has, by position among the op's operands; −1: none.
struct Roles {
  int out, x, dy, q, scale, zero_point;
};

Roles roles(QuantKind kind) {
  namespace o = quant_operand;
  switch (kind) {
    case QuantKind::quantize:
      return {o::Quantize::q, o::Quantize::x, -1, -1, o::Quantize::scale, o::Quantize::zero_point};
    case QuantKind::quantize_backward:
      return {o::QuantizeBackward::dx,    o::QuantizeBackward::x,
              o::QuantizeBackward::dy,    -1,
              o::QuantizeBackward::scale, o::QuantizeBackward::zero_point};
    case QuantKind::dequantize:
      return {o::Dequantize::x,         -1, -1, o::Dequantize::q, o::Dequantize::scale,
              o::Dequantize::zero_point};
    case QuantKind::dequantize_backward:
      return {o::DequantizeBackward::dq,    -1, o::DequantizeBackward::dy, -1,
              o::DequantizeBackward::scale, -1};
    case QuantKind::fake_quantize:
      return {o::FakeQuantize::y,     o::FakeQuantize::x,         -1, -1,
              o::FakeQuantize::scale, o::FakeQuantize::zero_point};
    case QuantKind::fake_quantize_backward:
      return {o::FakeQuantizeBackward::dx,    o::FakeQuantizeBackward::x,
              o::FakeQuantizeBackward::dy,    -1,
              o::FakeQuantizeBackward::scale, o::FakeQuantizeBackward::zero_point};
    case QuantKind::dynamic_quantize:
      break;
  }
  return {o::DynamicQuantize::q,     o::DynamicQuantize::x,         -1, -1,
          o::DynamicQuantize::scale, o::DynamicQuantize::zero_point};
}

template <class C>
void elementwise(const Stream& stream, const QuantProblem& p, const Operands& operands) {
  const Roles role = roles(p.kind);
  // Nest operands: output, first input, second input, scale, zero point; the absent ones stand in
  // for others.
  const auto view = [&](int i) { return &operands[static_cast<std::size_t>(i)]; };
  const int main = role.x >= 0 ? role.x : role.dy >= 0 ? role.dy : role.q;
  const int second = role.x >= 0 && role.dy >= 0 ? role.dy : main;
  const int zero = role.zero_point >= 0 ? role.zero_point : role.scale;
  const QuantNest problem =
      quant_nest(p, {view(role.out), view(main), view(second)}, {view(role.scale), view(zero)});
  enum { kOut, kMain, kSecond, kScale, kZero };
  const bool tileable = !is_packed(view(main)->dtype);
  Map map(problem.nest, kOut, kScale, tileable ? 1u << kMain | 1u << kSecond : 0u,
          storage_bytes(view(main)->dtype), is_packed(view(role.out)->dtype));

  const auto operand = [&](int k) {
    const View& v = problem.views[static_cast<std::size_t>(k)];
    return map.operand(k, v.data, v.dtype);
  };
  const std::array<MapOperand, 3> element = {operand(kOut), operand(kMain), operand(kSecond)};
  const MapOperand &out = element[kOut], &in = element[kMain], &in2 = element[kSecond];
  const MapOperand scale = operand(kScale), zero_point = operand(kZero);
  if (out.walk.dense() && in.walk.dense() && in2.walk.dense()) map.use_long_lines();
  const bool streams = bytes_for(out.dtype, map.total()) >= kStreamBytes;
  const int last = map.nest().rank - 1;
  const bool row_groups =
      map.in_tiles() && map.stride(kScale, last) == 0 && map.stride(kZero, last) == 0;
  const GroupNeeds needs = group_needs(p);
  const QuantBlocks<C>& blocks = quant_blocks<C>();

  struct State {
    State(const MapOperand& sc, const MapOperand* zp, const GroupNeeds& gn) : groups(sc, zp, gn) {}
    GroupLoader<C> groups;
    std::array<std::byte*, 3> rows{};  // the first row of a panel or tile; null: gathered
    alignas(64) C first[kBlock];
    alignas(64) C second[kBlock];
    alignas(64) C result[kBlock];
    alignas(64) std::uint8_t bytes[kBlock];
    alignas(64) std::byte tile[2][Map::kTileBytes];
  };
  const auto make_state = [&] {
    return State(scale, role.zero_point >= 0 ? &zero_point : nullptr, needs);
  };
  const auto begin_rows = [&](State& s, std::int64_t first, int rows, int columns) {
    for (int k = kOut; k <= kSecond; ++k)
      s.rows[static_cast<std::size_t>(k)] =
          dense_at(element[static_cast<std::size_t>(k)], first, columns);
    if (map.tiled(kMain)) map.load_tile(in, kMain, first, rows, columns, s.tile[0]);
    if (second != main && map.tiled(kSecond))
      map.load_tile(in2, kSecond, first, rows, columns, s.tile[1]);
    if (row_groups)
      s.groups.load_rows(map.offset_at(kScale, first), map.stride(kScale, last - 1),
                         map.offset_at(kZero, first), map.stride(kZero, last - 1), rows);
    else if (map.in_panels())
      s.groups.load(first, columns);
  };
  // Row r of operand k, where rows are dense; null elsewhere.
  const auto row_of = [&](const State& s, int k, int r) -> std::byte* {
    std::byte* base = r < 0 ? nullptr : s.rows[static_cast<std::size_t>(k)];
    return base == nullptr ? nullptr : base + r * element[static_cast<std::size_t>(k)].row;
  };

  map.run(stream, make_state, begin_rows, [&](State& s, const BlockAt& at) {
    for (int done = 0, n; done < at.n; done += n) {
      const std::int64_t begin = at.begin + done;
      const bool known = map.in_panels() || row_groups;
      n = known ? at.n : s.groups.load_some(begin, at.n - done, is_packed(out.dtype));
      const BlockGroups<C> g = row_groups ? s.groups.row(at.row) : s.groups.groups();
      // A tile's row, else a row of a panel, else wherever the walk leads.
      const auto float_source = [&](int k, std::byte* tile, C* buffer) -> Source {
        const MapOperand& from = element[static_cast<std::size_t>(k)];
        const auto size = static_cast<std::int64_t>(storage_bytes(from.dtype));
        if (map.tiled(k)) return {tile + (at.row * Map::kTileColumns + done) * size, from.dtype};
        if (const std::byte* row = row_of(s, k, at.row))
          return {row + done * size, from.dtype, from.ahead};
        return source_of(from, begin, n, buffer);
      };
      const auto main_source = [&] { return float_source(kMain, s.tile[0], s.first); };
      const auto second_source = [&] { return float_source(kSecond, s.tile[1], s.second); };
      const auto quantized_source = [&]() -> Source {
        if (map.tiled(kMain)) return {s.tile[0] + at.row * Map::kTileColumns + done, in.dtype};
        if (const std::byte* row = row_of(s, kMain, at.row))
          return {row + done * bits(in.dtype) / 8, in.dtype, in.ahead};
        return quantized_source_of(in, begin, n, s.bytes);
      };
      const auto write = [&](auto* buffer, auto&& f) {
        if (std::byte* row = row_of(s, kOut, at.row))
          return f(Sink{row + done * bits(out.dtype) / 8, out.dtype, streams});
        with_sink(out, begin, n, streams, buffer, f);
      };
      if (out.dtype == p.quantized_dtype) {
        write(s.bytes, [&](Sink to) { blocks.quantize(g, n, main_source(), to); });
        continue;
      }
      write(s.result, [&](Sink to) {
        switch (p.kind) {
          case QuantKind::dequantize:
            return blocks.dequantize(g, n, quantized_source(), to);
          case QuantKind::dequantize_backward:
            return blocks.scale_by(g, n, main_source(), to);
          case QuantKind::fake_quantize:
            return blocks.fake_quantize(g, n, main_source(), to);
          case QuantKind::quantize_backward:
            return blocks.quantize_backward(g, n, second_source(), main_source(), to);
          default:
            return blocks.fake_quantize_backward(g, n, second_source(), main_source(), to);
        }
      });
    }
  });
}

}  // namespace

Result<void> quantize_elementwise_cpu(const Stream& stream, const QuantProblem& p,
                                      const Operands& operands) {
  if (p.element_dtype == Dtype::f64)
    elementwise<double>(stream, p, operands);
  else
    elementwise<float>(stream, p, operands);
  return {};
}

Result<void> quantize_cpu(const Stream& stream, Workspace workspace, const QuantProblem& p,
                          const Operands& operands) {
  if (p.kind == QuantKind::dynamic_quantize)
    return dynamic_quantize_cpu(stream, workspace, p, operands);
  if (p.kind == QuantKind::fake_quantize_backward && p.learnable)
    return fake_quantize_learn_cpu(stream, workspace, p, operands);
  return quantize_elementwise_cpu(stream, p, operands);
}

}  // namespace planck
