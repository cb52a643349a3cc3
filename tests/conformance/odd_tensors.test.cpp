// The sweep of odd.test.cpp through Tensor: every op on tensors × every dtype of every operand ×
// odd shapes × odd attributes gives what the naive backend gives, or is refused with one line.
#include "tests/conformance/odd_tensors.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "planck/core/cuda/runtime.h"
#include "planck/core/exception.h"
#include "planck/math/philox.h"
#include "planck/ops/ops.h"
#include "planck/verify/case_lists.h"
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

bool at_an_end(Dtype dtype, double v) {
  return dtype == Dtype::i64 ? std::fabs(v) >= 0x1p53
                             : dtype == Dtype::i32 && std::fabs(v) >= 0x1p31 - 1;
}

// `coarse`: products of f32 whose factors were rounded to 11 digits, as tensor_core has it.
std::string difference(const Tensors& got, const Tensors& want, bool coarse) {
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
      if (at_an_end(b.dtype, y)) continue;  // integers wrap, and the reference does not
      const bool near = x == y || (std::isnan(x) && std::isnan(y)) ||
                        (is_float(a.dtype) &&
                         std::fabs(x - y) <=
                             std::max(tolerance(a.dtype), coarse ? 2e-3 : 0) * (1 + std::fabs(y)));
      if (!near) return fmt::format("result {} is {} at {}, the reference {}", k, x, i, y);
    }
  }
  return "";
}

struct TensorCase {
  std::size_t variant;
  Attributes attributes;
  Tensors in;
  std::string text;
};

// "" where the case is refused with one line or gives what the naive backend gives.
std::string try_case(const TensorOp& op, const std::function<TensorOp::Run>& run,
                     const TensorCase& c, Counted& counted) {
  Tensors got;
  try {
    got = run(c.attributes, c.in, c.variant);
  } catch (const Exception& e) {
    const std::string text = e.what();
    return text.empty() || text.find('\n') != text.npos ? "the error is \"" + text + "\"" : "";
  }
  ++counted.taken;
  for (const HostTensor& t : got)
    if (!check_shape(t.shape, "")) return "gives shape " + to_string(t.shape);
  for (const HostTensor& t : c.in)
    if (is_packed(t.dtype)) return "";
  if (!op.reference) return "";
  for (const HostTensor& t : got)
    if (is_packed(t.dtype) || t.bytes.empty())
      return "";  // the naive backend has no such, or waits
  ++counted.compared;
  try {
    const bool coarse = op.name == "matmul" && c.variant > 1;  // with a math that is asked for
    return difference(got, op.reference(c.attributes, c.in, c.variant), coarse);
  } catch (const Exception& e) {
    return std::string("taken, but the reference says: ") + e.what();
  }
}

// The odd cases of an op, in an order that never changes.
class CasesOf {
 public:
  explicit CasesOf(const TensorOp& op) : op_(op), count_(op.any_number ? 2 : op.kinds.size()) {
    if (count_ == 0)
      for (std::size_t variant = 0; variant < op.variants; ++variant) add(variant, {}, {});
    else
      examples(), dtypes(), shapes(), anything();
  }
  std::vector<TensorCase> cases;

 private:
  const std::string& kind(std::size_t i) const { return op_.kinds[op_.any_number ? 0 : i]; }

  void add(std::size_t variant, const std::vector<Dtype>& dtypes, const std::vector<Shape>& shapes,
           const Attributes& attributes = {}) {
    TensorCase c{variant, attributes, {}, fmt::format("{} variant {}", op_.name, variant)};
    for (std::size_t i = 0; i < count_; ++i) {
      c.in.push_back(values(dtypes[i], shapes[i], cases.size() * 8 + i));
      c.text += fmt::format(" {}{}", name(dtypes[i]), to_string(shapes[i]));
    }
    for (const auto& [key, value] : attributes) c.text += fmt::format(" {}={}", key, value);
    cases.push_back(std::move(c));
  }

  // As the registry's examples are, with every attribute.
  void examples() {
    for (const OpEntry& entry : all_ops()) {
      std::string_view known = entry.info->name;
      for (std::string_view part : {"_per_tensor", "_per_channel", "_per_token", "_per_group"})
        if (const auto at = known.find(part); at != known.npos && op_.name != known) {
          if (std::string(known.substr(0, at)) + std::string(known.substr(at + part.size())) ==
              op_.name)
            known = op_.name;
          break;
        }
      if (known != op_.name) continue;
      for (const DtypePair& pair : entry.dtypes)
        for (const Shape& shape : {Shape{2, 6}, Shape{0}, Shape{1, 2, 4, 4}})
          if (const auto example = verify::example_case(entry.info->name, pair, shape))
            this->example(*example);
    }
  }
  void example(const verify::Case& c) {
    std::vector<Dtype> dtypes;
    std::vector<Shape> shapes;
    Attributes attributes = c.attributes;
    std::size_t first = 0;
    // An op that starts from zeros: x is left out, and its shape said.
    if (c.inputs.size() == count_ + 1 && !fits(c.inputs[0].dtype, kind(0))) {
      attributes["shape"] =
          fmt::format("{}", fmt::join(c.inputs[0].shape.begin(), c.inputs[0].shape.end(), "x"));
      first = 1;
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (op_.name == "matmul" && i == 2 && c.inputs.size() == 2) {  // a bias, which examples lack
        dtypes.push_back(dtypes[0]);
        shapes.push_back({shapes[1][shapes[1].rank() - 1]});
        continue;
      }
      if (op_.name == "matmul" && i == 3 && c.inputs.size() == 2) {  // a residual, like C
        dtypes.push_back(dtypes[0]);
        shapes.push_back(shapes[0]);
        shapes[3][shapes[3].rank() - 1] = shapes[1][shapes[1].rank() - 1];
        continue;
      }
      if (first + i >= c.inputs.size() || !fits(c.inputs[first + i].dtype, kind(i))) return;
      dtypes.push_back(c.inputs[first + i].dtype);
      shapes.push_back(c.inputs[first + i].shape);
    }
    if (op_.name == "affine_grid_backward")  // a gradient's own shape says the size
      attributes["size"] = fmt::format("{}x1x{}", shapes[0][0],
                                       fmt::join(shapes[0].begin() + 1, shapes[0].end() - 1, "x"));
    for (std::size_t variant = 0; variant < op_.variants; ++variant)
      add(variant, dtypes, shapes, attributes);
  }
  static bool fits(Dtype dtype, std::string_view kind) {
    const auto known = dtypes_of(kind);
    return std::find(known.begin(), known.end(), dtype) != known.end();
  }

