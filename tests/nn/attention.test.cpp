// Attention as a module: rotary positions, grouped heads, windows, scales, and a cache, beside
// which a query has the bits that it has in the whole sequence.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"
#include "tests/nn/thrown.h"

namespace planck::test {

namespace {

using A = Autodiff<Cpu>;
using Doubles = std::vector<double>;

Doubles numbers(const Tensor<Cpu>& x) { return x.to(Dtype::f64).to_vector<double>(); }
std::vector<std::byte> bytes(const Tensor<Cpu>& x) {
  std::vector<std::byte> all(bytes_for(x.dtype(), x.numel()));
  Cpu::to_host(x.primitive(), all.data());
  return all;
}

TEST(Rope, TurnsPairsByTheirPlace) {
  Rng rng{.seed = 1};
  const std::int64_t length = 3, width = 10, first = 70'000;
  const auto x = normal<Cpu>(rng, {2, length, width}, 0, 1, Dtype::f64);
  const Doubles in = numbers(x);
  for (const nn::RopePairs pairs : {nn::RopePairs::halves, nn::RopePairs::neighbours})
    for (const std::int64_t columns : {0, 6}) {
      const nn::RopeOptions options{.base = 500, .columns = columns, .pairs = pairs};
      const Doubles out = numbers(nn::rope(x, options, first));
      const std::int64_t turned = columns == 0 ? width : columns, half = turned / 2;
      for (std::int64_t row = 0; row < 2 * length; ++row) {
        const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(row * width + c); };
        for (std::int64_t i = 0; i < half; ++i) {
          const bool halves = pairs == nn::RopePairs::halves;
          const std::size_t a = at(halves ? i : 2 * i), b = at(halves ? i + half : 2 * i + 1);
          const double angle =
              static_cast<double>(first + row % length) *
              std::pow(500.0, -2.0 * static_cast<double>(i) / static_cast<double>(turned));
          EXPECT_NEAR(out[a], in[a] * std::cos(angle) - in[b] * std::sin(angle), 1e-9);
          EXPECT_NEAR(out[b], in[b] * std::cos(angle) + in[a] * std::sin(angle), 1e-9);
        }
        for (std::int64_t c = turned; c < width; ++c) EXPECT_EQ(out[at(c)], in[at(c)]);
      }
    }
}

// The product of two rows knows the distance of their places alone, in every dtype; a place has the
// same bits alone.
TEST(Rope, KnowsDistancesAlone) {
  Rng rng{.seed = 2};
  const auto q = normal<Cpu>(rng, {1, 8}, 0, 1, Dtype::f64), k = normal<Cpu>(rng, {1, 8});
  const auto product = [&](std::int64_t i, std::int64_t j) {
    return sum(nn::rope(q, {}, i) * nn::rope(k.to(Dtype::f64), {}, j)).item<double>();
  };
  EXPECT_NEAR(product(5, 3), product(1005, 1003), 1e-11);
  EXPECT_GT(std::abs(product(5, 3) - product(6, 3)), 1e-3);
  for (const Dtype dtype : {Dtype::f64, Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const auto x = normal<Cpu>(rng, {2, 3, 9, 8}, 0, 1, dtype);
    const auto all = nn::rope(x, {}, 40);
    EXPECT_EQ(all.dtype(), dtype);
    for (std::int64_t i = 0; i < 9; ++i)
      EXPECT_EQ(bytes(slice(all, 2, i, i + 1)), bytes(nn::rope(slice(x, 2, i, i + 1), {}, 40 + i)));
  }
  // The gradient is turned back: a rotation keeps products.
  const auto x = Tensor<A>::from(numbers(normal<Cpu>(rng, {4, 6})), {4, 6}).require_grad();
  const auto w = Tensor<A>::from(numbers(normal<Cpu>(rng, {4, 6})), {4, 6});
  const auto slope = x.grad(sum(nn::rope(x, {}, 3) * nn::rope(w, {}, 3)).backward());
  for (std::size_t i = 0; i < 24; ++i)
    EXPECT_NEAR(numbers(*slope)[i], numbers(w.inner())[i], 1e-14);
}

TEST(Rope, RefusesWhatItCannotTurn) {
  const auto x = ones<Cpu>({3, 7});
  EXPECT_EQ(message([&] { (void)nn::rope(x); }),
            "rope: 7 of 7 columns are to be turned; it takes an even number, 2 at least");
  EXPECT_EQ(message([&] { (void)nn::rope(x, {.columns = 8}); }),
            "rope: 8 of 7 columns are to be turned; it takes an even number, 2 at least");
  EXPECT_EQ(message([&] { (void)nn::rope(x, {.base = -1, .columns = 6}); }),
            "rope: base is -1, must be positive and finite");
  EXPECT_EQ(message([&] { (void)nn::rope(x, {.columns = 6}, -2); }),
            "rope: the first place is -2, must be at least 0");
}

// Grouped heads are those of an attention whose keys and values are the same for each of a group.
TEST(MultiHeadAttention, HasFewerHeadsOfKeys) {
  Rng rng{.seed = 3};
  for (const std::int64_t kv_heads : {1, 2}) {
    nn::MultiHeadAttention<Cpu> grouped(rng, {.width = 16, .heads = 4, .kv_heads = kv_heads});
    EXPECT_EQ(grouped.key.weight->shape(), (Shape{4 * kv_heads, 16}));
    nn::MultiHeadAttention<Cpu> whole(rng, {.width = 16, .heads = 4});
    whole.query = grouped.query;
    whole.output = grouped.output;
    const auto repeated = [&](const Tensor<Cpu>& w) {  // rows of each head, for each of its group
      const std::int64_t columns = w.numel() / (4 * kv_heads);
      return reshape(
          expand(reshape(w, {kv_heads, 1, 4, columns}), {kv_heads, 4 / kv_heads, 4, columns}),
          columns == 1 ? Shape{16} : Shape{16, 16});
    };
    for (const auto& [from, to] :
         {std::pair{&grouped.key, &whole.key}, std::pair{&grouped.value, &whole.value}}) {
      to->weight.set(repeated(from->weight.value()));
      to->bias->set(repeated(from->bias->value()));
    }
    const auto x = normal<Cpu>(rng, {2, 7, 16});
    EXPECT_EQ(bytes(grouped(x)), bytes(whole(x))) << kv_heads;
  }
}

TEST(MultiHeadAttention, HasWindowsAndScales) {
  Rng rng{.seed = 4};
  nn::MultiHeadAttention<Cpu> plain(rng, {.width = 8, .heads = 2}), windowed = plain;
  windowed.options.causal = true;
  windowed.options.window = 3;
  const auto x = normal<Cpu>(rng, {2, 9, 8});
  const auto i = reshape(arange<Cpu>(9), {9, 1}), j = reshape(arange<Cpu>(9), {1, 9});
  EXPECT_EQ(bytes(windowed(x)), bytes(plain(x, logical_or(gt(j, i), le(j, i - 3)))));
  nn::MultiHeadAttention<Cpu> scaled = plain, stronger = plain;
  scaled.options.scale = 2;  // of 1 / √4: as queries that are four times as large
  stronger.query.weight.set(plain.query.weight.value() * 4);
  stronger.query.bias->set(plain.query.bias->value() * 4);
  EXPECT_EQ(bytes(scaled(x)), bytes(stronger(x)));
  EXPECT_NE(bytes(scaled(x)), bytes(plain(x)));
}

// Scores that are capped and fall with distance; the gradient goes through both.
TEST(MultiHeadAttention, HasSoftCapsAndAlibi) {
  Rng rng{.seed = 14};
  nn::MultiHeadAttention<Cpu> plain(rng, {.width = 8, .heads = 2}), inclined = plain,
                                                                    capped = plain;
  inclined.options.alibi = true;
  const auto x = normal<Cpu>(rng, {2, 9, 8});
  const auto at = to_float(arange<Cpu>(9), Dtype::f32);
  const auto apart = abs(reshape(at, {9, 1}) - reshape(at, {1, 9}));
  const auto heads = [](const Tensor<Cpu>& t) {
    return permute(reshape(t, {2, 9, 2, 4}), {0, 2, 1, 3});
  };
  const auto bias = -(Tensor<Cpu>::from({0x1p-4, 0x1p-8}, {2, 1, 1}) * apart);
  const auto seen = scaled_dot_product_attention(heads(plain.query(x)), heads(plain.key(x)),
                                                 heads(plain.value(x)), bias);
  EXPECT_EQ(bytes(inclined(x)),
            bytes(plain.output(reshape(permute(seen, {0, 2, 1, 3}), {2, 9, 8}))));
  capped.options.soft_cap = 1e-20;  // all scores are as good as 0: a mean
  const auto mean_of = plain.output(expand(mean(plain.value(x), 1, true), {2, 9, 8}));
  const auto close = numbers(abs(capped(x) - mean_of));
  for (double d : close) EXPECT_LT(d, 1e-6);
  EXPECT_EQ(message([&] { nn::MultiHeadAttention<Cpu>(rng, {.width = 8, .soft_cap = -2}); }),
            "attention: soft_cap is -2, must be at least 0");
}

// Dropout draws from a generator that is part of the state; without it a module has no such part.
TEST(MultiHeadAttention, DropsProbabilitiesInTraining) {
  Rng one{.seed = 15}, other{.seed = 15};
  nn::MultiHeadAttention<Cpu> plain(one, {.width = 8, .heads = 2});
  nn::MultiHeadAttention<Cpu> dropping(other, {.width = 8, .heads = 2, .dropout = 0.5});
  EXPECT_EQ(nn::state(plain).size(), 8U);
  EXPECT_EQ(nn::state(dropping).size(), 9U);
  EXPECT_TRUE(nn::state(dropping).contains("dropout.rng"));
  const auto x = normal<Cpu>(one, {2, 9, 8});
  nn::MultiHeadAttention<Cpu> again = dropping;
  const auto first = bytes(dropping(x)), second = bytes(dropping(x));
  EXPECT_NE(first, second);
  EXPECT_NE(first, bytes(plain(x)));
  EXPECT_EQ(first, bytes(again(x)));
  EXPECT_EQ(second, bytes(again(x)));
  nn::eval(dropping);
  EXPECT_EQ(bytes(dropping(x)), bytes(plain(x)));
  const Rng before = again.drops->rng;
  EXPECT_THROW((void)again(x, nn::causal_mask<Cpu>(5)), Exception);
  EXPECT_EQ(again.drops->rng.offset, before.offset);
}

// Tokens in portions of any size, beside a cache, with all that changes what a query sees.
TEST(MultiHeadAttention, HasTheSameBitsWithACache) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16})
    for (const std::int64_t window : {0, 5, 140})
      for (const bool turned : {false, true}) {
        Rng rng{.seed = 5};
        nn::AttentionOptions options{
            .width = 16, .heads = 4, .causal = true, .kv_heads = 2, .window = window, .scale = 0.3};
        if (turned) options.rope = nn::RopeOptions{};
        const nn::MultiHeadAttention<Cpu> attention(rng, options, dtype);
        const std::int64_t length = 420;
        const auto x = normal<Cpu>(rng, {2, length, 16}, 0, 1, dtype);
        const auto whole = attention(x);
        nn::KeyValueCache<Cpu> cache;
        EXPECT_TRUE(cache.empty());
        std::int64_t at = 0;
        for (const std::int64_t portion : {1, 200, 1, 1, 150, 66, 1}) {
          const auto y = attention(slice(x, 1, at, at + portion), cache);
          EXPECT_EQ(bytes(y), bytes(slice(whole, 1, at, at + portion)))
              << name(dtype) << " window " << window << " at " << at;
          at += portion;
          EXPECT_EQ(cache.tokens(), at);
        }
        EXPECT_EQ(at, length);
        // Blocks of 128 that no later query sees are gone.
        EXPECT_EQ(cache.held(), window == 0 ? 420 : window == 5 ? 420 - 384 : 420 - 256);
        cache.clear();
        EXPECT_EQ(bytes(attention(slice(x, 1, 0, 2), cache)), bytes(slice(whole, 1, 0, 2)));
      }
}

