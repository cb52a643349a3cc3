// The three passes over blocks of scores: forward and dq, whose lanes are queries, and dk with dv,
// whose lanes are keys. P is one of products.h.
#pragma once

#include "planck/ops/attention/cpu/panels.h"

namespace planck::attention {

// What all passes know. `packed` counts heads of k and v: n * G + g.
template <class P>
struct Pass {
  using C = typename P::C;
  const AttentionProblem& p;
  const Operands& operands;
  const P& products;
  const ScoreLoops<C>& loops = score_loops<C>();
  C scale = static_cast<C>(p.scale()), cap = static_cast<C>(p.options.soft_cap);
  bool drops = p.options.dropout > 0;
  C keep = static_cast<C>(1 - p.options.dropout);            // numbers below it
  C enlarged = static_cast<C>(1 / (1 - p.options.dropout));  // what is kept, times this

  int width() const { return products.width(); }

  // Query lanes of a panel: keys that the panel sees, and limits of one block of them.
  std::pair<std::int64_t, std::int64_t> keys_of(std::int64_t first, std::int64_t lanes) const {
    return {p.seen(first).first, p.seen(first + lanes - 1).second};
  }
  Limits limits_of_queries(std::int64_t first, std::int64_t lanes, std::int64_t row,
                           std::int64_t rows) const {
    return limits_of(width(), lanes, row, rows, [&](int w) { return p.seen(first + w); });
  }
  // Key lanes: queries that see key j.
  std::pair<std::int64_t, std::int64_t> seen_by(std::int64_t j) const {
    if (!p.options.causal) return {0, p.queries()};
    const std::int64_t first = j - (p.keys() - p.queries());
    const std::int64_t end = p.options.window == 0 ? p.queries() : first + p.options.window;
    return {std::clamp<std::int64_t>(first, 0, p.queries()),
            std::clamp<std::int64_t>(end, 0, p.queries())};
  }

