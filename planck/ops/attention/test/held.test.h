// Problems of attention drawn and run on the CPU, and held against the book (by_the_book.test.h).
#pragma once

#include <functional>

#include "planck/core/allocator.h"
#include "planck/ops/attention/test/by_the_book.test.h"

namespace planck::attention_test {

enum class Values { ordinary, large, hostile };
enum class Mask { none, hidden, added };

struct Sizes {
  Index n, h, g, l, s, d, e;
  bool causal = false;
  Index window = 0;
  Mask mask = Mask::none;
  Values values = Values::ordinary;
  std::optional<ProductMath> math = {};
  std::optional<double> scale = {};
  double soft_cap = 0;
  bool alibi = false;
  double dropout = 0;
};

inline std::string text(const Sizes& c, Dtype t) {
  const auto s = [](auto x) { return std::to_string(x); };
  return std::string(name(t)) + " [" + s(c.n) + ", " + s(c.h) + "/" + s(c.g) + ", " + s(c.l) + "x" +
         s(c.s) + ", " + s(c.d) + "/" + s(c.e) + "] causal " + s(c.causal) + " window " +
         s(c.window) + " mask " + s(int(c.mask)) + " values " + s(int(c.values)) + " math " +
         (c.math ? std::string(name(*c.math)) : "default") + " cap " + s(c.soft_cap) + " alibi " +
         s(c.alibi) + " dropout " + s(c.dropout);
}

template <class T>
Inputs<T> draw(const Sizes& c) {
  Inputs<T> in;
  in.p = {AttentionKind::attention,
          dtype_of<T>,
          {c.n, c.h, c.l, c.d},
          {c.n, c.g, c.s, c.d},
          {c.n, c.g, c.s, c.e},
          {c.scale, c.causal, c.window, c.math, c.soft_cap, c.alibi, c.dropout, 0x123456789a, 77},
          {}};
  std::mt19937_64 random(static_cast<std::uint64_t>(c.l * 1000 + c.s * 10 + c.d));
  std::normal_distribution<double> normal;
  const auto fill = [&](std::vector<T>& x, const Shape& shape) {
    x.resize(static_cast<std::size_t>(numel(shape)));
    for (T& v : x) {
      double value = normal(random) * (c.values == Values::large ? 30 : 1);
      const auto pick = random() % 64;
      if (c.values == Values::hostile && pick < 4)
        value = pick == 0 ? INFINITY : pick == 1 ? NAN : pick == 2 ? 1e30 : 1e-30;
      v = T(static_cast<ComputeOf<T>>(value));
    }
  };
  fill(in.q, in.p.q), fill(in.k, in.p.k), fill(in.v, in.p.v);
  fill(in.dy, {c.n, c.h, c.l, c.e});
  if (c.mask == Mask::none) return in;
  in.p.mask = c.mask == Mask::hidden ? Dtype::boolean : dtype_of<T>;
  for (Index i = 0; i < c.n * c.h * c.l * c.s; ++i) {
    const double added = c.mask == Mask::hidden ? 0 : normal(random);
    in.mask.push_back(static_cast<ComputeOf<T>>(
        T(static_cast<ComputeOf<T>>(random() % 3 == 0 ? -INFINITY : added))));
  }
  return in;
}

// An operand in memory of its own: dense, or with axes in another order and gaps.
class Memory {
 public:
  template <class E>
  Memory(const std::vector<E>& elements, const Shape& shape, bool strided) : shape_(shape) {
    Index step = strided ? 3 : 1;
    strides_ = row_major(shape);
    if (strided) {
      for (int d : {1, 3, 0, 2})
        if (d < shape.rank()) strides_[d] = step, step *= shape[d] + 1;
    }
    const Index count = strided ? step : numel(shape);
    bytes_.resize(static_cast<std::size_t>(count) * sizeof(E), std::byte{0x5a});
    each<E>([&](std::size_t i, E& e) {
      if (i < elements.size()) e = elements[i];
    });
  }
  View view(Dtype t) { return {bytes_.data(), t, shape_, strides_, true}; }
  template <class E>
  std::vector<E> read() {
    std::vector<E> out;
    each<E>([&](std::size_t, E& e) { out.push_back(e); });
    return out;
  }