TEST(MultiHeadAttention, RefusesWhatDoesNotFit) {
  Rng rng{.seed = 6};
  const auto made = [&](const nn::AttentionOptions& o) {
    return message([&] { nn::MultiHeadAttention<Cpu>(rng, o); });
  };
  EXPECT_EQ(made({.width = 8, .heads = 4, .kv_heads = 3}),
            "attention: 4 heads do not divide into 3 of keys and values");
  EXPECT_EQ(made({.width = 8, .heads = 4, .window = 3}),
            "attention: window is 3, which needs causal");
  EXPECT_EQ(made({.width = 6, .heads = 2, .rope = nn::RopeOptions{}}),
            "rope: 3 of 3 columns are to be turned; it takes an even number, 2 at least");
  nn::KeyValueCache<Cpu> cache;
  const auto x = normal<Cpu>(rng, {1, 3, 8});
  nn::MultiHeadAttention<Cpu> attention(rng, {.width = 8, .heads = 2, .rope = nn::RopeOptions{}});
  EXPECT_EQ(message([&] { (void)attention(x, cache); }),
            "attention: 0 tokens are in a cache, which needs causal");
  EXPECT_EQ(message([&] {
              (void)attention(x, normal<Cpu>(rng, {1, 4, 8}), std::nullopt);
            }),
            "attention: 3 queries and 4 keys; rope takes as many of both");
  attention.options.causal = true;
  (void)attention(x, cache);
  EXPECT_EQ(
      message([&] {
        (void)attention(normal<Cpu>(rng, {2, 3, 8}), cache);
      }),
      "cache: keys of shape [2, 2, 3, 4] after [1, 2, 3, 4]: must be the same but for axis 2");
  EXPECT_EQ(cache.tokens(), 3) << "as it was";
}

