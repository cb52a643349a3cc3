// "cpu:simd" and "cpu:plain": the elementwise kinds, portions of 1,024 elements in the first-level
// cache.
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
  return {.q_min = p.lowest(),
          .q_max = p.highest(),
          .element = p.element_dtype,
          .sign = sign_of(p.dtype),
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

// Operands of the nest.
enum NestOperand { kOut, kMain, kSecond, kScale, kZero };

// The views of a problem in that order; those that a kind does not have stand in for others.
struct NestViews {
  NestViews(QuantKind kind, const Operands& operands) {
    const Roles role = roles(kind);
    const auto view = [&](int i) { return &operands[static_cast<std::size_t>(i)]; };
    const int first = role.x >= 0 ? role.x : role.dy >= 0 ? role.dy : role.q;
    has_second = role.x >= 0 && role.dy >= 0;
    has_zero_point = role.zero_point >= 0;
    out = view(role.out);
    main = view(first);
    second = view(has_second ? role.dy : first);
    scale = view(role.scale);
    zero_point = view(has_zero_point ? role.zero_point : role.scale);
  }
  const View *out, *main, *second, *scale, *zero_point;
  bool has_second, has_zero_point;
};

// An elementwise kind over one set of operands: the map cuts it, groups are loaded, and each piece
// goes through the loops of QuantPortions.
template <class C>
class Elementwise {
 public:
  // vectors: the vector loops, where groups are ordinary.
  Elementwise(const QuantProblem& p, const NestViews& v, bool vectors)
      : p_(p),
        vectors_(vectors),
        has_second_(v.has_second),
        has_zero_point_(v.has_zero_point),
        problem_(quant_nest(p, {v.out, v.main, v.second}, {v.scale, v.zero_point})),
        map_(problem_.nest, kOut, kScale,
             is_packed(v.main->dtype) ? 0u : 1u << kMain | 1u << kSecond,
             storage_bytes(v.main->dtype), is_packed(v.out->dtype)),
        element_{operand(kOut), operand(kMain), operand(kSecond)},
        scale_(operand(kScale)),
        zero_point_(operand(kZero)),
        streams_(bytes_for(out().dtype, map_.total()) >= kStreamBytes),
        last_(map_.nest().rank - 1),
        row_groups_(map_.in_tiles() && map_.stride(kScale, last_) == 0 &&
                    map_.stride(kZero, last_) == 0) {
    if (out().walk.dense() && in().walk.dense() && element_[kSecond].walk.dense())
      map_.use_long_lines();
  }

  void run(const Stream& stream) const {
    const MapOperand* zero_point = has_zero_point_ ? &zero_point_ : nullptr;
    GroupNeeds needs = group_needs(p_);
    needs.ordinary &= vectors_;
    if (const TransposedQuantize<C> transposed(map_, {kOut, kMain, kScale, kZero});
        out().dtype == p_.dtype && transposed.fits(out().dtype))
      return transposed.run(stream, out(), in(), scale_, zero_point, needs, streams_);
    const auto make_state = [&] { return State(scale_, zero_point, needs); };
    const auto begin = [this](State& s, std::int64_t first, int rows, int columns) {
      return begin_rows(s, first, rows, columns);
    };
    map_.run(stream, make_state, begin, [this](State& s, const PortionAt& at) { work(s, at); });
  }

 private:
  struct State {
    State(const MapOperand& sc, const MapOperand* zp, const GroupNeeds& gn) : groups(sc, zp, gn) {}
    GroupLoader<C> groups;
    std::array<std::byte*, 3> rows{};  // the first row of a panel or tile; null: gathered
    std::array<std::int64_t, 3> row_bytes{};
    alignas(64) C first[kPortion];
    alignas(64) C second[kPortion];
    alignas(64) C result[kPortion];
    alignas(64) std::uint8_t bytes[kPortion];
    alignas(64) std::byte tile[2][Map::kTileBytes];
  };

  MapOperand operand(int k) const {
    const View& v = problem_.views[static_cast<std::size_t>(k)];
    return map_.operand(k, v.data, v.dtype);
  }
  const MapOperand& out() const { return element_[kOut]; }
  const MapOperand& in() const { return element_[kMain]; }

  // Before the rows of a panel or tile: finds the rows of each operand, those of the tile or, if
  // they are dense there, in memory; loads what is known of their groups. Returns whether one call
  // does all rows.
  bool begin_rows(State& s, std::int64_t first, int rows, int columns) const {
    bool all_dense = true;
    for (int k = kOut; k <= (has_second_ ? kSecond : kMain); ++k) {
      const auto i = static_cast<std::size_t>(k);
      s.row_bytes[i] = element_[i].row;
      if (!map_.tiled(k)) {
        s.rows[i] = dense_at(element_[i], first, columns);
        all_dense &= s.rows[i] != nullptr;
        continue;
      }
      s.rows[i] = s.tile[k - kMain];
      s.row_bytes[i] = Map::kTileColumns * bits(element_[i].dtype) / 8;
      map_.load_tile(element_[i], k, first, rows, columns, s.rows[i]);
    }
    if (row_groups_)
      s.groups.load_rows(map_.offset_at(kScale, first), map_.stride(kScale, last_ - 1),
                         map_.offset_at(kZero, first), map_.stride(kZero, last_ - 1), rows);
    else if (map_.in_panels())
      s.groups.load(first, columns);
    return all_dense && (row_groups_ || map_.in_panels());
  }

  // One piece of the map, cut where the groups that are loaded at once end.
  void work(State& s, const PortionAt& at) const {
    const bool known_groups = map_.in_panels() || row_groups_;
    for (int done = 0, n; done < at.n; done += n) {
      n = known_groups ? at.n
                       : s.groups.load_some(at.begin + done, at.n - done, is_packed(out().dtype));
      const PortionGroups<C> g =
          known_groups ? s.groups.groups().at_row(at.row) : s.groups.groups();
      apply(g, Part{*this, s, at, done, n});
    }
  }

  // Positions [done, done + n) of a piece: operands where they lie, or through the state's buffers.
  struct Part {
    const Elementwise& e;
    State& s;
    const PortionAt& at;
    int done, n;

    std::byte* row_of(int k) const {
      const auto i = static_cast<std::size_t>(k);
      if (at.row < 0 || s.rows[i] == nullptr) return nullptr;
      return s.rows[i] + at.row * s.row_bytes[i] + done * bits(e.element_[i].dtype) / 8;
    }
    Source dense_source(int k, const std::byte* row) const {
      const auto i = static_cast<std::size_t>(k);
      return {row, e.element_[i].dtype, e.map_.tiled(k) ? s.row_bytes[i] : e.element_[i].ahead,
              s.row_bytes[i]};
    }
    Source float_source(int k, C* buffer) const {
      if (const std::byte* row = row_of(k)) return dense_source(k, row);
      return source_of(e.element_[static_cast<std::size_t>(k)], at.begin + done, n, buffer);
    }
    Source first() const { return float_source(kMain, s.first); }
    Source second() const { return float_source(kSecond, s.second); }
    Source quantized() const {
      if (const std::byte* row = row_of(kMain)) return dense_source(kMain, row);
      return quantized_source_of(e.in(), at.begin + done, n, s.bytes);
    }
    // Calls f(sink).
    template <class T, class F>
    void write(T* buffer, F&& f) const {
      if (std::byte* row = row_of(kOut))
        return f(Sink{row, e.out().dtype, e.streams_, s.row_bytes[kOut]});
      with_sink(e.out(), at.begin + done, n, e.streams_, buffer, f);
    }
  };

  void apply(const PortionGroups<C>& g, const Part& part) const {
    const int rows = part.at.rows, n = part.n;
    if (out().dtype == p_.dtype) {
      part.write(part.s.bytes, [&](Sink to) { portions_.quantize(g, rows, n, part.first(), to); });
      return;
    }
    part.write(part.s.result, [&](Sink to) {
      switch (p_.kind) {
        case QuantKind::dequantize:
          return portions_.dequantize(g, rows, n, part.quantized(), to);
        case QuantKind::dequantize_backward:
          return portions_.scale_by(g, rows, n, part.first(), to);
        case QuantKind::fake_quantize:
          return portions_.fake_quantize(g, rows, n, part.first(), to);
        case QuantKind::quantize_backward:
          return portions_.quantize_backward(g, rows, n, part.second(), part.first(), to);
        default:
          return portions_.fake_quantize_backward(g, rows, n, part.second(), part.first(), to);
      }
    });
  }

  const QuantProblem& p_;
  const QuantPortions<C>& portions_ = quant_portions<C>();
  bool vectors_, has_second_, has_zero_point_;
  QuantNest problem_;
  Map map_;
  std::array<MapOperand, 3> element_;
  MapOperand scale_, zero_point_;
  bool streams_;
  int last_;         // the innermost axis of the map
  bool row_groups_;  // tiles: one group per row
};

template <class C>
Result<void> elementwise(const Stream& stream, const QuantProblem& p, const Operands& operands,
                         bool vectors) {
  Elementwise<C>(p, NestViews(p.kind, operands), vectors).run(stream);
  return {};
}

Result<void> elementwise(const Stream& stream, const QuantProblem& p, const Operands& operands,
                         bool vectors) {
  return p.element_dtype == Dtype::f64 ? elementwise<double>(stream, p, operands, vectors)
                                       : elementwise<float>(stream, p, operands, vectors);
}

}  // namespace

std::string quantize_simd_cpu_refusal(const QuantProblem& p) {
  if (p.element_dtype == Dtype::f64) return "has no loops for f64, cpu:plain has";
  if (p.math == QuantMath::reciprocal) return "has no loops for math=reciprocal, cpu:plain has";
  return "";
}

Result<void> quantize_simd_cpu(const Stream& stream, Workspace, const QuantProblem& p,
                               const Operands& operands) {
  return elementwise(stream, p, operands, true);
}

Result<void> quantize_plain_cpu(const Stream& stream, Workspace, const QuantProblem& p,
                                const Operands& operands) {
  return elementwise(stream, p, operands, false);
}

}  // namespace planck