 private:
  template <class E>
  void each(const std::function<void(std::size_t, E&)>& f) {
    for (Index flat = 0; flat < numel(shape_); ++flat) {
      Index at = 0, rest = flat;
      for (int d = shape_.rank() - 1; d >= 0; --d)
        at += rest % shape_[d] * strides_[d], rest /= shape_[d];
      f(static_cast<std::size_t>(flat), reinterpret_cast<E*>(bytes_.data())[at]);
    }
  }
  Shape shape_;
  Strides strides_;
  std::vector<std::byte> bytes_;
};

inline void launch(const AttentionProblem& p, const Operands& operands, int threads) {
  const Stream stream = Stream::cpu(threads);
  const auto plan = Selection<AttentionProblem>::select(stream, p);
  ASSERT_TRUE(plan) << plan.error().message;
  auto workspace = allocate(stream, plan->workspace_size());
  ASSERT_TRUE(workspace);
  const auto ran = plan->run(stream, {workspace->data(), plan->workspace_size()}, operands);
  ASSERT_TRUE(ran) << ran.error().message;
}

template <class T>
Outputs<T> run(const Inputs<T>& in, int threads, bool strided, bool backward = true) {
  using C = ComputeOf<T>;
  AttentionProblem p = in.p;
  const Shape y{p.q[0], p.q[1], p.q[2], p.v[3]}, rows{p.q[0], p.q[1], p.q[2]};
  const Shape square{p.q[0], p.q[1], p.q[2], p.k[2]};
  Memory q(in.q, p.q, strided), k(in.k, p.k, strided), v(in.v, p.v, strided), dy(in.dy, y, strided),
      out(std::vector<T>{}, y, strided), lse(std::vector<C>{}, rows, strided),
      dq(std::vector<T>{}, p.q, strided), dk(std::vector<T>{}, p.k, strided),
      dv(std::vector<T>{}, p.v, strided);
  std::vector<std::uint8_t> hides;
  std::vector<T> added;
  for (C m : in.mask) hides.push_back(m == -INFINITY ? 2 : 0), added.push_back(T(m));
  const bool boolean = p.mask == Dtype::boolean;
  Memory mask = boolean ? Memory(hides, square, strided) : Memory(added, square, strided);
  const View no_mask;
  const View masked = p.mask ? mask.view(*p.mask) : no_mask;
  constexpr Dtype kT = dtype_of<T>, kC = dtype_of<C>;
  launch(p, {q.view(kT), k.view(kT), v.view(kT), masked, out.view(kT), lse.view(kC)}, threads);
  if (backward) {
    p.kind = AttentionKind::attention_backward;
    launch(p,
           {q.view(kT), k.view(kT), v.view(kT), masked, out.view(kT), lse.view(kC), dy.view(kT),
            dq.view(kT), dk.view(kT), dv.view(kT)},
           threads);
  }
  return {out.read<T>(), dq.read<T>(), dk.read<T>(), dv.read<T>(), lse.read<C>()};
}

template <class E>
void expect_bits(const std::vector<E>& got, const std::vector<E>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(E)), 0)
        << what << " [" << i << "] is " << number(got[i]) << ", must be " << number(want[i]);
}
template <class T>
void expect_same(const Outputs<T>& got, const Outputs<T>& want, const std::string& what) {
  expect_bits(got.y, want.y, what + " y");
  expect_bits(got.lse, want.lse, what + " lse");
  expect_bits(got.dq, want.dq, what + " dq");
  expect_bits(got.dk, want.dk, what + " dk");
  expect_bits(got.dv, want.dv, what + " dv");
}

template <class T>
void hold(const Sizes& c, int threads = 2, bool strided = false) {
  const Inputs<T> in = draw<T>(c);
  Outputs<T> want = Book<T>(in).forward();
  Book<T>(in).backward(want);
  expect_same(run(in, threads, strided), want, text(c, dtype_of<T>));
}

}  // namespace planck::attention_test
