#include "tests/conformance/odd_reference.h"

#include <fmt/format.h>

#include <cmath>

#include "planck/core/exception.h"
#include "planck/ops/elementwise/test/reference.test.h"
#include "planck/verify/checks/values.h"
#include "tests/reference/index.h"
#include "tests/reference/pool.h"

namespace planck::conformance {

namespace {

using verify::HostTensor;
using Naive = std::optional<ReferenceOutputs>;  // none: nothing to compare with

ReferenceValues values_of(const HostTensor& t) {
  return read_elements(t.dtype, t.shape, t.bytes.data());
}

// Numbers that sums and products of a few dozen neither overflow nor lose all digits of.
bool moderate(const HostTensor& t) {
  for (std::int64_t i = 0; i < t.count(); ++i)
    if (!(std::fabs(t.number(i)) <= 4)) return false;
  return true;
}
bool has_nan(const HostTensor& t) {
  for (std::int64_t i = 0; i < t.count(); ++i)
    if (std::isnan(t.number(i))) return true;
  return false;
}

Naive naive(const ReduceProblem& p, const TakenCase& c) {
  const HostTensor& x = c.inputs[0];
  const bool chooses = p.kind == ReduceKind::max || p.kind == ReduceKind::min ||
                       p.kind == ReduceKind::any || p.kind == ReduceKind::all;
  if (p.scans()) {
    int axis = 0;
    while (!p.reduces(axis)) ++axis;
    if (p.scans_extremes())
      return running_extreme(p.kind == ReduceKind::cummax, axis, values_of(x));
    if (!moderate(x)) return std::nullopt;
    const ReferenceValues v = values_of(x);
    return evaluate(Cumsum{axis, p.reverse}, {&v});
  }
  if (p.finds() ? has_nan(x) : !chooses && !moderate(x)) return std::nullopt;
  return reduce(p.kind, p.axes, values_of(x), p.correction);
}

Naive naive(const IndexProblem& p, const TakenCase& c) {
  std::vector<ReferenceValues> in;
  for (const HostTensor& t : c.inputs) in.push_back(values_of(t));
  const auto at = [&](std::size_t i) { return i < in.size() ? &in[i] : nullptr; };
  const bool writes = p.kind == IndexKind::scatter || p.adds();
  const std::size_t first = (writes || p.kind == IndexKind::mask_scatter) && !p.with_x ? 0 : 1;
  const ReferenceValues* x = first == 1 ? at(0) : nullptr;
  switch (p.kind) {
    case IndexKind::one_hot:
      return one_hot(in[0], p.classes, p.element_dtype);
    case IndexKind::nonzero:
      return index_by_mask(p.kind, nullptr, in[0], nullptr);
    case IndexKind::mask_select:
    case IndexKind::mask_scatter:
      return index_by_mask(p.kind, x, *at(first), at(first + 1));
    default:
      if (p.adds())
        for (const HostTensor& t : c.inputs)
          if (t.dtype == p.element_dtype && !moderate(t)) return std::nullopt;
      return index_by_axis(p.kind, p.axis, p.x, x, *at(first), at(first + 1));
  }
}

Naive naive(const SortProblem& p, const TakenCase& c) {
  auto found = sorted(values_of(c.inputs[0]), p.axis, p.descending, p.kept());
  if (p.kind == SortKind::argsort) found.erase(found.begin());
  return found;
}

Naive naive(const PoolProblem& p, const TakenCase& c) {
  if (!moderate(c.inputs[0])) return std::nullopt;
  const ReferenceValues first = values_of(c.inputs[0]);
  if (!p.backward()) return pooled(p, first);
  if (!p.largest()) return pooled_backward(p, first, nullptr);
  const ReferenceValues indices = values_of(c.inputs[1]);
  const double plane = static_cast<double>(p.x[p.x.rank() - 2] * p.x[p.x.rank() - 1]);
  for (double i : indices.at)
    if (i < 0 || i >= plane) return std::nullopt;  // not of any forward pass
  return pooled_backward(p, first, &indices);
}

template <class P>
Naive naive_as(const TakenCase& c) {
  const auto* known = dynamic_cast<const ErasedProblem<P>*>(&c.problem);
  return known == nullptr ? std::nullopt : naive(known->problem(), c);
}

// Sums are rounded otherwise; what is moved is not.
double tolerance(Dtype dtype) {
  return dtype == Dtype::f64   ? 1e-12
         : dtype == Dtype::f32 ? 1e-5
         : dtype == Dtype::f16 ? 2e-3
                               : 2e-2;
}

std::string difference(std::string_view name, const HostTensor& got, const ReferenceValues& want) {
  if (got.shape != want.shape)
    return fmt::format("{} has shape {}, naively {}", name, to_string(got.shape),
                       to_string(want.shape));
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double x = got.number(i), y = want.at[static_cast<std::size_t>(i)];
    const bool near =
        x == y || (std::isnan(x) && std::isnan(y)) ||
        (is_float(got.dtype) && std::fabs(x - y) <= tolerance(got.dtype) * (1 + std::fabs(y)));
    if (!near) return fmt::format("{} is {} at {}, naively {}", name, x, i, y);
  }
  return "";
}

// Of ops whose value is a formula of one element, without scalars.
std::string wrong_elements(const TakenCase& c, std::size_t& compared) {
  const OpInfo& info = c.problem.info();
  const auto& all = test::elementwise_references();
  const auto f = all.find(info.name);
  if (f == all.end() || !info.attributes.empty() || test::cancels(info.name)) return "";
  const Dtype read = c.inputs[info.name == "where" ? 1 : 0].dtype;
  if (read == Dtype::i64 || read == Dtype::i32)
    return "";  // they wrap: the family's test knows how
  ++compared;
  std::vector<double> expected;
  const auto at = [&](std::size_t k, std::int64_t i) {
    return k < c.inputs.size() ? c.inputs[k].number(i) : 0.0;
  };
  for (std::int64_t i = 0; i < c.inputs[0].count(); ++i)
    expected.push_back(static_cast<double>(f->second(at(0, i), at(1, i), at(2, i), 0, 0)));
  return verify::value_difference(c.outputs[0], expected, c.max_ulp);
}

}  // namespace

std::string wrong_values(const TakenCase& c, std::size_t& compared) {
  Naive want = naive_as<ReduceProblem>(c);
  if (!want) want = naive_as<IndexProblem>(c);
  if (!want) want = naive_as<SortProblem>(c);
  if (!want) want = naive_as<PoolProblem>(c);
  if (!want) return wrong_elements(c, compared);
  ++compared;
  std::size_t k = 0;
  const OpInfo& info = c.problem.info();
  for (std::size_t i = 0; i < info.operands.size(); ++i) {
    if (info.operands[i].role != Role::output || !c.problem.specs()[i].used) continue;
    if (k < want->size())
      if (auto d = difference(info.operands[i].name, c.outputs[k], (*want)[k]); !d.empty())
        return d;
    ++k;
  }
  return "";
}

}  // namespace planck::conformance
