// What PyTorch computed (fixtures.py), and how near to it is near.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "planck/training.h"

namespace planck::test {

using A = Autodiff<Cpu>;
using Numbers = std::vector<double>;
inline constexpr double kF64 = 1e-12, kF32 = 1e-5;

inline const nn::StateDict& fixtures() {
  static const nn::StateDict all =
      value_or_throw(nn::read_state(PLANCK_PARITY_FOLDER "/fixtures.safetensors")).state;
  return all;
}
inline Tensor<Cpu> floats(const std::string& name) {
  return nn::to_tensor<Cpu, FloatKind>(fixtures().at(name), Cpu::default_device());
}
inline Tensor<Cpu, IntKind> integers(const std::string& name) {
  return nn::to_tensor<Cpu, IntKind>(fixtures().at(name), Cpu::default_device());
}

inline Numbers numbers(const Tensor<Cpu>& t) { return to_float(t, Dtype::f64).to_vector<double>(); }

// Differences are of the largest magnitude.
inline void expect_near(const Tensor<Cpu>& found, const Tensor<Cpu>& wanted, double bound,
                        const std::string& what) {
  ASSERT_EQ(found.shape(), wanted.shape()) << what;
  const Numbers a = numbers(found), b = numbers(wanted);
  double largest = 1e-3;
  for (double v : b)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isnan(b[i]))
      EXPECT_TRUE(std::isnan(a[i])) << what << " at " << i;
    else
      EXPECT_NEAR(a[i], b[i], bound * largest) << what << " at " << i;
}

}  // namespace planck::test
