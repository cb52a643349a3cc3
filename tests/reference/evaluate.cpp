#include "tests/reference/evaluate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "planck/core/exception.h"
#include "planck/math/philox.h"
#include "planck/ops/elementwise/test/reference.test.h"

namespace planck {

namespace {

template <class F>
void visit_element(Dtype t, F&& f) {
  switch (t) {
    case Dtype::f64:
      return f(double{});
    case Dtype::f32:
      return f(float{});
    case Dtype::f16:
      return f(f16{});
    case Dtype::bf16:
      return f(bf16{});
    case Dtype::i64:
      return f(std::int64_t{});
    case Dtype::i32:
      return f(std::int32_t{});
    case Dtype::s8:
      return f(std::int8_t{});
    default:
      return f(std::uint8_t{});
  }
}

// Calls f(index) for every index tuple of a shape, in row-major order.
template <class F>
void for_each_index(const Shape& shape, F&& f) {
  Extents i = Extents::filled(shape.rank(), 0);
  for (std::int64_t left = numel(shape); left > 0; --left) {
    f(i);
    for (int d = shape.rank() - 1; d >= 0; --d) {
      if (++i[d] < shape[d]) break;
      i[d] = 0;
    }
  }
}

std::int64_t offset(const Extents& i, const Strides& strides) {
  std::int64_t at = 0;
  for (int d = 0; d < i.rank(); ++d) at += i[d] * strides[d];
  return at;
}

std::size_t position(const Extents& i, const Shape& shape) {
  return static_cast<std::size_t>(offset(i, row_major(shape)));
}

}  // namespace

ReferenceValues read_elements(Dtype dtype, const Shape& shape, const void* data) {
  ReferenceValues v{dtype, shape, {}};
  visit_element(dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < numel(shape); ++i)
      v.at.push_back(static_cast<double>(static_cast<const T*>(data)[i]));
  });
  return v;
}

namespace {
// Integers are held between the ends of their type: nothing here wraps.
template <class T>
T held(double v) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kLowest = static_cast<double>(std::numeric_limits<T>::min());
    constexpr auto kHighest = static_cast<double>(std::numeric_limits<T>::max());
    if (!(v > kLowest)) return std::isnan(v) ? T(0) : std::numeric_limits<T>::min();
    if (v >= kHighest) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(v);
}
}  // namespace

void write_elements(const ReferenceValues& v, void* data) {
  visit_element(v.dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < v.at.size(); ++i) static_cast<T*>(data)[i] = held<T>(v.at[i]);
  });
}

std::vector<InputSpec> specs_of(const ReferenceInputs& in) {
  std::vector<InputSpec> specs;
  for (const ReferenceValues* v : in) specs.push_back({v->dtype, v->shape});
  return specs;
}

ReferenceValues see(const ReferenceValues& x,
                    const std::function<Result<View>(const View&)>& view) {
  // The view op works on addresses: elements are told apart by their place in x.at.
  auto* base = const_cast<double*>(x.at.data());
  const View seen = value_or_throw(view(View{base, Dtype::f64, x.shape, row_major(x.shape), true}));
  ReferenceValues y{x.dtype, seen.shape, {}};
  for_each_index(seen.shape, [&](const Extents& i) {
    y.at.push_back(static_cast<const double*>(seen.data)[offset(i, seen.strides)]);
  });
  return y;
}

ReferenceValues put_together(const Assembly& assembly, const ReferenceInputs& in) {
  ReferenceValues y{assembly.dtype, assembly.shape,
                    std::vector<double>(static_cast<std::size_t>(numel(assembly.shape)),
                                        assembly.fill.value_or(0).number)};
  for (const auto& piece : assembly.pieces) {
    const ReferenceValues& x = *in[static_cast<std::size_t>(piece.input)];
    for_each_index(x.shape, [&](const Extents& i) {
      Extents to = i;
      bool inside = true;
      for (int d = 0; d < i.rank(); ++d) {
        to[d] = piece.onto.start[d] + i[d] * piece.onto.step[d];
        inside &= to[d] >= 0 && to[d] < assembly.shape[d];
      }
      if (inside) y.at[position(to, y.shape)] = x.at[position(i, x.shape)];
    });
  }
  return y;
}

