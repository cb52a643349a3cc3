// The sweep of odd.test.cpp through Tensor: every op on tensors × every dtype of every operand ×
// odd shapes × odd attributes gives what the naive backend gives, or is refused with one line.
#include "tests/conformance/odd_tensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "planck/core/exception.h"
#include "planck/math/philox.h"
#include "planck/verify/tensors/fill.h"
#include "tests/conformance/isolated.h"

namespace planck::conformance {
namespace {

using verify::HostTensor;

const Shape kShapes[] = {{},        {0},       {1},          {2, 6},
                         {2, 0, 3}, {3, 4, 5}, {1, 2, 4, 4}, {1, 1, 2, 1, 1, 3, 1, 2}};

std::vector<Dtype> dtypes_of(std::string_view kind) {
  if (kind == "float") return {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16};
  if (kind == "bool") return {Dtype::boolean};
  if (kind == "code") return {Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4};
  return {Dtype::i64, Dtype::i32, Dtype::s8, Dtype::u8, Dtype::s4, Dtype::u4};
}

HostTensor values(Dtype dtype, const Shape& shape, std::uint64_t seed) {
  HostTensor t(dtype, shape);
  if (is_float(dtype))
    verify::fill(t, verify::Fill::uniform, seed, 1);
  else
    verify::fill(t, verify::Fill::integers, seed, 1, {0, 3});
  return t;
}

double tolerance(Dtype dtype) {
  return dtype == Dtype::f64   ? 1e-12
         : dtype == Dtype::f32 ? 1e-5
         : dtype == Dtype::f16 ? 2e-3
                               : 2e-2;
}

std::string difference(const Tensors& got, const Tensors& want) {
  if (got.size() != want.size()) return "another number of results";
  for (std::size_t k = 0; k < got.size(); ++k) {
    const HostTensor &a = got[k], &b = want[k];
    if (a.shape != b.shape)
      return fmt::format("result {} has shape {}, the reference {}", k, to_string(a.shape),
                         to_string(b.shape));
    if (a.dtype != b.dtype)
      return fmt::format("result {} is {}, the reference {}", k, name(a.dtype), name(b.dtype));
    if (a.bytes.empty()) continue;
    for (std::int64_t i = 0; i < a.count(); ++i) {
      const double x = a.number(i), y = b.number(i);
      const bool near =
          x == y || (std::isnan(x) && std::isnan(y)) ||
          (is_float(a.dtype) && std::fabs(x - y) <= tolerance(a.dtype) * (1 + std::fabs(y)));
      if (!near) return fmt::format("result {} is {} at {}, the reference {}", k, x, i, y);
    }
  }
  return "";
}

std::string try_case(const TensorOp& op, std::size_t variant, const Tensors& in,
                     std::size_t& taken) {
  Tensors got;
  try {
    got = op.cpu(in, variant);
  } catch (const Exception& e) {
    const std::string text = e.what();
    return text.empty() || text.find('\n') != text.npos ? "the error is \"" + text + "\"" : "";
  }
  ++taken;
  for (const HostTensor& t : got)
    if (!check_shape(t.shape, "")) return "gives shape " + to_string(t.shape);
  for (const HostTensor& t : in)
    if (is_packed(t.dtype)) return "";
  if (!op.reference) return "";
  try {
    return difference(got, op.reference(in, variant));
  } catch (const Exception& e) {
    return std::string("taken, but the reference says: ") + e.what();
  }
}

struct TensorCase {
  std::size_t variant;
  Tensors in;
  std::string text;
};

// Odd dtypes, shapes and attributes of an op, together.
std::vector<TensorCase> cases_of(const TensorOp& op) {
  std::vector<TensorCase> cases;
  const std::size_t count = op.any_number ? 2 : op.kinds.size();
  const auto add = [&](std::size_t variant, const std::vector<Dtype>& dtypes,
                       const std::vector<Shape>& shapes) {
    TensorCase c{variant, {}, fmt::format("{} variant {}", op.name, variant)};
    for (std::size_t i = 0; i < count; ++i) {
      c.in.push_back(values(dtypes[i], shapes[i], cases.size() * 8 + i));
      c.text += fmt::format(" {}{}", name(dtypes[i]), to_string(shapes[i]));
    }
    cases.push_back(std::move(c));
  };
  const auto kind = [&](std::size_t i) { return op.kinds[op.any_number ? 0 : i]; };
  // All dtypes of the first two operands, the others as the first that fits.
  for (std::size_t variant = 0; variant < op.variants; ++variant)
    for (const Shape& shape : kShapes)
      for (Dtype t : dtypes_of(kind(0)))
        for (Dtype u : count > 1 ? dtypes_of(kind(1)) : std::vector{t}) {
          std::vector<Dtype> dtypes(count, t);
          if (count > 1) dtypes[1] = u;
          for (std::size_t i = 2; i < count; ++i)
            dtypes[i] = kind(i) == kind(1) ? u : kind(i) == kind(0) ? t : dtypes_of(kind(i))[0];
          add(variant, dtypes, std::vector<Shape>(count, shape));
          if (count > 2 && kind(count - 1) == "int") {  // i32 at the end
            dtypes[count - 1] = Dtype::i32;
            add(variant, dtypes, std::vector<Shape>(count, shape));
          }
        }
  // All pairs of shapes.
  if (count > 1)
    for (const Shape& a : kShapes)
      for (const Shape& b : kShapes) {
        std::vector<Dtype> dtypes;
        for (std::size_t i = 0; i < count; ++i) dtypes.push_back(dtypes_of(kind(i))[0]);
        std::vector<Shape> shapes(count, b);
        shapes[0] = a;
        add(0, dtypes, shapes);
        std::swap(shapes[0], shapes[count - 1]);
        add(0, dtypes, shapes);
      }
  // Any of them together.
  const PhiloxStream random{17, 0};
  for (std::uint64_t k = 0; count > 1 && k < 1000; ++k) {
    std::vector<Dtype> dtypes;
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < count; ++i) {
      const Philox4 r = random.words(k * 8 + i);
      const auto known = dtypes_of(kind(i));
      dtypes.push_back(known[r.v[0] % known.size()]);
      shapes.push_back(kShapes[r.v[1] % std::size(kShapes)]);
    }
    add(random.words(k).v[3] % op.variants, dtypes, shapes);
  }
  return cases;
}

TEST(OddTensors, AreTakenOrRefusedInOneLine) {
  std::size_t taken = 0;
  for (const TensorOp& op : all_tensor_ops()) {
    const std::vector<TensorCase> cases = cases_of(op);
    std::vector<IsolatedCase> isolated;
    for (const TensorCase& c : cases)
      isolated.push_back({[&](std::size_t& n) { return try_case(op, c.variant, c.in, n); },
                          [&] { return c.text; }});
    const IsolatedReport report = run_isolated(isolated, 60);
    for (std::size_t k = 0; k < report.failures.size() && k < 10; ++k)
      ADD_FAILURE() << report.failures[k];
    EXPECT_EQ(report.failures.size(), 0u) << op.name << ", of " << cases.size();
    taken += report.counted;
  }
  EXPECT_GT(taken, 10'000u) << "odd cases that are taken";
}

// The sweep is of use only where much of it is taken.
TEST(OddTensors, ThereAreManyWithAReference) {
  std::size_t with_reference = 0;
  for (const TensorOp& op : all_tensor_ops()) with_reference += op.reference != nullptr;
  EXPECT_GT(all_tensor_ops().size(), 150u);
  EXPECT_GT(with_reference, 90u);
}

}  // namespace
}  // namespace planck::conformance