  // Products of a block, and what makes scores of them; `room` is for what is added.
  ScoreBlock<C> scores(const BlockPlace& b, C* values, C* room, const Limits& limits) const {
    const bool hides = limits.any_hidden;
    return {values,
            static_cast<int>(b.rows),
            width(),
            scale,
            cap,
            added(b, room),
            hides ? limits.first : nullptr,
            hides ? limits.end : nullptr};
  }
  // What is added to scores, the mask and ALiBi's part; null: nothing is.
  const C* added(const BlockPlace& b, C* room) const {
    if (!p.mask && !p.options.alibi) return nullptr;
    if (p.mask)
      mask_of_block(operands[attention_operand::mask], b, width(), room);
    else
      std::fill_n(room, b.rows * width(), C(0));
    if (p.options.alibi) {
      const std::int64_t more = p.keys() - p.queries();
      const std::int64_t base = b.lane + (b.lane_axis == 2 ? more : -more) - b.row;
      loops.incline(room, static_cast<int>(b.rows), width(), static_cast<std::int32_t>(base),
                    attention_math::alibi_slope<C>(b.head, p.heads()));
    }
    return room;
  }
  // 1 where a probability of the block is kept, else 0: [rows][width].
  void draw(const BlockPlace& b, C* out) const {
    const PhiloxStream random{p.options.seed, p.options.offset};
    const auto number = [&](std::int64_t i, std::int64_t j) {
      return static_cast<std::uint64_t>(p.place_of(b.n, b.head, i, j));
    };
    std::fill_n(out, b.rows * width(), C(0));
    if (b.lane_axis == 2)
      for (std::int64_t w = 0; w < b.lanes; ++w)
        loops.draw(random, number(b.lane + w, b.row), static_cast<int>(b.rows), keep, out + w,
                   width());
    else
      for (std::int64_t r = 0; r < b.rows; ++r)
        loops.draw(random, number(b.row + r, b.lane), static_cast<int>(b.lanes), keep,
                   out + r * width(), 1);
  }
  void drop(const BlockPlace& b, C* values, const C* kept, C factor) const {
    loops.drop(values, kept, factor, static_cast<int>(b.rows) * width());
  }
};

template <class P>
void forward_panel(const Pass<P>& pass, const PackedOperand<P>& k, const PackedOperand<P>& v,
                   const typename P::C* packed_k, const typename P::C* packed_v, std::int64_t n,
                   std::int64_t head, std::int64_t first) {
  const std::int64_t group = head / pass.p.in_group();
  using C = typename P::C;
  const AttentionProblem& p = pass.p;
  const P& products = pass.products;
  const int width = pass.width();
  const std::int64_t lanes = std::min<std::int64_t>(width, p.queries() - first);
  Lanes<C> q;
  Scores<C> scores, added, kept;
  Sums<C> sums;
  products.pack_lanes(side_of(pass.operands[attention_operand::q], n, head, first), lanes,
                      p.width(), q.at);
  alignas(64) C largest[kMostLanes], partial[attention_math::kPartialSums * kMostLanes] = {},
                                                                            factor[kMostLanes];
  std::fill_n(largest, kMostLanes, -math::infinity_of(C(0)));
  std::fill_n(sums.at, p.out_width() * width, C(0));
  const auto [first_key, end_key] = pass.keys_of(first, lanes);
  for (std::int64_t b = first_key / kRows; b * kRows < end_key; ++b) {
    const BlockPart part = k.part(b, first_key, end_key);
    const std::int64_t rows = part.rows, row = part.row();
    products.multiply(k.from(packed_k, n, group, 0, part), rows, q.at, p.width(), scores.at, false);
    const Limits limits = pass.limits_of_queries(first, lanes, row, rows);
    const BlockPlace place{n, head, 2, first, lanes, row, rows};
    pass.loops.soften(pass.scores(place, scores.at, added.at, limits), largest, partial, factor);
    if (std::any_of(factor, factor + width, [](C f) { return f != C(1); }))
      pass.loops.rescale(sums.at, p.out_width(), width, factor);
    if (pass.drops) {
      pass.draw(place, kept.at);
      pass.drop(place, scores.at, kept.at, C(1));
    }
    products.take_lanes(scores.at, rows);
    products.multiply_seen(v.from(packed_v, n, group, 0, part), v.finite(packed_v, 0, b),
                           p.out_width(), scores.at, rows, sums.at);
  }
  alignas(64) C lse[kMostLanes];
  pass.loops.conclude(largest, partial, width, lse, factor);
  for (int w = 0; pass.drops && w < width; ++w) factor[w] *= pass.enlarged;
  store_panel(pass.operands[attention_operand::y], n, head, first, lanes, width, sums.at, factor);
  const View& out = pass.operands[attention_operand::lse];
  store_portion(portion_ops(), out.dtype, out.data,
                n * out.strides[0] + head * out.strides[1] + first * out.strides[2], out.strides[2],
                static_cast<int>(lanes), lse);
}

// The sums of dy * y of all queries of a head.
template <class C>
void deltas_of(const View& y, const View& dy, std::int64_t n, std::int64_t head, C* out) {
  C a[kMostHeadWidth], b[kMostHeadWidth];
  const auto width = static_cast<int>(y.shape[3]);
  const auto row = [&](const View& x, std::int64_t i, C* to) -> const C* {
    const std::int64_t at = n * x.strides[0] + head * x.strides[1] + i * x.strides[2];
    if (x.dtype == dtype_of<C> && x.strides[3] == 1) return static_cast<const C*>(x.data) + at;
    load_portion(portion_ops(), x.dtype, x.data, at, x.strides[3], width, to);
    return to;
  };
  for (std::int64_t i = 0; i < y.shape[2]; ++i)
    out[i] = score_loops<C>().dot(row(dy, i, b), row(y, i, a), width);
}

// Sums [head of the group][query][d] to dq; changes them.
template <class P>
void store_dq(const Pass<P>& pass, std::int64_t n, std::int64_t group, typename P::C* sums) {
  using C = typename P::C;
  const AttentionProblem& p = pass.p;
  const View& out = pass.operands[attention_operand::dq];
  constexpr int kLanes = 8;  // of any instruction set
  C factor[kLanes];
  std::fill_n(factor, kLanes, pass.scale);
  pass.loops.finish(sums, static_cast<int>(p.in_group() * p.queries() * p.width() / kLanes), kLanes,
                    factor);
  for (std::int64_t h = 0; h < p.in_group(); ++h)
    for (std::int64_t i = 0; i < p.queries(); ++i, sums += p.width())
      store_portion(
          portion_ops(), out.dtype, out.data,
          n * out.strides[0] + (group * p.in_group() + h) * out.strides[1] + i * out.strides[2],
          out.strides[3], static_cast<int>(p.width()), sums);
}

// lse of `count` queries.
template <class C>
void load_lse(const View& lse, std::int64_t n, std::int64_t head, std::int64_t first,
              std::int64_t count, C* out) {
  load_portion(portion_ops(), lse.dtype, lse.data,
               n * lse.strides[0] + head * lse.strides[1] + first * lse.strides[2], lse.strides[2],
               static_cast<int>(count), out);
}

// k, v: [key][d], [key][e]; k_across: keys are summed over. delta: of this head.
template <class P>
void dq_panel(const Pass<P>& pass, const PackedOperand<P>& k, const PackedOperand<P>& v,
              const PackedOperand<P>& k_across, const typename P::C* const (&packed)[3],
              const typename P::C* delta, std::int64_t n, std::int64_t head, std::int64_t first) {
  const std::int64_t group = head / pass.p.in_group();
  using C = typename P::C;
  const AttentionProblem& p = pass.p;
  const P& products = pass.products;
  const int width = pass.width();
  const std::int64_t lanes = std::min<std::int64_t>(width, p.queries() - first);
  Lanes<C> q, dy;
  Scores<C> scores, slopes, added, kept;
  Sums<C> sums;
  products.pack_lanes(side_of(pass.operands[attention_operand::q], n, head, first), lanes,
                      p.width(), q.at);
  products.pack_lanes(side_of(pass.operands[attention_operand::dy], n, head, first), lanes,
                      p.out_width(), dy.at);
  alignas(64) C lse[kMostLanes] = {}, deltas[kMostLanes] = {}, factor[kMostLanes];
  load_lse(pass.operands[attention_operand::saved_lse], n, head, first, lanes, lse);
  std::copy_n(delta + first, lanes, deltas);
  std::fill_n(factor, kMostLanes, pass.scale);
  std::fill_n(sums.at, p.width() * width, C(0));
  const auto [first_key, end_key] = pass.keys_of(first, lanes);
  for (std::int64_t b = first_key / kRows; b * kRows < end_key; ++b) {
    const BlockPart part = k.part(b, first_key, end_key);
    const std::int64_t rows = part.rows, row = part.row();
    products.multiply(k.from(packed[0], n, group, 0, part), rows, q.at, p.width(), scores.at,
                      false);
    products.multiply(v.from(packed[1], n, group, 0, part), rows, dy.at, p.out_width(), slopes.at,
                      false);
    const Limits limits = pass.limits_of_queries(first, lanes, row, rows);
    const BlockPlace place{n, head, 2, first, lanes, row, rows};
    if (pass.drops) {
      pass.draw(place, kept.at);
      pass.drop(place, slopes.at, kept.at, pass.enlarged);
    }
    pass.loops.slopes(pass.scores(place, scores.at, added.at, limits), slopes.at, lse, deltas,
                      true);
    products.take_lanes(slopes.at, rows);
    products.multiply_seen(k_across.from(packed[2], n, group, 0, part),
                           k_across.finite(packed[2], 0, b), p.width(), slopes.at, rows, sums.at);
  }
  store_panel(pass.operands[attention_operand::dq], n, head, first, lanes, width, sums.at, factor);
}

// q, dy: [query][d], [query][e] of all heads of the group; across: queries are summed over. delta:
// of the group's heads, one after the other. dq: sums [head of the group][query][d] to add to, if k
// is finite and can be read in place; or null. Keys come in order, as in dq_panel.
template <class P>
void dk_dv_panel(const Pass<P>& pass, const PackedOperand<P>& q, const PackedOperand<P>& dy,
                 const PackedOperand<P>& q_across, const PackedOperand<P>& dy_across,
                 const typename P::C* const (&packed)[4], const typename P::C* delta,
                 typename P::C* dq, std::int64_t n, std::int64_t group, std::int64_t first) {
  using C = typename P::C;
  const AttentionProblem& p = pass.p;
  const P& products = pass.products;
  const int width = pass.width();
  const std::int64_t lanes = std::min<std::int64_t>(width, p.keys() - first);
  Lanes<C> k, v;
  Scores<C> scores, slopes, added, kept;
  Sums<C> dk, dv;
  products.pack_lanes(side_of(pass.operands[attention_operand::k], n, group, first), lanes,
                      p.width(), k.at);
  products.pack_lanes(side_of(pass.operands[attention_operand::v], n, group, first), lanes,
                      p.out_width(), v.at);
  std::fill_n(dk.at, p.width() * width, C(0));
  std::fill_n(dv.at, p.out_width() * width, C(0));
  const std::int64_t from = pass.seen_by(first).first, to = pass.seen_by(first + lanes - 1).second;
  for (std::int64_t h = 0; h < p.in_group(); ++h) {
    const std::int64_t head = group * p.in_group() + h;
    for (std::int64_t b = from / kRows; b * kRows < to; ++b) {
      const BlockPart part = q.part(b, from, to);
      const std::int64_t rows = part.rows, row = part.row();
      products.multiply(q.from(packed[0], n, group, h, part), rows, k.at, p.width(), scores.at,
                        false);
      products.multiply(dy.from(packed[1], n, group, h, part), rows, v.at, p.out_width(), slopes.at,
                        false);
      C lse[kRows];
      load_lse(pass.operands[attention_operand::saved_lse], n, head, row, rows, lse);
      const Limits limits =
          limits_of(width, lanes, row, rows, [&](int w) { return pass.seen_by(first + w); });
      const BlockPlace place{n, head, 3, first, lanes, row, rows};
      if (pass.drops) {
        pass.draw(place, kept.at);
        pass.drop(place, slopes.at, kept.at, pass.enlarged);
      }
      pass.loops.slopes(pass.scores(place, scores.at, added.at, limits), slopes.at, lse,
                        delta + h * p.queries() + row, false);
      if (pass.drops) pass.drop(place, scores.at, kept.at, C(1));
      products.take_lanes(scores.at, rows);
      products.take_lanes(slopes.at, rows);
      products.multiply_seen(dy_across.from(packed[3], n, group, h, part),
                             dy_across.finite(packed[3], h, b), p.out_width(), scores.at, rows,
                             dv.at);
      products.multiply_seen(q_across.from(packed[2], n, group, h, part),
                             q_across.finite(packed[2], h, b), p.width(), slopes.at, rows, dk.at);
      if constexpr (P::kCut != 0)
        if (dq != nullptr) {
          const gemm::Side keys = side_of(pass.operands[attention_operand::k], n, group, first);
          products.multiply_back(slopes.at, rows, static_cast<const C*>(keys.data) + keys.offset,
                                 keys.along, p.width(), lanes,
                                 dq + (h * p.queries() + row) * p.width());
        }
    }
  }
  C factor[kMostLanes];
  std::fill_n(factor, kMostLanes, pass.scale);
  store_panel(pass.operands[attention_operand::dk], n, group, first, lanes, width, dk.at, factor);
  std::fill_n(factor, kMostLanes, pass.drops ? pass.enlarged : C(1));
  store_panel(pass.operands[attention_operand::dv], n, group, first, lanes, width, dv.at, factor);
}

}  // namespace planck::attention
