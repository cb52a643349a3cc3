// CPU kernels of the quantize family, elementwise kinds: chunks of 1,024 elements in the
// first-level cache.
#include "planck/loops/cpu/map.h"
#include "planck/ops/quantize/cpu/groups.h"
#include "planck/ops/quantize/cpu/kernels.h"
#include "planck/ops/quantize/cpu/transposed.h"

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
  if (const TransposedQuantize<C> transposed(map, {kOut, kMain, kScale, kZero});
      out.dtype == p.quantized_dtype && transposed.fits(out.dtype))
    return transposed.run(stream, out, in, scale, role.zero_point >= 0 ? &zero_point : nullptr,
                          needs, streams);

  struct State {
    State(const MapOperand& sc, const MapOperand* zp, const GroupNeeds& gn) : groups(sc, zp, gn) {}
    GroupLoader<C> groups;
    std::array<std::byte*, 3> rows{};  // the first row of a panel or tile; null: gathered
    std::array<std::int64_t, 3> row_bytes{};
    alignas(64) C first[kBlock];
    alignas(64) C second[kBlock];
    alignas(64) C result[kBlock];
    alignas(64) std::uint8_t bytes[kBlock];
    alignas(64) std::byte tile[2][Map::kTileBytes];
  };
  const auto make_state = [&] {
    return State(scale, role.zero_point >= 0 ? &zero_point : nullptr, needs);
  };
  // Rows of operand k: those of the tile, or where they lie in memory if they are dense there.
  const auto begin_rows = [&](State& s, std::int64_t first, int rows, int columns) {
    bool all_dense = true;
    for (int k = kOut; k <= (second != main ? kSecond : kMain); ++k) {
      const auto i = static_cast<std::size_t>(k);
      s.row_bytes[i] = element[i].row;
      if (!map.tiled(k)) {
        s.rows[i] = dense_at(element[i], first, columns);
        all_dense &= s.rows[i] != nullptr;
        continue;
      }
      s.rows[i] = s.tile[k - kMain];
      s.row_bytes[i] = Map::kTileColumns * bits(element[i].dtype) / 8;
      map.load_tile(element[i], k, first, rows, columns, s.rows[i]);
    }
    if (row_groups)
      s.groups.load_rows(map.offset_at(kScale, first), map.stride(kScale, last - 1),
                         map.offset_at(kZero, first), map.stride(kZero, last - 1), rows);
    else if (map.in_panels())
      s.groups.load(first, columns);
    return all_dense && (row_groups || map.in_panels());
  };

  map.run(stream, make_state, begin_rows, [&](State& s, const BlockAt& at) {
    const bool known_groups = map.in_panels() || row_groups;
    for (int done = 0, n; done < at.n; done += n) {
      const std::int64_t begin = at.begin + done;
      n = known_groups ? at.n : s.groups.load_some(begin, at.n - done, is_packed(out.dtype));
      const BlockGroups<C> g = known_groups ? s.groups.groups().at_row(at.row) : s.groups.groups();
      const auto row_of = [&](int k) -> std::byte* {
        const auto i = static_cast<std::size_t>(k);
        if (at.row < 0 || s.rows[i] == nullptr) return nullptr;
        return s.rows[i] + at.row * s.row_bytes[i] + done * bits(element[i].dtype) / 8;
      };
      const auto dense_source = [&](int k, const std::byte* row) -> Source {
        const auto i = static_cast<std::size_t>(k);
        return {row, element[i].dtype, map.tiled(k) ? s.row_bytes[i] : element[i].ahead,
                s.row_bytes[i]};
      };
      const auto float_source = [&](int k, C* buffer) -> Source {
        if (const std::byte* row = row_of(k)) return dense_source(k, row);
        return source_of(element[static_cast<std::size_t>(k)], begin, n, buffer);
      };
      const auto x_source = [&] { return float_source(kMain, s.first); };
      const auto dy_source = [&] { return float_source(kSecond, s.second); };
      const auto q_source = [&]() -> Source {
        if (const std::byte* row = row_of(kMain)) return dense_source(kMain, row);
        return quantized_source_of(in, begin, n, s.bytes);
      };
      const auto write = [&](auto* buffer, auto&& f) {
        if (std::byte* row = row_of(kOut))
          return f(Sink{row, out.dtype, streams, s.row_bytes[kOut]});
        with_sink(out, begin, n, streams, buffer, f);
      };
      if (out.dtype == p.quantized_dtype) {
        write(s.bytes, [&](Sink to) { blocks.quantize(g, at.rows, n, x_source(), to); });
        continue;
      }
      write(s.result, [&](Sink to) {
        switch (p.kind) {
          case QuantKind::dequantize:
            return blocks.dequantize(g, at.rows, n, q_source(), to);
          case QuantKind::dequantize_backward:
            return blocks.scale_by(g, at.rows, n, x_source(), to);
          case QuantKind::fake_quantize:
            return blocks.fake_quantize(g, at.rows, n, x_source(), to);
          case QuantKind::quantize_backward:
            return blocks.quantize_backward(g, at.rows, n, dy_source(), x_source(), to);
          default:
            return blocks.fake_quantize_backward(g, at.rows, n, dy_source(), x_source(), to);
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
