// Attention against its definition, bit for bit, and against long double within the guarantee, on
// the instruction set in force (--cpu_target). Layouts, threads, memory and errors are held by the
// conformance tests too.
#include <functional>

#include "planck/core/allocator.h"
#include "planck/ops/attention/test/by_the_book.test.h"

namespace planck::attention_test {
namespace {

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
};

std::string text(const Sizes& c, Dtype t) {
  const auto s = [](auto x) { return std::to_string(x); };
  return std::string(name(t)) + " [" + s(c.n) + ", " + s(c.h) + "/" + s(c.g) + ", " + s(c.l) + "x" +
         s(c.s) + ", " + s(c.d) + "/" + s(c.e) + "] causal " + s(c.causal) + " window " +
         s(c.window) + " mask " + s(int(c.mask)) + " values " + s(int(c.values)) + " math " +
         (c.math ? std::string(name(*c.math)) : "default");
}

template <class T>
Inputs<T> draw(const Sizes& c) {
  Inputs<T> in;
  in.p = {AttentionKind::attention,
          dtype_of<T>,
          {c.n, c.h, c.l, c.d},
          {c.n, c.g, c.s, c.d},
          {c.n, c.g, c.s, c.e},
          {c.scale, c.causal, c.window, c.math},
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

void launch(const AttentionProblem& p, const Operands& operands, int threads) {
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

template <class T>
class Attention : public testing::Test {};
using Elements = testing::Types<float, double, f16, bf16>;
TYPED_TEST_SUITE(Attention, Elements);

TYPED_TEST(Attention, IsItsDefinition) {
  for (const Sizes& c : {Sizes{1, 1, 1, 1, 1, 1, 1}, Sizes{1, 1, 1, 3, 5, 4, 7},
                         Sizes{2, 2, 2, 7, 130, 17, 5}, Sizes{1, 4, 2, 33, 40, 32, 16},
                         Sizes{1, 6, 1, 5, 129, 8, 3}, Sizes{1, 1, 1, 40, 300, 16, 33}})
    hold<TypeParam>(c);
  hold<TypeParam>({1, 1, 1, 2, 3, 256, 256});
  hold<TypeParam>({1, 1, 1, 3, 9, 255, 1});
}

TYPED_TEST(Attention, CausalAndWindows) {
  for (const auto& [l, s] :
       {std::pair<Index, Index>(150, 150), {5, 200}, {1, 257}, {40, 7}, {3, 3}})
    for (const Index window : {0, 1, 5, 140}) {
      if (window > 1 && l * s < 1000) continue;
      hold<TypeParam>({1, 2, 1, l, s, 9, 6, true, window});
    }
}

TYPED_TEST(Attention, Masks) {
  for (const Mask mask : {Mask::hidden, Mask::added}) {
    hold<TypeParam>({2, 2, 1, 20, 140, 8, 4, false, 0, mask});
    hold<TypeParam>({1, 2, 2, 35, 35, 5, 4, true, 0, mask});
    hold<TypeParam>({1, 1, 1, 6, 2, 5, 4, false, 0, mask});  // rows that see nothing among them
  }
}

TYPED_TEST(Attention, OtherMeaningsOfAProduct) {
  if constexpr (!std::is_same_v<TypeParam, double>)
    for (const ProductMath math : {ProductMath::chain, ProductMath::tensor_core}) {
      Sizes c{1, 2, 1, 34, 150, 20, 24, true};
      c.math = math;
      hold<TypeParam>(c);
    }
}

// Infinities and NaN, also where they are hidden; numbers whose scores overflow; any scale.
TYPED_TEST(Attention, IsTotal) {
  for (const bool causal : {false, true})
    for (const Mask mask : {Mask::none, Mask::hidden}) {
      Sizes c{1, 2, 1, 36, 150, 3, 4, causal, 0, mask, Values::hostile};
      hold<TypeParam>(c);
      c.values = Values::large;
      hold<TypeParam>(c);
    }
  for (const double scale : {0.0, -2.0, 1e-30, 1e30})
    hold<TypeParam>({1, 1, 1, 4, 9, 3, 4, false, 0, Mask::none, Values::ordinary, {}, scale});
}

TYPED_TEST(Attention, AnyStridesAndThreads) {
  for (const int threads : {1, 3, 8}) {
    hold<TypeParam>({2, 4, 2, 50, 60, 11, 13, true}, threads, true);
    hold<TypeParam>({2, 2, 1, 9, 140, 11, 13, false, 0, Mask::added}, threads, true);
    hold<TypeParam>({2, 2, 1, 9, 20, 11, 13, false, 0, Mask::hidden}, threads, true);
  }
}

TYPED_TEST(Attention, OfNothing) {
  hold<TypeParam>({1, 2, 1, 0, 5, 4, 3});
  hold<TypeParam>({1, 2, 1, 5, 0, 4, 3});
  hold<TypeParam>({0, 2, 1, 5, 5, 4, 3});
  hold<TypeParam>({2, 0, 1, 5, 5, 4, 3});
}

// A query that is computed alone, against the keys that it sees, has the bits of its row.
TYPED_TEST(Attention, OneQueryAtATimeGivesTheSame) {
  const Sizes c{1, 2, 1, 40, 170, 24, 8, true};
  const Inputs<TypeParam> all = draw<TypeParam>(c);
  const Outputs<TypeParam> want = run(all, 2, false, false);
  for (const Index i : {0, 1, 17, 39}) {
    const Index seen = 170 - 40 + i + 1;
    Sizes one = c;
    one.l = 1, one.s = seen;
    Inputs<TypeParam> in = draw<TypeParam>(one);
    const auto copy = [](const auto& from, auto& to, Index heads, Index rows, Index first,
                         Index count, Index width) {
      to.clear();
      for (Index h = 0; h < heads; ++h)
        to.insert(to.end(), from.begin() + (h * rows + first) * width,
                  from.begin() + (h * rows + first + count) * width);
    };
    copy(all.q, in.q, 2, 40, i, 1, 24);
    copy(all.k, in.k, 1, 170, 0, seen, 24);
    copy(all.v, in.v, 1, 170, 0, seen, 8);
    std::vector<TypeParam> row;
    copy(want.y, row, 2, 40, i, 1, 8);
    expect_bits(run(in, 1, false, false).y, row, "query " + std::to_string(i));
  }
}

template <class T>
void expect_close(const std::vector<T>& got, const Exact& want, double ulp, const char* what) {
  const double unit = dtype_of<T> == Dtype::f64   ? 0x1p-52
                      : dtype_of<T> == Dtype::f32 ? 0x1p-23
                      : dtype_of<T> == Dtype::f16 ? 0x1p-10
                                                  : 0x1p-7;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::abs(number(got[i]) - want.value[i]), ulp * unit * want.scale[i])
        << what << " [" << i << "] is " << number(got[i]) << ", exactly " << double(want.value[i]);
}

TYPED_TEST(Attention, KeepsItsGuarantee) {
  for (const std::optional<ProductMath> math :
       {std::optional<ProductMath>(), std::optional(ProductMath::tensor_core)})
    for (const Mask mask : {Mask::none, Mask::added}) {
      if (math && std::is_same_v<TypeParam, double>) continue;
      Sizes c{1, 4, 2, 70, 300, 64, 32, mask == Mask::none, 0, mask, Values::ordinary, math};
      const Inputs<TypeParam> in = draw<TypeParam>(c);
      const Outputs<TypeParam> got = run(in, 2, false);
      const auto want = exact(in);
      AttentionProblem p = in.p;
      const auto bound = [&] {
        const auto plan = Selection<AttentionProblem>::select(Stream::cpu(1), p);
        EXPECT_EQ(plan->precision_guarantee().reproducibility, Reproducibility::cross_device);
        return plan->precision_guarantee().max_ulp;
      };
      expect_close(got.y, want[0], bound(), "y");
      p.kind = AttentionKind::attention_backward;
      expect_close(got.dq, want[1], bound(), "dq");
      expect_close(got.dk, want[2], bound(), "dk");
      expect_close(got.dv, want[3], bound(), "dv");
    }
}

TEST(AttentionPlans, SayWhatTheyAre) {
  const AttentionDescriptor d{{1, 2, 3, 8}, {1, 2, 5, 8}, {1, 2, 5, 4}};
  const auto f32 = AttentionPlan<float>::select(Stream::cpu(1), d);
  const auto half = AttentionBackwardPlan<bf16>::select(Stream::cpu(1), d);
  ASSERT_TRUE(f32 && half);
  EXPECT_EQ(f32->sku().kernel, "cpu:fma_chain");
  EXPECT_EQ(half->sku().kernel, "cpu:integer_lanes");
  EXPECT_TRUE(half->precision_guarantee().batch_invariant);
}

TEST(AttentionPlans, Refuse) {
  AttentionProblem good;
  good.q = {1, 4, 3, 8}, good.k = {1, 2, 5, 8}, good.v = {1, 2, 5, 4};
  const auto message = [&](auto&& change) {
    AttentionProblem p = good;
    change(p);
    const auto ok = p.check();
    return ok ? std::string("accepted") : ok.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "accepted");
  EXPECT_EQ(message([](auto& p) { p.q[1] = 3; }),
            "attention: q has 3 heads, k 2: must be a multiple of it");
  EXPECT_EQ(message([](auto& p) { p.k[3] = 7; }),
            "attention: q has heads of width 8, k 7: must be the same");
  EXPECT_EQ(message([](auto& p) { p.v[3] = 257; }),
            "attention: v has heads of width 257, must be at most 256");
  EXPECT_EQ(message([](auto& p) { p.v[2] = 6; }),
            "attention: k has 2 heads of 5 keys, v 2 of 6: must be the same");
  EXPECT_EQ(message([](auto& p) { p.options.window = 3; }),
            "attention: window is 3, which needs causal");
  EXPECT_EQ(message([](auto& p) { p.options.math = ProductMath::exact; }),
            "attention: math is exact, which is not defined for f32");
  EXPECT_EQ(message([](auto& p) { p.options.scale = NAN; }),
            "attention: scale is nan, must be finite");
  EXPECT_EQ(message([](auto& p) { p.mask = Dtype::f16; }),
            "attention: mask is f16, must be f32 or bool");
}

}  // namespace
}  // namespace planck::attention_test