ReferenceOutputs elementwise(std::string_view op, const ReferenceInputs& in, Dtype dtype, double p,
                             double q) {
  for (const ReferenceValues* v : in)
    if (v->shape != in[0]->shape)
      raise(ErrorCode::invalid_problem, std::string(op) + ": shapes " + to_string(in[0]->shape) +
                                            " and " + to_string(v->shape));
  ReferenceValues y{dtype, in[0]->shape, {}};
  const auto f = test::elementwise_references().at(op);
  const auto at = [&](std::size_t k, std::size_t i) { return k < in.size() ? in[k]->at[i] : 0.0; };
  const auto by_zero = [&](std::size_t i) {  // integers: a / 0 = 0
    return !is_float(dtype) &&
           ((op == "div" && at(1, i) == 0) || (op == "rdiv_scalar" && at(0, i) == 0));
  };
  for (std::size_t i = 0; i < in[0]->at.size(); ++i)
    y.at.push_back(by_zero(i) ? 0 : static_cast<double>(f(at(0, i), at(1, i), at(2, i), p, q)));
  return {y};
}

ReferenceOutputs evaluate(const LeakyRelu& op, const ReferenceInputs& in) {
  return elementwise("leaky_relu", in, in[0]->dtype, op.slope);
}
ReferenceOutputs evaluate(const Clamp& op, const ReferenceInputs& in) {
  return elementwise("clamp", in, in[0]->dtype, op.lowest.number, op.highest.number);
}
ReferenceOutputs evaluate(const AddScalar& op, const ReferenceInputs& in) {
  return elementwise("add_scalar", in, in[0]->dtype, op.value.number);
}
ReferenceOutputs evaluate(const MulScalar& op, const ReferenceInputs& in) {
  return elementwise("mul_scalar", in, in[0]->dtype, op.value.number);
}
ReferenceOutputs evaluate(const DivScalar& op, const ReferenceInputs& in) {
  return elementwise("div_scalar", in, in[0]->dtype, op.value.number);
}
ReferenceOutputs evaluate(const RdivScalar& op, const ReferenceInputs& in) {
  return elementwise("rdiv_scalar", in, in[0]->dtype, op.value.number);
}
ReferenceOutputs evaluate(const PowScalar& op, const ReferenceInputs& in) {
  return elementwise("pow_scalar", in, in[0]->dtype, op.exponent);
}
ReferenceOutputs evaluate(const MaskFill& op, const ReferenceInputs& in) {
  return elementwise("mask_fill", in, in[0]->dtype, op.value.number);
}

namespace {

double fold(ReduceKind kind, const std::vector<double>& v, std::int64_t correction) {
  const double n = static_cast<double>(v.size());
  double sum = 0, product = 1, least = INFINITY, most = -INFINITY, truths = 0;
  bool nan = false;
  for (double x : v) {
    sum += x;
    product *= x;
    nan |= std::isnan(x);
    least = std::min(least, x);
    most = std::max(most, x);
    truths += x != 0;
  }
  switch (kind) {
    case ReduceKind::sum:
      return sum;
    case ReduceKind::mean:
      return sum / n;
    case ReduceKind::prod:
      return product;
    case ReduceKind::max:
      return nan ? std::nan("") : most;
    case ReduceKind::min:
      return nan ? std::nan("") : least;
    case ReduceKind::var: {
      double squares = 0;
      for (double x : v) squares += (x - sum / n) * (x - sum / n);
      return n > static_cast<double>(correction) ? squares / (n - static_cast<double>(correction))
                                                 : std::nan("");
    }
    case ReduceKind::logsumexp: {
      if (v.empty() || std::isinf(most)) return most;
      double total = 0;
      for (double x : v) total += std::exp(x - most);
      return most + std::log(total);
    }
    case ReduceKind::argmax:
      return static_cast<double>(std::max_element(v.begin(), v.end()) - v.begin());
    case ReduceKind::argmin:
      return static_cast<double>(std::min_element(v.begin(), v.end()) - v.begin());
    case ReduceKind::any:
      return truths > 0;
    default:
      return truths == n;
  }
}

}  // namespace

