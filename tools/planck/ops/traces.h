// The ops of every family on tracked tensors: from a problem of the registry, which has read the
// request, to the op as a value. on_tensors-inl.h calls it.
#pragma once

#include <variant>

#include "planck/ops/attention/attention.problem.h"
#include "planck/ops/conv/conv.problem.h"
#include "planck/ops/embedding/embedding.problem.h"
#include "planck/ops/grid_sample/grid_sample.problem.h"
#include "planck/ops/index/index.problem.h"
#include "planck/ops/matmul/matmul.problem.h"
#include "planck/ops/norm/norm.problem.h"
#include "planck/ops/pool/pool.problem.h"
#include "planck/ops/quantize/quantize.problem.h"
#include "planck/ops/reduce/reduce.problem.h"
#include "planck/ops/softmax/softmax.problem.h"
#include "planck/ops/sort/sort.problem.h"
#include "planck/planck.h"

namespace planck::cli {

// The inputs by name, and the outputs in the order of the op's.
template <class A>
class Trace {
 public:
  using F = Tensor<A>;
  using I = Tensor<A, IntKind>;
  using B = Tensor<A, BoolKind>;
  using Any = std::variant<F, I, B>;

  Trace(std::string_view op, std::map<std::string, Any, std::less<>> inputs)
      : op_(op), inputs_(std::move(inputs)) {}

  bool has(std::string_view name) const { return inputs_.find(name) != inputs_.end(); }
  const F& f(std::string_view name) const { return get<F>(name, "floats"); }
  const I& i(std::string_view name) const { return get<I>(name, "integers"); }
  const B& b(std::string_view name) const { return get<B>(name, "truth values"); }
  const std::map<std::string, Any, std::less<>>& inputs() const { return inputs_; }
  const std::vector<Any>& outputs() const { return outputs_; }

  template <class Op, class... T>
  void apply(const Op& op, const T&... in) {
    keep(call(op, in...));
  }
  template <class K>
  void keep(const Tensor<A, K>& t) {
    outputs_.emplace_back(t);
  }
  template <class... T>
  void keep(const std::tuple<T...>& all) {
    std::apply([&](const auto&... t) { (outputs_.emplace_back(t), ...); }, all);
  }
  [[noreturn]] void refuse_gradient() const {
    raise(ErrorCode::not_differentiable, std::string(op_) + ": has no gradient");
  }

 private:
  template <class T>
  const T& get(std::string_view name, const char* kind) const {
    const T* t = std::get_if<T>(&inputs_.find(name)->second);
    if (t == nullptr)
      raise(ErrorCode::not_differentiable,
            std::string(op_) + ": gradients need " + std::string(name) + " to hold " + kind);
    return *t;
  }

