// Holds vectors to the element math, bit for bit: arguments of every kind, chunks of every length,
// ordinary and streaming stores, inputs that repeat one value.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "planck/ops/elementwise/cpu/loops.h"

namespace planck {
namespace {

namespace em = elementwise_math;
using elementwise_cpu::LoopScalars;
using elementwise_cpu::Portion;
using elementwise_cpu::PortionTable;

constexpr int kLongest = 64 * 40;

template <class T>
const PortionTable& portions() {
  if constexpr (std::is_same_v<T, float>) return elementwise_cpu::f32_portions();
  if constexpr (std::is_same_v<T, f16>) return elementwise_cpu::f16_portions();
  if constexpr (std::is_same_v<T, bf16>) return elementwise_cpu::bf16_portions();
}
template <class T>
constexpr Dtype kDtype = std::is_same_v<T, float> ? Dtype::f32
                         : std::is_same_v<T, f16> ? Dtype::f16
                                                  : Dtype::bf16;
template <class T>
using Bits = std::conditional_t<std::is_same_v<T, float>, std::uint32_t, std::uint16_t>;

// Runs of ordinary numbers, where vectors are not interrupted, and runs of any bits.
template <class T>
std::vector<T> arguments(unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 3);
  std::vector<T> all(kLongest);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t kind = i / 256 % 5;
    const auto any = static_cast<Bits<T>>(random());
    const float number = normal(random);
    if (kind == 0)
      std::memcpy(&all[i], &any, sizeof(T));
    else if (kind == 1)
      all[i] = T(std::rint(4 * number));
    else if (kind == 2)
      all[i] = T(std::fabs(number));
    else
      all[i] = T(kind == 3 ? number : 0.01f * number);
  }
  return all;
}

template <class T, class C>
Bits<T> bits_of(C computed) {
  const T rounded(math::canonical(computed));
  Bits<T> bits;
  std::memcpy(&bits, &rounded, sizeof(T));
  return bits;
}

template <class F, class T>
void hold(bool binary) {
  const auto run = portions<T>().run[static_cast<std::size_t>(F::kOp)];
  if (run == nullptr) return;  // a plain loop
  LoopScalars scalars{};
  scalars.f32 = {0.3f, 1.7f};
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::vector<T> a = arguments<T>(2 * seed), b = arguments<T>(2 * seed + 1);
    const bool stream = seed % 2 == 1, repeats = seed % 4 == 2;
    if (repeats) std::fill_n(b.begin(), kStep, b[seed]);
    const int n = seed < 8 ? kLongest : 1 + static_cast<int>(seed) * 61;
    const std::size_t from = seed % 3, to = 1 + seed % 5;
    alignas(64) static T y[kLongest + 64];
    Portion portion{nullptr, binary ? 2 : 1, n - 8, {}, {}, false, &scalars, {}};
    portion.in[0] = {a.data() + from, kDtype<T>};
    portion.in[1] = {b.data() + (repeats ? 0 : from), kDtype<T>};
    portion.repeats[1] = repeats;
    portion.out = {y + to, kDtype<T>, stream};
    run(portion);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n - 8); ++i) {
      const auto p = static_cast<float>(a[from + i]),
                 q = static_cast<float>(b[repeats ? 0 : from + i]);
      Bits<T> got, want;
      std::memcpy(&got, &y[to + i], sizeof(T));
      if constexpr (requires { F::of(p, q); })
        want = bits_of<T>(em::binary_of<F, T>(p, q));
      else
        want = bits_of<T>(em::unary_of<F, T>(p, scalars.f32));
      ASSERT_EQ(got, want) << "op " << static_cast<int>(F::kOp) << " of " << name(kDtype<T>) << " "
                           << p << " " << q;
    }
  }
}

template <class F>
constexpr bool kCompares = requires {
  { F::of(0.0f, 0.0f) } -> std::same_as<std::uint8_t>;
};
template <class T, class... F>
void hold_all(em::Ops<F...>, bool binary) {
  const auto hold_one = [&]<class One>(One) {
    if constexpr (!kCompares<One>) hold<One, T>(binary);  // comparisons are plain loops
  };
  (hold_one(F{}), ...);
}

TEST(VectorPortions, BitsOfTheElementMath) {
  hold_all<float>(em::FloatUnary{}, false);
  hold_all<f16>(em::FloatUnary{}, false);
  hold_all<bf16>(em::FloatUnary{}, false);
  hold_all<float>(em::FloatBinary{}, true);
  hold_all<f16>(em::FloatBinary{}, true);
  hold_all<bf16>(em::FloatBinary{}, true);
}

}  // namespace
}  // namespace planck
