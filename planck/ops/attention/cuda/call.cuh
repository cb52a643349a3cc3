// The arguments of the kernels of attention, and rows that are done by definition.
#pragma once

#include "planck/core/stream.h"
#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/attention/cuda/scores.cuh"

namespace planck::attention_device {

inline Operand operand_of(const View& x) {
  Operand o{x.data, {}};
  for (int d = 0; d < x.shape.rank(); ++d) o.stride[d] = x.strides[d];
  return o;
}

// All but delta and the place of what dropout draws.
inline Call call_of(const AttentionProblem& p, const Operands& o) {
  Call c{};
  c.q = operand_of(o[attention_operand::q]);
  c.k = operand_of(o[attention_operand::k]);
  c.v = operand_of(o[attention_operand::v]);
  c.y = operand_of(o[attention_operand::y]);
  c.lse = operand_of(o[attention_operand::lse]);
  if (p.mask) c.mask = operand_of(o[attention_operand::mask]);
  if (p.backward()) {
    c.dy = operand_of(o[attention_operand::dy]);
    c.dq = operand_of(o[attention_operand::dq]);
    c.dk = operand_of(o[attention_operand::dk]);
    c.dv = operand_of(o[attention_operand::dv]);
  }
  c.batch = p.batch(), c.heads = p.heads(), c.groups = p.groups();
  c.queries = p.queries(), c.keys = p.keys();
  c.width = static_cast<int>(p.width()), c.out_width = static_cast<int>(p.out_width());
  c.scale = p.scale(), c.causal = p.options.causal, c.window = p.options.window;
  c.masked = p.mask.has_value(), c.boolean = p.mask == Dtype::boolean;
  c.soft_cap = p.options.soft_cap, c.alibi = p.options.alibi;
  c.dropout = p.options.dropout, c.drops = p.options.dropout > 0;
  c.first_query = p.first_query, c.first_key = p.first_key;
  c.all_queries = p.all_queries.value_or(p.queries()), c.all_keys = p.all_keys.value_or(p.keys());
  return c;
}

inline Result<void> find_random(const Stream& stream, const AttentionProblem& p, Call& c) {
  if (!c.drops) return {};
  const auto place = random_place(stream, p.options.seed, p.options.offset);
  if (!place) return tl::unexpected(place.error());
  c.random = *place;
  return {};
}

// Of a call with products of tensor cores: chosen rows again, by definition.
enum class Part : std::uint8_t { forward, dq, dk_dv };
template <class T>
Result<void> attend_again(const Stream&, const Call&, const ChosenRows&, Part);

}  // namespace planck::attention_device
