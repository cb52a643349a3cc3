// cpu:fma_chain and cpu:integer_lanes. For some heads of k and v at a time, as many as the
// workspace holds, all threads pack what panels read, then panels of queries (dk and dv: of keys)
// are tasks.
#include "planck/loops/parallel.h"
#include "planck/ops/attention/cpu/kernels.h"
#include "planck/ops/attention/cpu/passes.h"

namespace planck {

using namespace attention;

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;  // of packed heads, unless one has more

// The operands that a pass packs, in order.
template <class P, int kCount>
struct Packing {
  using C = typename P::C;
  PackedOperand<P> operand[kCount];

  std::int64_t words() const {  // of one head of k and v
    std::int64_t sum = 0;
    for (const auto& o : operand) sum += o.words();
    return sum;
  }
  void place(const C* base, const C* (&parts)[kCount]) const {
    for (int i = 0; i < kCount; ++i) {
      parts[i] = base;
      base += operand[i].words();
    }
  }
  std::int64_t tasks() const {
    std::int64_t sum = 0;
    for (const auto& o : operand) sum += o.tasks();
    return sum;
  }
  void pack(C* base, std::int64_t n, std::int64_t group, std::int64_t task) const {
    for (const auto& o : operand) {
      if (task < o.tasks()) return o.pack(base, n, group, task);
      task -= o.tasks();
      base += o.words();
    }
  }
};

// Heads of k and v that are packed at once.
std::int64_t heads_at_once(const AttentionProblem& p, std::int64_t bytes) {
  const std::int64_t all = p.batch() * p.groups();
  return std::clamp<std::int64_t>(kMostBytes / std::max<std::int64_t>(bytes, 1), 1, all);
}

// Calls panel(base, n, group, task) for all `panels` of each head of k and v.
template <class P, int kCount, class Panel>
void run_pass(const Stream& stream, const AttentionProblem& p, typename P::C* room,
              const Packing<P, kCount>& packing, std::int64_t panels, const Panel& panel) {
  using C = typename P::C;
  const std::int64_t words = packing.words(), groups = p.groups();
  const std::int64_t all = p.batch() * groups;
  const std::int64_t most = heads_at_once(p, words * static_cast<std::int64_t>(sizeof(C)));
  for (std::int64_t start = 0; start < all; start += most) {
    const std::int64_t count = std::min(most, all - start), tasks = packing.tasks();
    parallel_for(stream, count * tasks, [&](std::int64_t t) {
      const std::int64_t head = start + t / tasks;
      packing.pack(room + t / tasks * words, head / groups, head % groups, t % tasks);
    });
    parallel_for(stream, count * panels, [&](std::int64_t t) {
      const std::int64_t head = start + t / panels;
      const C* parts[kCount];
      packing.place(room + t / panels * words, parts);
      panel(parts, head / groups, head % groups, t % panels);
    });
  }
}

std::int64_t panels_of(std::int64_t extent, int width) { return (extent + width - 1) / width; }

template <class P>
Packing<P, 2> forward_packing(const P& products, const Operands& o) {
  return {{{products, o[attention_operand::k], 1, false},
           {products, o[attention_operand::v], 1, true}}};
}
template <class P>
Packing<P, 3> dq_packing(const P& products, const Operands& o) {
  return {{{products, o[attention_operand::k], 1, false},
           {products, o[attention_operand::v], 1, false},
           {products, o[attention_operand::k], 1, true}}};
}
template <class P>
Packing<P, 4> dk_dv_packing(const P& products, const AttentionProblem& p, const Operands& o) {
  return {{{products, o[attention_operand::q], p.in_group(), false},
           {products, o[attention_operand::dy], p.in_group(), false},
           {products, o[attention_operand::q], p.in_group(), true},
           {products, o[attention_operand::dy], p.in_group(), true}}};
}

// Words of the workspace that hold delta.
std::int64_t delta_words(const AttentionProblem& p) {
  return (p.batch() * p.heads() * p.queries() + 15) / 16 * 16;
}

template <class P>
void forward(const Stream& stream, const AttentionProblem& p, const Operands& operands,
             typename P::C* room) {
  const P products(p.element_dtype);
  const Pass<P> pass{p, operands, products};
  const auto packing = forward_packing(products, operands);
  const std::int64_t panels = panels_of(p.queries(), products.width());
  run_pass(stream, p, room, packing, p.in_group() * panels,
           [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
             forward_panel(pass, packing.operand[0], packing.operand[1], parts[0], parts[1], n,
                           group * p.in_group() + t / panels, t % panels * products.width());
           });
}

template <class P>
void backward(const Stream& stream, const AttentionProblem& p, const Operands& operands,
              typename P::C* room) {
  using C = typename P::C;
  const P products(p.element_dtype);
  const Pass<P> pass{p, operands, products};
  C* const delta = room;
  room += delta_words(p);
  parallel_for(stream, p.batch() * p.heads(), [&](std::int64_t t) {
    deltas_of(operands[attention_operand::saved_y], operands[attention_operand::dy], t / p.heads(),
              t % p.heads(), delta + t * p.queries());
  });
  const std::int64_t panels = panels_of(p.queries(), products.width());
  const auto of_keys = dq_packing(products, operands);
  run_pass(stream, p, room, of_keys, p.in_group() * panels,
           [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
             const std::int64_t head = group * p.in_group() + t / panels;
             dq_panel(pass, of_keys.operand[0], of_keys.operand[1], of_keys.operand[2], parts,
                      delta + (n * p.heads() + head) * p.queries(), n, head,
                      t % panels * products.width());
           });
  const auto of_queries = dk_dv_packing(products, p, operands);
  run_pass(stream, p, room, of_queries, panels_of(p.keys(), products.width()),
           [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
             dk_dv_panel(pass, of_queries.operand[0], of_queries.operand[1], of_queries.operand[2],
                         of_queries.operand[3], parts,
                         delta + (n * p.heads() + group * p.in_group()) * p.queries(), n, group,
                         t * products.width());
           });
}

template <class P>
std::size_t workspace(const AttentionProblem& p) {
  const P products(p.element_dtype);
  Operands shapes;
  shapes[attention_operand::q].shape = p.q;
  shapes[attention_operand::k].shape = p.k;
  shapes[attention_operand::v].shape = p.v;
  shapes[attention_operand::dy].shape = {p.q[0], p.q[1], p.q[2], p.v[3]};
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename P::C));
  const auto bytes = [&](std::int64_t words) {
    return heads_at_once(p, words * kSize) * words * kSize;
  };
  if (!p.backward())
    return static_cast<std::size_t>(bytes(forward_packing(products, shapes).words()));
  return static_cast<std::size_t>(delta_words(p) * kSize +
                                  std::max(bytes(dq_packing(products, shapes).words()),
                                           bytes(dk_dv_packing(products, p, shapes).words())));
}

}  // namespace

std::size_t attention_cpu_workspace(const AttentionProblem& p) {
  if (p.batch() == 0) return 0;
  if (p.element_dtype == Dtype::f64) return workspace<ChainProducts<double>>(p);
  return p.math() == ProductMath::chain ? workspace<ChainProducts<float>>(p)
                                        : workspace<TensorCoreProducts>(p);
}

Result<void> attention_cpu(const Stream& stream, Workspace room, const AttentionProblem& p,
                           const Operands& operands) {
  if (p.batch() == 0) return {};
  const auto run = [&]<class P>() {
    auto* const at = static_cast<typename P::C*>(room.data);
    p.backward() ? backward<P>(stream, p, operands, at) : forward<P>(stream, p, operands, at);
  };
  if (p.element_dtype == Dtype::f64)
    run.template operator()<ChainProducts<double>>();
  else if (p.math() == ProductMath::chain)
    run.template operator()<ChainProducts<float>>();
  else
    run.template operator()<TensorCoreProducts>();
  return {};
}

}  // namespace planck