// Attention to two parts of the keys, put together by lse, is attention to all of them.
TEST(Attention, OfPartsIsThatOfAll) {
  Rng rng{.seed = 7};
  const auto of = [&](std::int64_t rows) {
    return normal<Cpu>(rng, {1, 2, rows, 8}, 0, 1, Dtype::f64);
  };
  const auto q = of(5), k = of(300), v = of(300);
  const auto [y, lse] = attention_with_lse(q, k, v);
  const auto [ya, la] = attention_with_lse(q, slice(k, 2, 0, 110), slice(v, 2, 0, 110));
  const auto [yb, lb] = attention_with_lse(q, slice(k, 2, 110), slice(v, 2, 110));
  const auto share = [&](const Tensor<Cpu>& l) { return unsqueeze(exp(l - lse), -1); };
  const Doubles all = numbers(y), parts = numbers(ya * share(la) + yb * share(lb));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(parts[i], all[i], 1e-14);
}

// Sines of all phases.
Tensor<Cpu> waves(const Shape& shape, double step, Dtype dtype = Dtype::f64,
                  const Stream& device = Cpu::default_device()) {
  const auto at = full<Cpu>({numel(shape)}, step, Dtype::f64, device);
  return reshape(sin(cumsum(at, 0)) * 2, shape).to(dtype);
}