  std::string_view op_;
  std::map<std::string, Any, std::less<>> inputs_;
  std::vector<Any> outputs_;
};

template <class A>
void trace(const ElementwiseProblem& p, Trace<A>& t) {
  using Op = ElementwiseOp;
  switch (p.op) {
#define PLANCK_TRACE_floats(...) __VA_ARGS__
#define PLANCK_TRACE_numbers(...) __VA_ARGS__
#define PLANCK_TRACE_booleans(...)
#define PLANCK_TRACE_integers(...)
#define PLANCK_UNARY_OP(name, Type, dtypes, ...) \
  PLANCK_TRACE_##dtypes(case Op::name : return t.apply(Type{}, t.f("x"));)
#define PLANCK_BINARY_OP(name, Type, dtypes, ...) \
  PLANCK_TRACE_##dtypes(case Op::name : return t.apply(Type{}, t.f("a"), t.f("b"));)
#define PLANCK_SCALAR_OP(...)
#define PLANCK_COMPARE_OP(...)
#include "planck/ops/elementwise/elementwise.table.h"
#undef PLANCK_TRACE_floats
#undef PLANCK_TRACE_numbers
#undef PLANCK_TRACE_booleans
#undef PLANCK_TRACE_integers
    case Op::leaky_relu:
      return t.apply(LeakyRelu{{}, p.scalars[0].number}, t.f("x"));
    case Op::clamp:
      return t.apply(Clamp{{}, p.scalars[0], p.scalars[1]}, t.f("x"));
    case Op::add_scalar:
      return t.apply(AddScalar{{}, p.scalars[0]}, t.f("x"));
    case Op::mul_scalar:
      return t.apply(MulScalar{{}, p.scalars[0]}, t.f("x"));
    case Op::div_scalar:
      return t.apply(DivScalar{{}, p.scalars[0]}, t.f("x"));
    case Op::rdiv_scalar:
      return t.apply(RdivScalar{{}, p.scalars[0]}, t.f("x"));
    case Op::pow_scalar:
      return t.apply(PowScalar{{}, p.scalars[0].number}, t.f("x"));
    case Op::where:
      return t.apply(Where<FloatKind>{}, t.b("condition"), t.f("a"), t.f("b"));
    case Op::mask_fill:
      return t.apply(MaskFill{{}, p.scalars[0]}, t.f("x"), t.b("mask"));
    case Op::copy:
      return t.keep(reshape(t.f("x"), p.shape));
    case Op::cast:
      if (is_float(p.to)) return t.apply(Cast<FloatKind>{{}, p.to}, t.f("x"));
      t.refuse_gradient();
    default:
      t.refuse_gradient();
  }
}

template <class A>
void trace(const ReduceProblem& p, Trace<A>& t) {
  const unsigned axes = p.axes;
  int axis = 0;
  while (p.scans() && !p.reduces(axis)) ++axis;
  switch (p.kind) {
    case ReduceKind::sum:
      return t.apply(Sum{axes}, t.f("x"));
    case ReduceKind::mean:
      return t.apply(Mean{axes}, t.f("x"));
    case ReduceKind::prod:
      return t.apply(Prod{axes}, t.f("x"));
    case ReduceKind::max:
      return t.apply(Max{axes}, t.f("x"));
    case ReduceKind::min:
      return t.apply(Min{axes}, t.f("x"));
    case ReduceKind::var:
      return t.apply(Var{{axes}, p.correction}, t.f("x"));
    case ReduceKind::logsumexp:
      return t.apply(LogSumExp{axes}, t.f("x"));
    case ReduceKind::cumsum:
      return t.apply(Cumsum{axis, p.reverse}, t.f("x"));
    case ReduceKind::cummax:
      return t.apply(Cummax<FloatKind>{axis}, t.f("x"));
    case ReduceKind::cummin:
      return t.apply(Cummin<FloatKind>{axis}, t.f("x"));
    default:
      t.refuse_gradient();
  }
}

template <class A>
void trace(const SoftmaxProblem& p, Trace<A>& t) {
  switch (p.kind) {
    case SoftmaxKind::softmax:
      return t.apply(Softmax{p.axis}, t.f("x"));
    case SoftmaxKind::log_softmax:
      return t.apply(LogSoftmax{p.axis}, t.f("x"));
    case SoftmaxKind::cross_entropy:
      return t.apply(CrossEntropy{p.ignore_index, p.wide_loss}, t.f("x"), t.i("targets"));
    default:
      t.refuse_gradient();
  }
}

template <class A>
void trace(const AttentionProblem& p, Trace<A>& t) {
  if (p.backward()) t.refuse_gradient();
  const Attention op{p.options};
  if (!p.mask) return t.apply(op, t.f("q"), t.f("k"), t.f("v"));
  if (p.mask == Dtype::boolean) return t.apply(op, t.f("q"), t.f("k"), t.f("v"), t.b("mask"));
  t.apply(op, t.f("q"), t.f("k"), t.f("v"), t.f("mask"));
}

template <class A>
void trace(const NormProblem& p, Trace<A>& t) {
  if (p.backward()) t.refuse_gradient();
  const auto with = [&]<bool kCentered>(std::bool_constant<kCentered>) {
    if (p.weighted && p.biased)
      return t.apply(Norm<kCentered, true, true>{p.axes, p.eps}, t.f("x"), t.f("weight"),
                     t.f("bias"));
    if (p.weighted)
      return t.apply(Norm<kCentered, true, false>{p.axes, p.eps}, t.f("x"), t.f("weight"));
    if (p.biased)
      return t.apply(Norm<kCentered, false, true>{p.axes, p.eps}, t.f("x"), t.f("bias"));
    t.apply(Norm<kCentered, false, false>{p.axes, p.eps}, t.f("x"));
  };
  p.centered() ? with(std::true_type()) : with(std::false_type());
}

template <class A>
void trace(const MatmulProblem& p, Trace<A>& t) {
  const MatmulOptions options{.math = p.math, .activation = p.activation};
  if (p.residual)
    return t.keep(matmul(t.f("a"), t.f("b"), p.bias ? std::optional(t.f("bias")) : std::nullopt,
                         t.f("residual"), options));
  if (p.bias) return t.keep(matmul(t.f("a"), t.f("b"), t.f("bias"), options));
  t.keep(matmul(t.f("a"), t.f("b"), options));
}

template <class A>
void trace(const ConvProblem& p, Trace<A>& t) {
  switch (p.kind) {
    case ConvKind::conv2d:
      return t.apply(Conv2d{p.options, p.math}, t.f("x"), t.f("weight"));
    case ConvKind::conv2d_input:
      return t.apply(Conv2dInput{p.options, {p.x[2], p.x[3]}, p.math}, t.f("dy"), t.f("weight"));
    case ConvKind::conv2d_weight:
      return t.apply(Conv2dWeight{p.options, {p.weight[2], p.weight[3]}, p.math}, t.f("x"),
                     t.f("dy"));
  }
}

template <class A>
void trace(const PoolProblem& p, Trace<A>& t) {
  const PoolPair image = {p.x[p.x.rank() - 2], p.x[p.x.rank() - 1]};
  switch (p.kind) {
    case PoolKind::max_pool2d:
      return t.apply(MaxPool2d<FloatKind>{p.options}, t.f("x"));
    case PoolKind::max_pool2d_backward:
      return t.apply(MaxPool2dBackward{p.options, image}, t.f("dy"), t.i("indices"));
    case PoolKind::avg_pool2d:
      return t.apply(AvgPool2d{p.options}, t.f("x"));
    case PoolKind::avg_pool2d_backward:
      return t.apply(AvgPool2dBackward{p.options, image}, t.f("dy"));
    case PoolKind::adaptive_avg_pool2d:
      return t.apply(AdaptiveAvgPool2d{p.size}, t.f("x"));
    case PoolKind::adaptive_avg_pool2d_backward:
      return t.apply(AdaptiveAvgPool2dBackward{image}, t.f("dy"));
  }
}

template <class A>
void trace(const IndexProblem& p, Trace<A>& t) {
  // Onto zeros where no x is given.
  const auto start = [&] {
    if (t.has("x")) return t.f("x");
    const std::string_view source = p.by_axis() ? "source" : "values";
    return full_like(t.f(source).detach(), 0, p.x);
  };
  switch (p.kind) {
    case IndexKind::gather:
      return t.apply(Gather<FloatKind>{{p.axis}}, t.f("x"), t.i("index"));
    case IndexKind::index_select:
      return t.apply(IndexSelect<FloatKind>{{p.axis}}, t.f("x"), t.i("index"));
    case IndexKind::scatter:
      return t.apply(Scatter<FloatKind>{{p.axis}}, start(), t.i("index"), t.f("source"));
    case IndexKind::scatter_add:
      return t.apply(ScatterAdd<FloatKind>{{p.axis}}, start(), t.i("index"), t.f("source"));
    case IndexKind::index_add:
      return t.apply(IndexAdd<FloatKind>{{p.axis}}, start(), t.i("index"), t.f("source"));
    case IndexKind::mask_select:
      return t.apply(MaskSelect<FloatKind>{}, t.f("x"), t.b("mask"));
    case IndexKind::mask_scatter:
      return t.apply(MaskScatter<FloatKind>{}, start(), t.b("mask"), t.f("values"));
    default:
      t.refuse_gradient();
  }
}

template <class A>
void trace(const SortProblem& p, Trace<A>& t) {
  if (p.kind == SortKind::sort) return t.apply(Sort<FloatKind>{p.axis, p.descending}, t.f("x"));
  if (p.kind == SortKind::topk)
    return t.apply(Topk<FloatKind>{p.axis, p.k, p.descending}, t.f("x"));
  t.refuse_gradient();
}

template <class A>
void trace(const GridSampleProblem& p, Trace<A>& t) {
  if (p.backward) t.refuse_gradient();
  t.apply(GridSample{p.mode, p.padding, p.align_corners}, t.f("input"), t.f("grid"));
}
template <class A>
void trace(const AffineGridProblem& p, Trace<A>& t) {
  const AffineGrid forward{p.size, p.align_corners};
  if (p.backward) return t.apply(AffineGridBackward{forward}, t.f("dgrid"));
  t.apply(forward, t.f("theta"));
}

template <class A>
void trace(const EmbeddingProblem& p, Trace<A>& t) {
  const auto bag = [&]<BagMode kMode>(std::integral_constant<BagMode, kMode>) {
    t.apply(EmbeddingBag<kMode>{p.padding_idx, p.include_last_offset}, t.f("weight"),
            t.i("indices"), t.i("offsets"));
  };
  switch (p.kind) {
    case TableOp::read:
      return t.apply(Embedding{p.padding_idx}, t.f("weight"), t.i("indices"));
    case TableOp::add:
      return t.apply(EmbeddingBackward{p.num_embeddings, p.padding_idx}, t.f("dout"),
                     t.i("indices"));
    case TableOp::read_bags:
      if (p.weighted)
        return t.apply(EmbeddingBag<BagMode::sum, true>{p.padding_idx, p.include_last_offset},
                       t.f("weight"), t.i("indices"), t.i("offsets"), t.f("weights"));
      if (p.mode == BagMode::sum) return bag(std::integral_constant<BagMode, BagMode::sum>());
      if (p.mode == BagMode::mean) return bag(std::integral_constant<BagMode, BagMode::mean>());
      return bag(std::integral_constant<BagMode, BagMode::max>());
    default:
      t.refuse_gradient();
  }
}

template <class A>
void trace(const QuantProblem& p, Trace<A>& t) {
  const QuantScheme& scheme = p;
  switch (p.kind) {
    case QuantKind::quantize_backward:
      return t.apply(QuantizeBackward{scheme}, t.f("dy"), t.f("x"), t.f("scale"),
                     t.i("zero_point"));
    case QuantKind::dequantize_backward:
      return t.apply(DequantizeBackward{scheme}, t.f("dy"), t.f("scale"));
    case QuantKind::dequantize:
      return t.apply(Dequantize{scheme}, t.i("q"), t.f("scale"), t.i("zero_point"));
    case QuantKind::fake_quantize:
      return t.apply(FakeQuantize{scheme}, t.f("x"), t.f("scale"), t.i("zero_point"));
    case QuantKind::fake_quantize_backward:
      if (!p.learnable)
        return t.apply(FakeQuantizeBackward<false>{scheme}, t.f("dy"), t.f("x"), t.f("scale"),
                       t.i("zero_point"));
      t.refuse_gradient();
    default:
      t.refuse_gradient();
  }
}

}  // namespace planck::cli