  // All dtypes of the first two operands, the others as the first that fits.
  void dtypes() {
    for (std::size_t variant = 0; variant < op_.variants; ++variant)
      for (const Shape& shape : kShapes)
        for (Dtype t : dtypes_of(kind(0)))
          for (Dtype u : count_ > 1 ? dtypes_of(kind(1)) : std::vector{t}) {
            if (variant > 1 && kind(0) == kind(count_ > 1 ? 1 : 0) && t != u) continue;
            std::vector<Dtype> dtypes(count_, t);
            if (count_ > 1) dtypes[1] = u;
            for (std::size_t i = 2; i < count_; ++i)
              dtypes[i] = kind(i) == kind(1) ? u : kind(i) == kind(0) ? t : dtypes_of(kind(i))[0];
            add(variant, dtypes, std::vector<Shape>(count_, shape));
            if (count_ > 2 && kind(count_ - 1) == "int") {  // i32 at the end
              dtypes[count_ - 1] = Dtype::i32;
              add(variant, dtypes, std::vector<Shape>(count_, shape));
            }
          }
  }
  // All pairs of shapes.
  void shapes() {
    if (count_ < 2) return;
    for (const Shape& a : kShapes)
      for (const Shape& b : kShapes) {
        std::vector<Dtype> dtypes;
        for (std::size_t i = 0; i < count_; ++i) dtypes.push_back(dtypes_of(kind(i))[0]);
        std::vector<Shape> shapes(count_, b);
        shapes[0] = a;
        add(0, dtypes, shapes);
        std::swap(shapes[0], shapes[count_ - 1]);
        add(0, dtypes, shapes);
      }
  }
  // Any of them together.
  void anything() {
    const PhiloxStream random{17, 0};
    for (std::uint64_t k = 0; count_ > 1 && k < 1000; ++k) {
      std::vector<Dtype> dtypes;
      std::vector<Shape> shapes;
      for (std::size_t i = 0; i < count_; ++i) {
        const Philox4 r = random.words(k * 8 + i);
        const auto known = dtypes_of(kind(i));
        dtypes.push_back(known[r.v[0] % known.size()]);
        shapes.push_back(kShapes[r.v[1] % std::size(kShapes)]);
      }
      add(random.words(k).v[3] % op_.variants, dtypes, shapes);
    }
  }

  const TensorOp& op_;
  const std::size_t count_;
};

// Whose operands must fit each other in ways that no example has: for their plans, odd.test.cpp.
const std::string kHard[] = {"embedding_bag float int int float",
                             "embedding_bag_backward float int int int",
                             "embedding_bag_backward float int int float float",
                             "attention_backward float float float bool float float float",
                             "attention_backward float float float float float float float"};

TEST(OddTensors, AreTakenOrRefusedInOneLine) {
  for (const TensorOp& op : all_tensor_ops()) {
    const std::vector<TensorCase> cases = CasesOf(op).cases;
    std::vector<IsolatedCase> isolated;
    for (const TensorCase& c : cases)
      isolated.push_back(
          {[&](Counted& n) { return try_case(op, op.cpu, c, n); }, [&] { return c.text; }});
    const IsolatedReport report = run_isolated(isolated, 60);
    for (std::size_t k = 0; k < report.failures.size() && k < 10; ++k)
      ADD_FAILURE() << report.failures[k];
    EXPECT_EQ(report.failures.size(), 0u) << op.name << ", of " << cases.size();
    // The sweep is of use only where much of it is taken.
    const std::string kinds = fmt::format("{}", fmt::join(op.kinds, " "));
    const bool hard = std::count(std::begin(kHard), std::end(kHard), op.name + " " + kinds) > 0;
    EXPECT_TRUE(hard || report.counted.taken > 3) << op.name << " " << kinds;
    EXPECT_EQ(report.counted.compared > 0, op.reference != nullptr) << op.name;
  }
}

TEST(Cuda, TakesOrRefusesOddTensorsInOneLine) {
  if (cuda::device_count() == 0) GTEST_SKIP() << "no CUDA device";
  Counted counted;
  std::size_t failures = 0;
  for (const TensorOp& op : all_tensor_ops())
    for (const TensorCase& c : CasesOf(op).cases) {
      const std::string fault = try_case(op, op.cuda, c, counted);
      if (fault.empty()) continue;
      ADD_FAILURE() << c.text << ": " << fault;
      ASSERT_LT(++failures, 20u);  // after an illegal access nothing else can be run
    }
  EXPECT_GT(counted.taken, 10 * all_tensor_ops().size());
}

TEST(OddTensors, ThereAreManyWithAReference) {
  std::size_t with_reference = 0;
  for (const TensorOp& op : all_tensor_ops()) with_reference += op.reference != nullptr;
  EXPECT_GT(all_tensor_ops().size(), 170u);
  EXPECT_GT(with_reference, 100u);
}

}  // namespace
}  // namespace planck::conformance