// Of narrow floats and of heads as wide as the kernels take: the gradient of lse in f32, whatever
// the elements are, against f64.
TEST(AttentionGradients, OfTheLogOfTheSumInEveryDtype) {
  const auto gradients = [](Dtype dtype, std::int64_t width, bool of_y) {
    const auto of = [&](const Shape& shape, double step) {
      return Tensor<A>(A::from_inner(waves(shape, step, Dtype::bf16).to(dtype).primitive()))
          .require_grad();
    };
    const auto q = of({1, 2, 5, 4}, 0.7), k = of({1, 1, 7, 4}, 1.3), v = of({1, 1, 7, width}, 2.1);
    const auto [y, lse] = attention_with_lse(q, k, v, {.causal = true});
    EXPECT_EQ(lse.dtype(), compute_dtype(dtype));
    const auto weight =
        Tensor<A>(A::from_inner(waves(lse.shape(), 0.9, lse.dtype()).primitive())) * 3;
    auto loss = sum(lse * weight);
    if (of_y) loss = loss + sum(y).to(loss.dtype());
    const auto found = loss.backward();
    std::vector<std::vector<double>> all;
    for (const auto& x : {q, k, v})
      all.push_back(x.grad(found)->to(Dtype::f64).template to_vector<double>());
    return all;
  };
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16})
    for (const std::int64_t width : {3, 253, 254, 256})
      for (const bool of_y : {false, true}) {
        const auto got = gradients(dtype, width, of_y), want = gradients(Dtype::f64, width, of_y);
        for (std::size_t i = 0; i < 3; ++i) {
          double most = 1;
          for (const double x : want[i]) most = std::max(most, std::abs(x));
          ASSERT_EQ(got[i].size(), want[i].size());
          for (std::size_t j = 0; j < got[i].size(); ++j)
            EXPECT_NEAR(got[i][j], want[i][j], most * (dtype == Dtype::f32 ? 1e-4 : 0.05))
                << name(dtype) << " " << width << " " << of_y << " input " << i << " [" << j << "]";
        }
      }
}

