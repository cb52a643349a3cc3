// cpu:fma_chain and cpu:integer_lanes. For some heads of k and v at a time, as many as the
// workspace holds, all threads pack what panels read, then panels of queries (dk and dv: of keys)
// are tasks. Small heads are tasks as a whole: they read k, v, q and dy in place and find scores
// of the backward pass once, for dq as well as for dk and dv.
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
Packing<P, 2> forward_packing(const P& products, const Operands& o, bool in_place = false) {
  return {{{products, o[attention_operand::k], 1, false, in_place},
           {products, o[attention_operand::v], 1, true, in_place}}};
}
template <class P>
Packing<P, 3> dq_packing(const P& products, const Operands& o, bool in_place = false) {
  return {{{products, o[attention_operand::k], 1, false, in_place},
           {products, o[attention_operand::v], 1, false, in_place},
           {products, o[attention_operand::k], 1, true, in_place}}};
}
template <class P>
Packing<P, 4> dk_dv_packing(const P& products, const AttentionProblem& p, const Operands& o,
                            bool in_place = false) {
  return {{{products, o[attention_operand::q], p.in_group(), false, in_place},
           {products, o[attention_operand::dy], p.in_group(), false, in_place},
           {products, o[attention_operand::q], p.in_group(), true, in_place},
           {products, o[attention_operand::dy], p.in_group(), true, in_place}}};
}

// Words that hold delta of one head of k and v.
std::int64_t delta_words(const AttentionProblem& p) {
  return (p.in_group() * p.queries() + 15) / 16 * 16;
}

// ---- many heads of few numbers: each is one task, which packs on its stack what it must ----

constexpr std::int64_t kManyHeads = 16, kSmallHead = 192 << 10;  // bytes

// Words of a head whose operands are packed.
template <class P>
std::int64_t head_words(const AttentionProblem& p, const Operands& o) {
  const P products(p.element_dtype);
  if (!p.backward()) return forward_packing(products, o).words();
  return delta_words(p) + p.in_group() * p.queries() * p.width() +
         std::max(dq_packing(products, o).words(), dk_dv_packing(products, p, o).words());
}
template <class P>
bool small_heads(const AttentionProblem& p, const Operands& o) {
  return p.batch() * p.groups() >= kManyHeads &&
         head_words<P>(p, o) * static_cast<std::int64_t>(sizeof(typename P::C)) <= kSmallHead;
}

// Calls head(room, n, group) for each head of k and v.
template <class C, class Head>
void for_small_heads(const Stream& stream, const AttentionProblem& p, const Head& head) {
  parallel_for(stream, p.batch() * p.groups(), [&](std::int64_t t) {
    alignas(64) C room[kSmallHead / sizeof(C)];
    head(room, t / p.groups(), t % p.groups());
  });
}
template <class P, int kCount, class Panel>
void run_panels(typename P::C* room, const Packing<P, kCount>& packing, std::int64_t panels,
                const Panel& panel) {
  const typename P::C* parts[kCount];
  packing.place(room, parts);
  for (std::int64_t t = 0; t < panels; ++t) panel(parts, t);
}
template <class P, int kCount>
void pack_head(typename P::C* room, const Packing<P, kCount>& packing, std::int64_t n,
               std::int64_t group) {
  for (std::int64_t t = 0; t < packing.tasks(); ++t) packing.pack(room, n, group, t);
}

// Whether the pass of dk and dv can find dq too.
template <class P>
bool finds_dq(const Pass<P>& pass, const Packing<P, 3>& packing, const typename P::C* room) {
  if constexpr (P::kCut == 0) {
    return false;
  } else {
    const typename P::C* parts[3];
    packing.place(room, parts);
    const PackedOperand<P>& across = packing.operand[2];
    bool finite = true;
    for (std::int64_t b = 0; b < across.blocks(); ++b) finite &= across.finite(parts[2], 0, b);
    return finite && pass.p.width() % pass.products.lanes() == 0 &&
           across.readable(pass.operands[attention_operand::k]);
  }
}

// ---- passes ----

// `parts` are packed operands, t counts panels of the heads that belong to one of k and v, and
// delta is of these heads.
template <class P>
struct Passes {
  using C = typename P::C;
  const AttentionProblem& p;
  const Operands& operands;
  bool small = small_heads<P>(p, operands);
  P products{p.element_dtype};
  Pass<P> pass{p, operands, products};
  std::int64_t panels = panels_of(p.queries(), products.width());
  std::int64_t key_panels = panels_of(p.keys(), products.width());

