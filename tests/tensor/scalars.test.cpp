// Numbers beside tensors: each keeps its value or is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "planck/planck.h"

namespace planck {
namespace {

using F = std::vector<float>;
using I64 = std::vector<std::int64_t>;
using Bits = std::vector<std::uint8_t>;

template <class T>
auto ints(const std::vector<T>& v) {
  return Tensor<Cpu, IntKind>::from(v);
}
template <class Fn>
std::string refusal(Fn&& fn) {
  try {
    (void)fn();
  } catch (const Exception& e) {
    return e.what();
  }
  return "";
}

TEST(Scalars, AnUnsignedOneIsSubtracted) {
  const auto x = Tensor<Cpu>::from({3, 0.5}, {2});
  EXPECT_EQ((x - 1u).to_vector<float>(), F({2, -0.5}));
  EXPECT_EQ((x - std::uint8_t{200}).to_vector<float>(), F({-197, -199.5}));
  EXPECT_EQ((2u - x).to_vector<float>(), F({-1, 1.5}));
  EXPECT_EQ((ints<std::int64_t>({3, -4}) - 1u).to_vector<std::int64_t>(), I64({2, -5}));
  EXPECT_EQ((ints<std::int64_t>({3, -4}) - 1ull).to_vector<std::int64_t>(), I64({2, -5}));
}

TEST(Scalars, LargeUnsignedNumbersKeepTheirSign) {
  const auto x = Tensor<Cpu>::from({1, -2}, {2});
  EXPECT_EQ((x * (1ull << 63)).to_vector<float>(), F({0x1p63f, -0x1p64f}));
  EXPECT_EQ((x + (1ull << 63)).to_vector<float>(), F({0x1p63f, 0x1p63f}));
  EXPECT_EQ((x - (1ull << 63)).to_vector<float>(), F({-0x1p63f, -0x1p63f}));
  EXPECT_EQ(refusal([] { return ints<std::int64_t>({1}) * (1ull << 63); }),
            "mul_scalar: 9223372036854775808 does not fit i64, which goes from "
            "-9223372036854775808 to 9223372036854775807");
  EXPECT_EQ(refusal([] { return ints<std::int64_t>({1}) - ((1ull << 63) + 1); }).substr(0, 5),
            "sub: ");
}

TEST(Scalars, IntegersRefuseFractions) {
  const auto x = ints<std::int64_t>({2, 3});
  EXPECT_EQ(refusal([&] { return x * 0.5; }), "mul_scalar: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return x + 0.5f; }), "add_scalar: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return x - 0.5; }), "sub: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return x / 0.5; }), "div_scalar: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return x > 0.5; }), "gt: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return clamp(x, 0.5, 3); }),
            "clamp: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return mask_fill(x, x > 2, NAN); }),
            "mask_fill: nan is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return full_like(x, 0.5); }),
            "fill: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ(refusal([&] { return pad(x, {1}, {0}, 0.5); }),
            "fill: 0.5 is no integer, the tensor is i64");
  EXPECT_EQ((x * 2.0).to_vector<std::int64_t>(), I64({4, 6}));
  EXPECT_EQ(pad(x, {1}, {0}, (std::int64_t{1} << 53) + 1).to_vector<std::int64_t>(),
            I64({(std::int64_t{1} << 53) + 1, 2, 3}));
}

TEST(Scalars, EveryIntegerOfTheDtypeMayBeSubtracted) {
  const auto x = ints<std::int32_t>({5, -5});
  const std::vector<std::int32_t> wrapped = {INT32_MIN + 5, INT32_MAX - 4};
  EXPECT_EQ((x - INT32_MIN).to_vector<std::int32_t>(), wrapped);
  EXPECT_EQ((x - INT32_MAX).to_vector<std::int32_t>()[0], 5 - INT32_MAX);
  EXPECT_NE(refusal([&] { return x - (std::int64_t{1} << 31); }), "");
  const auto y = ints<std::int64_t>({5});
  EXPECT_EQ((y - INT64_MIN).to_vector<std::int64_t>(), I64({INT64_MIN + 5}));
}