ReferenceOutputs reduce(ReduceKind kind, unsigned axes, const ReferenceValues& x,
                        std::int64_t correction) {
  ReferenceValues y{x.dtype, x.shape, {}};
  if (kind == ReduceKind::argmax || kind == ReduceKind::argmin) y.dtype = Dtype::i64;
  for (int d = 0; d < x.shape.rank(); ++d)
    if (axes >> d & 1u) y.shape[d] = 1;
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(numel(y.shape)));
  for_each_index(x.shape, [&](const Extents& i) {
    Extents to = i;
    for (int d = 0; d < i.rank(); ++d)
      if (axes >> d & 1u) to[d] = 0;
    groups[position(to, y.shape)].push_back(x.at[position(i, x.shape)]);
  });
  for (const auto& group : groups) y.at.push_back(fold(kind, group, correction));
  return {y};
}

ReferenceOutputs evaluate(const Var& op, const ReferenceInputs& in) {
  return reduce(ReduceKind::var, op.axes, *in[0], op.correction);
}

ReferenceOutputs evaluate(const Cumsum& op, const ReferenceInputs& in) {
  const ReferenceValues& x = *in[0];
  ReferenceValues y = x;
  for_each_index(x.shape, [&](const Extents& i) {
    double sum = 0;
    const std::int64_t from = op.reverse ? i[op.axis] : 0;
    const std::int64_t to = op.reverse ? x.shape[op.axis] - 1 : i[op.axis];
    for (std::int64_t k = from; k <= to; ++k) {
      Extents j = i;
      j[op.axis] = k;
      sum += x.at[position(j, x.shape)];
    }
    y.at[position(i, x.shape)] = sum;
  });
  return {y};
}

// For each element, its line searched anew from the beginning.
ReferenceOutputs running_extreme(bool largest, int axis, const ReferenceValues& x) {
  ReferenceValues values = x, indices{Dtype::i64, x.shape, x.at};
  for_each_index(x.shape, [&](const Extents& i) {
    Extents j = i;
    const auto element = [&](std::int64_t k) {
      j[axis] = k;
      return x.at[position(j, x.shape)];
    };
    std::int64_t best = 0;  // the last of equals
    for (std::int64_t k = 1; k <= i[axis]; ++k)
      if (std::isnan(element(k)) ||
          (largest ? element(k) >= element(best) : element(k) <= element(best)))
        best = k;
    values.at[position(i, x.shape)] = element(best);
    indices.at[position(i, x.shape)] = static_cast<double>(best);
  });
  return {values, indices};
}

ReferenceOutputs evaluate(const Matmul& op, const ReferenceInputs& in) {
  value_or_throw(op.problem(specs_of(in)));
  const ReferenceValues &a = *in[0], &b = *in[1];
  const int rank = a.shape.rank();
  ReferenceValues c{a.dtype == Dtype::s8 ? Dtype::i32 : a.dtype, a.shape, {}};
  c.shape[rank - 1] = b.shape[rank - 1];
  for_each_index(c.shape, [&](const Extents& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.shape[rank - 1]; ++k) {
      Extents ia = i, ib = i;
      ia[rank - 1] = k;
      ib[rank - 2] = k;
      sum += a.at[position(ia, a.shape)] * b.at[position(ib, b.shape)];
    }
    if (op.has_bias(in.size())) sum += in[2]->at[static_cast<std::size_t>(i[rank - 1])];
    if (op.activation != Activation::none)
      sum = static_cast<double>(
          test::elementwise_references().at(name(op.activation))(sum, 0, 0, 0, 0));
    if (op.has_residual(in.size())) sum += in.back()->at[position(i, c.shape)];
    c.at.push_back(sum);
  });
  return {c};
}

// Numbers of 24 bits, four to a counter; of f64 53 bits, two to a counter.
ReferenceOutputs evaluate(const RandomBernoulli& op, const ReferenceInputs&) {
  ReferenceValues y{op.dtype, op.shape, {}};
  const PhiloxStream random{op.seed, op.offset};
  const bool wide = op.dtype == Dtype::f64;
  const double below = wide ? op.first : static_cast<double>(static_cast<float>(op.first));
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(numel(op.shape)); ++i) {
    const Philox4 w = random.words(wide ? i / 2 : i / 4);
    const std::uint64_t both =
        static_cast<std::uint64_t>(w.v[2 * (i % 2)]) << 32 | w.v[2 * (i % 2) + 1];
    const double u = wide ? static_cast<double>(both >> 11) * 0x1p-53
                          : static_cast<double>(w.v[i % 4] >> 8) * 0x1p-24;
    y.at.push_back(u < below ? 1 : 0);
  }
  return {y};
}

}  // namespace planck