// Wide heads, and a mask that is added, have no kernel for all of it. On a device whose products
// are exact they are those of the fused op: the dtype's own.
TEST(AttentionGradients, OnADeviceOfExactProducts) {
  const auto run = [](const Stream& device, std::int64_t width, bool masked) {
    const auto of = [&](const Shape& shape, double step) {
      return Tensor<A>(A::from_inner(waves(shape, step, Dtype::f32, device).primitive()))
          .require_grad();
    };
    const auto q = of({1, 2, 5, width}, 0.7), k = of({1, 1, 9, width}, 1.3),
               v = of({1, 1, 9, 6}, 2.1), mask = of({5, 9}, 0.3);
    const auto y = masked ? scaled_dot_product_attention(q, k, v, mask)
                          : scaled_dot_product_attention(q, k, v, {.causal = true});
    const auto found = sum(square(y)).backward();
    std::vector<std::vector<float>> all{y.inner().template to_vector<float>()};
    for (const auto& x : {q, k, v}) all.push_back(x.grad(found)->template to_vector<float>());
    if (masked) all.push_back(mask.grad(found)->template to_vector<float>());
    return all;
  };
  const auto own = Cpu::default_device(), exact = own.with_math(ProductMath::exact);
  for (const std::int64_t width : {16, 300})
    for (const bool masked : {false, true})
      EXPECT_EQ(run(exact, width, masked), run(own, width, masked)) << width << " " << masked;
}

// A mask that hides all keys of a query, by -Inf: zeros, and no gradient of NaN, in any width.
TEST(AttentionGradients, OfAMaskThatHidesAll) {
  for (const std::int64_t width : {4, 300}) {
    const auto of = [&](const Shape& shape, double step) {
      return Tensor<A>(A::from_inner(waves(shape, step).primitive())).require_grad();
    };
    const auto q = of({1, 1, 2, width}, 0.7), k = of({1, 1, 3, width}, 1.3),
               v = of({1, 1, 3, 2}, 2.1);
    const double none = -std::numeric_limits<double>::infinity();
    const auto mask =
        Tensor<A>::from(std::vector<double>{none, none, none, 0, none, 1}, {2, 3}).require_grad();
    const auto [y, lse] = attention_with_lse(q, k, v, mask);
    EXPECT_EQ(lse.inner().template to_vector<double>()[0], none);
    const auto found = (sum(y) + sum(select(lse, 2, 1))).backward();
    for (const auto& x : {q, k, v, mask})
      for (const double slope : x.grad(found)->template to_vector<double>())
        EXPECT_TRUE(std::isfinite(slope)) << width;
  }
}

}  // namespace

}  // namespace planck::test