TEST(Scalars, OfHalvesMayBeBeyondThem) {
  for (const Dtype t : {Dtype::f16, Dtype::bf16}) {
    const auto x = full<Cpu>({2}, 1000, t);
    const auto f32 = [](const auto& y) { return y.to(Dtype::f32).template to_vector<float>()[0]; };
    const auto rounded = [&](float v) { return f32(Tensor<Cpu>::scalar(v).to(t)); };
    EXPECT_EQ(f32(x / 1e5), rounded(0.01f)) << name(t);
    EXPECT_EQ(f32(1e5 / x), rounded(100)) << name(t);
    EXPECT_EQ(f32(x * 1e-6), rounded(0.001f)) << name(t);
    EXPECT_EQ((x < 1e5).to_vector<std::uint8_t>(), Bits({1, 1})) << name(t);
  }
  // 0.1 is no f16: the number nearest to it lies below.
  const auto tenth = full<Cpu>({1}, 0.1, Dtype::f16);
  EXPECT_EQ((tenth < 0.1).to_vector<std::uint8_t>(), Bits({1}));
}

TEST(Scalars, QuotientsOfFloatsAreTheSameAsOfTensors) {
  Rng rng{.seed = 4};
  const auto x = normal<Cpu>(rng, {1000});
  for (const double s : {3.0, 0.1, -7.5, 65536.0}) {
    const auto t = full<Cpu>({}, s);
    EXPECT_EQ((x / s).to_vector<float>(), (x / t).to_vector<float>());
    EXPECT_EQ((s / x).to_vector<float>(), (t / x).to_vector<float>());
  }
}

TEST(Scalars, AreComparedFromBothSides) {
  const auto x = Tensor<Cpu>::from({0.25, 0.5, 1, NAN}, {4});
  EXPECT_EQ((x > 0.5).to_vector<std::uint8_t>(), Bits({0, 0, 1, 0}));
  EXPECT_EQ((x >= 0.5).to_vector<std::uint8_t>(), Bits({0, 1, 1, 0}));
  EXPECT_EQ((x < 0.5).to_vector<std::uint8_t>(), Bits({1, 0, 0, 0}));
  EXPECT_EQ((x <= 0.5).to_vector<std::uint8_t>(), Bits({1, 1, 0, 0}));
  EXPECT_EQ((0.5 < x).to_vector<std::uint8_t>(), Bits({0, 0, 1, 0}));
  EXPECT_EQ((0.5 >= x).to_vector<std::uint8_t>(), Bits({1, 1, 0, 0}));
  EXPECT_EQ(eq(x, 1).to_vector<std::uint8_t>(), Bits({0, 0, 1, 0}));
  EXPECT_EQ(ne(x, 1).to_vector<std::uint8_t>(), Bits({1, 1, 0, 1}));
  EXPECT_EQ((ints<std::int64_t>({1, 2}) >= 2u).to_vector<std::uint8_t>(), Bits({0, 1}));
}

TEST(Scalars, AssignmentsChangeTheVariableAlone) {
  auto x = Tensor<Cpu>::from({1, 2}, {2});
  const auto before = x;
  const void* buffer = (x += 0, x).primitive().storage->data();
  x += 1;
  x *= Tensor<Cpu>::from({10, 10}, {2});
  EXPECT_EQ(x.primitive().storage->data(), buffer);  // nobody else holds it
  EXPECT_EQ(x.to_vector<float>(), F({20, 30}));
  x -= before;
  x /= Tensor<Cpu>::from({2}, {1});
  EXPECT_EQ(x.to_vector<float>(), F({9.5, 14}));
  x += x;
  EXPECT_EQ(x.to_vector<float>(), F({19, 28}));
  EXPECT_EQ(before.to_vector<float>(), F({1, 2}));
  EXPECT_EQ(refusal([&] {
              return x += ones<Cpu>({3, 2});
            }),
            "operator+=: shape [3, 2] does not broadcast to [2]");
  EXPECT_EQ(x.to_vector<float>(), F({19, 28}));  // a refusal leaves it
  auto i = ints<std::int64_t>({6, 5});
  i &= 3;
  i |= 8;
  i ^= 1;
  EXPECT_EQ(i.to_vector<std::int64_t>(), I64({11, 8}));
}

