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
  Map map(problem.nest, kOut, kScale, role.q >= 0 ? 0u : 1u << kMain | 1u << kSecond,
          is_packed(view(role.out)->dtype), std::type_identity<C>{});

  const auto operand = [&](int k) {
    const View& v = problem.views[static_cast<std::size_t>(k)];
    return map.operand(k, v.data, v.dtype);
  };
  const MapOperand out = operand(kOut), in = operand(kMain), in2 = operand(kSecond);
  const MapOperand scale = operand(kScale), zero_point = operand(kZero);
  if (out.walk.dense() && in.walk.dense() && in2.walk.dense()) map.use_long_lines();
  const bool streams = bytes_for(out.dtype, map.total()) >= kStreamBytes;
  const bool masks =
      p.kind == QuantKind::quantize_backward || p.kind == QuantKind::fake_quantize_backward;
  const QuantBlocks<C>& blocks = quant_blocks<C>();

  struct State {
    State(const QuantProblem& q, const MapOperand& sc, const MapOperand* zp, int margin)
        : groups(q, sc, zp, margin) {}
    GroupLoader<C> groups;
    alignas(64) C first[kBlock];
    alignas(64) C second[kBlock];
    alignas(64) C result[kBlock];
    alignas(64) std::uint8_t bytes[kBlock];
    alignas(64) C tile[2][Map::kTileRows<C>][Map::kTileColumns];
  };
  const auto make_state = [&] {
    return State(p, scale, role.zero_point >= 0 ? &zero_point : nullptr, masks ? 1 : 0);
  };
  const auto begin_tile = [&](State& s, std::int64_t first, int rows, int columns) {
    if (map.tiled(kMain)) map.load_tile(in, kMain, first, rows, columns, s.tile[0]);
    if (second != main && map.tiled(kSecond))
      map.load_tile(in2, kSecond, first, rows, columns, s.tile[1]);
  };

  map.run(stream, make_state, begin_tile, [&](State& s, const BlockAt& at) {
    for (int done = 0, n; done < at.n; done += n) {
      const std::int64_t begin = at.begin + done;
      if (at.column >= 0) {
        s.groups.load(begin, at.n, at.column);
        n = at.n;
      } else {
        n = s.groups.load_some(begin, at.n - done, is_packed(out.dtype));
      }
      const BlockGroups<C>& g = s.groups.groups();
      const auto main_source = [&]() -> Source {
        if (at.row >= 0 && map.tiled(kMain)) return {s.tile[0][at.row] + done, dtype_of<C>};
        return source_of(in, begin, n, s.first);
      };
      const auto second_source = [&]() -> Source {
        if (at.row >= 0 && map.tiled(kSecond)) return {s.tile[1][at.row] + done, dtype_of<C>};
        return source_of(in2, begin, n, s.second);
      };
      if (out.dtype == p.quantized_dtype) {
        with_sink(out, begin, n, streams, s.bytes,
                  [&](Sink to) { blocks.quantize(g, n, main_source(), to); });
        continue;
      }
      with_sink(out, begin, n, streams, s.result, [&](Sink to) {
        switch (p.kind) {
          case QuantKind::dequantize:
            return blocks.dequantize(g, n, quantized_source_of(in, begin, n, s.bytes), to);
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
