// What the tests of softmax and of the norms share: the rows of a tensor, and outputs compared with
// what a reference expects of them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planck/ops/reduce/test/reference.test.h"

namespace planck::rows_test {

using Vector = std::vector<double>;

// Rows as lists of flat positions, along the marked axes.
inline std::vector<std::vector<std::int64_t>> rows_of(const Shape& shape, unsigned along) {
  std::int64_t rows = 1;
  for (int d = 0; d < shape.rank(); ++d)
    if (!((along >> d) & 1u)) rows *= shape[d];
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < numel(shape); ++i) {
    std::int64_t rest = i, row = 0, step = 1;
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (!((along >> d) & 1u)) {
        row += rest % shape[d] * step;
        step *= shape[d];
      }
      rest /= shape[d];
    }
    all[static_cast<std::size_t>(row)].push_back(i);
  }
  return all;
}

struct Expected {
  std::map<std::string, Vector> bits;    // as promised, before the rounding at the store
  std::map<std::string, Vector> values;  // in long double; NaN where nothing is said
  std::map<std::string, Vector> scales;  // what an ulp is one of
};

template <class C>
std::vector<C> typed(const Vector& v, const std::vector<std::int64_t>& at) {
  std::vector<C> out;
  for (std::int64_t i : at) out.push_back(static_cast<C>(v[static_cast<std::size_t>(i)]));
  return out;
}

inline void put(Vector& to, const std::vector<std::int64_t>& at, const Vector& from) {
  for (std::size_t i = 0; i < at.size(); ++i) to[static_cast<std::size_t>(at[i])] = from[i];
}

// Every kernel's outputs: the promised bits and, where values are given and inputs are not
// adversarial, near these.
inline void expect_outputs(const Case& c, const NamedTensors& in, const Expected& e) {
  const Dtype element = c.inputs[0].dtype;
  with_outputs(c, in, [&](const NamedTensors& outputs, const KernelStatus& kernel) {
    for (const auto& [name, bits] : e.bits) {
      const auto found = outputs.find(name);
      ASSERT_NE(found, outputs.end()) << c.id() << " " << name;
      const HostTensor& out = found->second;
      ASSERT_EQ(out.count(), static_cast<std::int64_t>(bits.size())) << c.id() << " " << name;
      HostTensor expected(out.dtype, out.shape);
      for (std::int64_t i = 0; i < out.count(); ++i) {
        const double v = bits[static_cast<std::size_t>(i)];
        if (out.dtype == Dtype::i64)
          expected.set_pattern(i, static_cast<std::uint64_t>(v));
        else
          expected.set_number(i, std::isnan(v) ? std::nan("") : v);
      }
      ASSERT_EQ(verify::bit_difference(expected, out), "")
          << c.id() << " " << kernel.name << " " << name;
    }
    if (c.inputs[0].fill == verify::Fill::adversarial) return;  // the bits say it all
    for (const auto& [name, values] : e.values) {
      const HostTensor& out = outputs.find(name)->second;
      for (std::int64_t i = 0; i < out.count(); ++i) {
        const double want = values[static_cast<std::size_t>(i)], got = out.number(i);
        const double scale = e.scales.find(name)->second[static_cast<std::size_t>(i)];
        if (!std::isfinite(want) || !std::isfinite(scale) || !std::isfinite(got)) continue;
        const double unit = element == Dtype::f64 ? 0x1p-53 : 0x1p-24;
        ASSERT_LE(std::abs(got - want), ulp_at(out.dtype, want) + 32 * unit * scale)
            << c.id() << " " << kernel.name << " " << name << " " << i;
      }
    }
  });
}

// A case of one op, contiguous.
inline Case one(std::string op, Attributes attributes, std::vector<verify::CaseInput> inputs) {
  return {.op = std::move(op),
          .attributes = std::move(attributes),
          .inputs = std::move(inputs),
          .output_layouts = {},
          .seed = 1};
}

}  // namespace planck::rows_test