TEST(Scalars, BitsOfIntegersAndTruths) {
  const auto i = ints<std::int32_t>({12, -1, 7});
  const auto values = [](const auto& t) { return t.template to_vector<std::int32_t>(); };
  using V = std::vector<std::int32_t>;
  EXPECT_EQ(values(i & 5), V({4, 5, 5}));
  EXPECT_EQ(values(i | ints<std::int32_t>({1})), V({13, -1, 7}));
  EXPECT_EQ(values(i ^ i), V({0, 0, 0}));
  EXPECT_EQ(values(~i), V({-13, 0, -8}));
  EXPECT_EQ(values(i << 2), V({48, -4, 28}));
  EXPECT_EQ(values(i >> 1), V({6, -1, 3}));
  EXPECT_EQ(values(i << ints<std::int32_t>({31, 32, -1})), V({0, 0, 0}));
  const auto a = i > 0, b = i > 7;
  EXPECT_EQ((a & ~b).to_vector<std::uint8_t>(), Bits({0, 0, 1}));
  EXPECT_EQ((a | b).to_vector<std::uint8_t>(), Bits({1, 0, 1}));
  EXPECT_EQ((a ^ b).to_vector<std::uint8_t>(), Bits({0, 0, 1}));
}

TEST(Scalars, LiteralsAreF32AndVectorsKeepTheirType) {
  EXPECT_EQ(Tensor<Cpu>::from({1.0, 2.5}, {2}).dtype(), Dtype::f32);
  EXPECT_EQ(Tensor<Cpu>::from({1, 2}, {2}).dtype(), Dtype::f32);
  EXPECT_EQ(Tensor<Cpu>::from<double>({1, 2.5}, {2}).dtype(), Dtype::f64);
  EXPECT_EQ(Tensor<Cpu>::scalar(0.5).dtype(), Dtype::f32);
  EXPECT_EQ(Tensor<Cpu>::scalar<double>(0.5).dtype(), Dtype::f64);
  EXPECT_EQ(Tensor<Cpu>::from(std::vector<double>{1, 2}).dtype(), Dtype::f64);
  EXPECT_EQ((Tensor<Cpu>::from(std::vector<float>{1, 2, 3, 4}, {2, 2}).shape()), (Shape{2, 2}));
  const auto truths = Tensor<Cpu, BoolKind>::from(std::vector<bool>{true, false, true});
  EXPECT_EQ(truths.to_vector<std::uint8_t>(), Bits({1, 0, 1}));
  EXPECT_EQ(refusal([] { return Tensor<Cpu>::from(std::vector<float>{1}, {2}); }),
            "from: 1 values, shape [2] has 2 elements");
}

TEST(Scalars, DtypesOfTheOtherKindAreRefused) {
  EXPECT_EQ(refusal([] { return full<Cpu>({1}, 1, Dtype::i64); }),
            "full: dtype is i64, a tensor of kind float cannot hold it");
  EXPECT_EQ(refusal([] { return to_int(ones<Cpu>({1}), Dtype::f32); }),
            "to_int: dtype is f32, a tensor of kind int cannot hold it");
  EXPECT_EQ(refusal([] { return ones<Cpu>({1}).to(Dtype::boolean); }),
            "to: dtype is bool, a tensor of kind float cannot hold it");
  EXPECT_EQ((full<Cpu, IntKind>({2}, -1).to_vector<std::int64_t>()), I64({-1, -1}));
  EXPECT_EQ((zeros<Cpu, IntKind>({1}, Dtype::i32).dtype()), Dtype::i32);
}

}  // namespace
}  // namespace planck