  void forward_head(const Packing<P, 2>& packing, const C* const (&parts)[2], std::int64_t n,
                    std::int64_t group, std::int64_t t) const {
    forward_panel(pass, packing.operand[0], packing.operand[1], parts[0], parts[1], n,
                  group * p.in_group() + t / panels, t % panels * products.width());
  }
  void find_delta(C* delta, std::int64_t n, std::int64_t group) const {
    for (std::int64_t h = 0; h < p.in_group(); ++h)
      deltas_of(operands[attention_operand::saved_y], operands[attention_operand::dy], n,
                group * p.in_group() + h, delta + h * p.queries());
  }
  void dq(const Packing<P, 3>& packing, const C* const (&parts)[3], const C* delta, std::int64_t n,
          std::int64_t group, std::int64_t t) const {
    dq_panel(pass, packing.operand[0], packing.operand[1], packing.operand[2], parts,
             delta + t / panels * p.queries(), n, group * p.in_group() + t / panels,
             t % panels * products.width());
  }
  void dk_dv(const Packing<P, 4>& packing, const C* const (&parts)[4], const C* delta, C* dq_sums,
             std::int64_t n, std::int64_t group, std::int64_t t) const {
    dk_dv_panel(pass, packing.operand[0], packing.operand[1], packing.operand[2],
                packing.operand[3], parts, delta, dq_sums, n, group, t * products.width());
  }
};

template <class P>
void forward(const Stream& stream, const AttentionProblem& p, const Operands& operands,
             typename P::C* room) {
  using C = typename P::C;
  const Passes<P> passes{p, operands};
  const auto packing = forward_packing(passes.products, operands, passes.small);
  const std::int64_t panels = p.in_group() * passes.panels;
  if (!passes.small)
    return run_pass(stream, p, room, packing, panels,
                    [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
                      passes.forward_head(packing, parts, n, group, t);
                    });
  for_small_heads<C>(stream, p, [&](C* own, std::int64_t n, std::int64_t group) {
    pack_head(own, packing, n, group);
    run_panels(own, packing, panels, [&](const auto& parts, std::int64_t t) {
      passes.forward_head(packing, parts, n, group, t);
    });
  });
}

template <class P>
void backward_small(const Stream& stream, const Passes<P>& passes) {
  using C = typename P::C;
  const AttentionProblem& p = passes.p;
  const auto of_keys = dq_packing(passes.products, passes.operands, true);
  const auto of_queries = dk_dv_packing(passes.products, p, passes.operands, true);
  const std::int64_t dq_words = p.in_group() * p.queries() * p.width();
  for_small_heads<C>(stream, p, [&](C* delta, std::int64_t n, std::int64_t group) {
    C *const sums = delta + delta_words(p), *const room = sums + dq_words;
    passes.find_delta(delta, n, group);
    pack_head(room, of_keys, n, group);
    const bool with_dq = finds_dq(passes.pass, of_keys, room);
    if (with_dq)
      std::fill_n(sums, dq_words, C(0));
    else
      run_panels(room, of_keys, p.in_group() * passes.panels,
                 [&](const auto& parts, std::int64_t t) {
                   passes.dq(of_keys, parts, delta, n, group, t);
                 });
    pack_head(room, of_queries, n, group);
    run_panels(room, of_queries, passes.key_panels, [&](const auto& parts, std::int64_t t) {
      passes.dk_dv(of_queries, parts, delta, with_dq ? sums : nullptr, n, group, t);
    });
    if (with_dq) store_dq(passes.pass, n, group, sums);
  });
}

template <class P>
void backward(const Stream& stream, const AttentionProblem& p, const Operands& operands,
              typename P::C* room) {
  using C = typename P::C;
  const Passes<P> passes{p, operands};
  if (passes.small) return backward_small(stream, passes);
  const auto delta = [&, all = room](std::int64_t n, std::int64_t group) {
    return all + (n * p.groups() + group) * delta_words(p);
  };
  const std::int64_t heads = p.batch() * p.groups();
  room += heads * delta_words(p);
  parallel_for(stream, heads, [&](std::int64_t t) {
    passes.find_delta(delta(t / p.groups(), t % p.groups()), t / p.groups(), t % p.groups());
  });
  const auto of_keys = dq_packing(passes.products, operands);
  run_pass(stream, p, room, of_keys, p.in_group() * passes.panels,
           [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
             passes.dq(of_keys, parts, delta(n, group), n, group, t);
           });
  const auto of_queries = dk_dv_packing(passes.products, p, operands);
  run_pass(stream, p, room, of_queries, passes.key_panels,
           [&](const auto& parts, std::int64_t n, std::int64_t group, std::int64_t t) {
             passes.dk_dv(of_queries, parts, delta(n, group), static_cast<C*>(nullptr), n, group,
                          t);
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
  if (small_heads<P>(p, shapes)) return 0;
  constexpr auto kSize = static_cast<std::int64_t>(sizeof(typename P::C));
  const auto bytes = [&](std::int64_t words) {
    return heads_at_once(p, words * kSize) * words * kSize;
  };
  if (!p.backward())
    return static_cast<std::size_t>(bytes(forward_packing(products, shapes).words()));
  return static_cast<std::size_t>(p.batch() * p.groups() * delta_words(p) * kSize +
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
