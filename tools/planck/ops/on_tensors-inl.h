// run_on_tensors for one backend: inputs to the device, the op, its gradients, and back.
#pragma once

#include <fmt/format.h>

#include "planck/ops/ops.h"
#include "tools/planck/ops/on_tensors.h"
#include "tools/planck/ops/traces.h"

namespace planck::cli {

namespace on_tensors_detail {

template <class A>
using Any = typename Trace<A>::Any;

template <class A>
Any<A> to_device(const HostView& v, const Stream& stream) {
  const auto load = [&]<class K>(K) {
    return Tensor<A, K>(A::template from_host<K>(stream, v.dtype, v.shape, v.bytes.data()));
  };
  if (is_float(v.dtype)) return load(FloatKind());
  if (v.dtype == Dtype::boolean) return load(BoolKind());
  return load(IntKind());
}

template <class B, class K>
HostTensor to_host(std::string name, std::string_view op, const Tensor<B, K>& t) {
  value_or_throw(check_memory(op, name, t.dtype(), t.shape()));
  HostTensor host{std::move(name), t.dtype(), t.shape(), {}};
  host.bytes.resize(bytes_for(t.dtype(), t.numel()));
  B::to_host(t.primitive(), host.bytes.data());
  return host;
}

// Shape ops, for tensors of one kind. Truth values move as the bytes they are.
template <class A, class K>
class Moves {
 public:
  using T = Tensor<A, K>;

  Moves(const TensorRequest& request, const std::vector<T>& in)
      : op_(*request.op),
        in_(in),
        read_(*request.op, request.attributes),
        truths_(request.inputs.begin()->second.dtype == Dtype::boolean) {}

  std::vector<T> run() const {
    const std::string_view name = op_.name;
    const T& x = in_[0];
    if (name == "reshape") return {reshape(x, list("shape"))};
    if (name == "permute") return {permute(x, list("axes"))};
    if (name == "expand") return {expand(x, list("shape"))};
    if (name == "flip") return {call(Flip{value_or_throw(read_.axes("axes", x.rank()))}, x)};
    if (name == "slice") return {call(slice_of(x), x)};
    if (name == "slice_assign") return {call(SliceAssign{slice_of(x)}, x, in_[1])};
    if (name == "cat") return {cat(in_, axis(x.rank()))};
    if (name == "stack") return {stack(in_, axis(x.rank() + 1))};
    if (name == "split") {
      const Extents sizes = list("sizes");
      return split(x, std::span(sizes.begin(), static_cast<std::size_t>(sizes.rank())),
                   axis(x.rank()));
    }
    if (name == "pad") return {padded(x)};
    return {repeated(x)};
  }

 private:
  // Beyond 2^40 no extent, width or count makes sense, and sums of them could overflow.
  Extents list(std::string_view attribute) const {
    const Extents values = value_or_throw(read_.list(attribute, "whole numbers, as 4x5 or 4,5"));
    Shape known;
    for (const std::int64_t v : values) {
      if (v > kMost || v < -kMost)
        raise(ErrorCode::invalid_problem,
              fmt::format("{}: {}={} is beyond 2^40", op_.name, attribute, v));
      known.push_back(std::max<std::int64_t>(v, 1));
    }
    if (attribute == "shape") value_or_throw(check_shape(known, op_.name));
    return values;
  }
  int axis(int rank) const { return value_or_throw(read_.axis("axis", rank)); }
  SliceAxis slice_of(const T& x) const {
    SliceAxis slice{axis(x.rank()), value_or_throw(read_.integer("start"))};
    if (!read_.text("stop").empty()) slice.stop = value_or_throw(read_.integer("stop"));
    slice.step = std::clamp(value_or_throw(read_.integer("step")), -kMost, kMost);
    return slice;
  }
  T padded(const T& x) const {
    const auto around = [&](std::string_view attribute) {
      return read_.text(attribute).empty() ? Extents::filled(x.rank(), 0) : list(attribute);
    };
    const auto exact = parse_whole(read_.text("value"));
    const Pad op{around("before"), around("after"),
                 exact ? Scalar(*exact) : Scalar(value_or_throw(read_.number("value")))};
    if (truths_ && exact != 0 && exact != 1)
      raise(ErrorCode::invalid_problem,
            fmt::format("{}: value={}, a truth value is 0 or 1", op_.name, read_.text("value")));
    const InputSpec spec{x.dtype(), x.shape()};
    const Assembly assembled = value_or_throw(op.assembly(std::span(&spec, 1)));
    value_or_throw(check_shape(assembled.shape, op_.name));
    value_or_throw(check_memory(op_.name, "y", x.dtype(), assembled.shape));
    return call(op, x);
  }
  T repeated(const T& x) const {
    const Extents counts = list("counts");
    Shape whole = x.shape();
    for (int d = 0; d < std::min(whole.rank(), counts.rank()); ++d)
      if (counts[d] > 0 && __builtin_mul_overflow(whole[d], counts[d], &whole[d]))
        whole[d] = INT64_MAX;
    value_or_throw(check_shape(whole, op_.name));
    value_or_throw(check_memory(op_.name, "y", x.dtype(), whole));
    return repeat(x, counts);
  }

  static constexpr std::int64_t kMost = std::int64_t{1} << 40;

  const OpInfo& op_;
  const std::vector<T>& in_;
  AttributeReader read_;
  const bool truths_;
};

// Inputs in the order of the op: x0, x1, … where it takes any number, at least one. All are there,
// and of one dtype.
inline std::vector<std::string> input_names(const TensorRequest& request) {
  std::vector<std::string> names;
  if (request.op->operands[0].name == "x0")
    for (std::size_t i = 0; i < std::max<std::size_t>(request.inputs.size(), 1); ++i)
      names.push_back(fmt::format("x{}", i));
  else
    for (const OperandInfo& o : request.op->operands)
      if (o.role == Role::input) names.emplace_back(o.name);
  for (const std::string& name : names)
    if (request.inputs.find(name) == request.inputs.end())
      raise(ErrorCode::invalid_problem, fmt::format("{}: input {} is missing; {} are given",
                                                    request.op->name, name, request.inputs.size()));
  const Dtype first = request.inputs.find(names[0])->second.dtype;
  for (const std::string& name : names)
    if (const Dtype dtype = request.inputs.find(name)->second.dtype; dtype != first)
      raise(ErrorCode::invalid_problem,
            fmt::format("{}: {} is {}, {} is {}: must be the same", request.op->name, name,
                        planck::name(dtype), names[0], planck::name(first)));
  return names;
}

template <class A, class K>
void move_elements(const TensorRequest& request, std::span<const std::string> names, Trace<A>& t) {
  std::vector<Tensor<A, K>> in;
  for (const std::string& name : names)
    in.push_back(std::get<Tensor<A, K>>(t.inputs().find(name)->second));
  for (const auto& piece : Moves<A, K>(request, in).run()) t.keep(piece);
}

template <class A>
void move_elements(const TensorRequest& request, Trace<A>& t) {
  const auto names = input_names(request);
  if (std::holds_alternative<Tensor<A>>(t.inputs().find(names[0])->second))
    move_elements<A, FloatKind>(request, names, t);
  else if (!request.gradients)
    move_elements<A, IntKind>(request, names, t);
  else
    t.refuse_gradient();
}

template <class P, class A>
bool trace_problem(const AnyProblem& problem, Trace<A>& t) {
  const auto* known = dynamic_cast<const ErasedProblem<P>*>(&problem);
  if (known != nullptr) trace(known->problem(), t);
  return known != nullptr;
}

template <class... P, class A>
void trace_any(const AnyProblem& problem, Trace<A>& t) {
  if (!(trace_problem<P>(problem, t) || ...)) t.refuse_gradient();
}

// The names of outputs, as many as there are.
inline std::vector<std::string> output_names(const TensorRequest& request, std::size_t count) {
  std::vector<std::string> names;
  if (request.problem == nullptr) {
    const bool pieces = request.op->name == "split";
    for (std::size_t i = 0; i < count; ++i) names.push_back(pieces ? fmt::format("y{}", i) : "y");
    return names;
  }
  const auto specs = request.problem->specs();
  for (std::size_t i = 0; i < specs.size() && names.size() < count; ++i)
    if (request.op->operands[i].role == Role::output && specs[i].used)
      names.emplace_back(request.op->operands[i].name);
  return names;
}

// Roots of the backward pass: outputs that have a cotangent, else the first float one, with ones.
template <class D, class A>
auto roots_of(const TensorRequest& request, const Trace<A>& t,
              const std::vector<std::string>& names, const Stream& stream) {
  std::vector<std::pair<typename A::FloatTensor, typename D::FloatTensor>> roots;
  for (const auto& [name, cotangent] : request.cotangents) {
    const auto at = std::find(names.begin(), names.end(), name) - names.begin();
    const auto* root = at == static_cast<std::ptrdiff_t>(names.size())
                           ? nullptr
                           : std::get_if<Tensor<A>>(&t.outputs()[static_cast<std::size_t>(at)]);
    if (root == nullptr)
      raise(ErrorCode::invalid_problem, fmt::format("{}: {}{}: it gives no floats called {}",
                                                    request.op->name, kGradient, name, name));
    roots.emplace_back(root->primitive(),
                       D::template from_host<FloatKind>(stream, cotangent.dtype, cotangent.shape,
                                                        cotangent.bytes.data()));
  }
  if (!roots.empty()) return roots;
  for (const auto& output : t.outputs())
    if (const auto* root = std::get_if<Tensor<A>>(&output)) {
      const auto ones = full_like(root->detach(), 1, root->shape());
      roots.emplace_back(root->primitive(), A::inner(ones.primitive()));
      break;
    }
  if (roots.empty()) t.refuse_gradient();
  return roots;
}

}  // namespace on_tensors_detail

template <class D>
std::vector<HostTensor> OnTensors<D>::run(const TensorRequest& request, const Stream& stream) {
  using namespace on_tensors_detail;
  using A = Autodiff<D>;
  std::map<std::string, Any<A>, std::less<>> inputs;
  for (const auto& [name, view] : request.inputs) {
    HostView seen = view;
    if (request.problem == nullptr && seen.dtype == Dtype::boolean) seen.dtype = Dtype::u8;
    auto tensor = to_device<A>(seen, stream);
    if (auto* floats = std::get_if<Tensor<A>>(&tensor); floats != nullptr && request.gradients)
      *floats = floats->require_grad();
    inputs.emplace(name, std::move(tensor));
  }
  Trace<A> t(request.op->name, std::move(inputs));
  if (request.problem != nullptr)
    trace_any<ElementwiseProblem, ReduceProblem, SoftmaxProblem, AttentionProblem, NormProblem,
              MatmulProblem, ConvProblem, PoolProblem, IndexProblem, SortProblem, GridSampleProblem,
              AffineGridProblem, EmbeddingProblem, QuantProblem>(*request.problem, t);
  else
    move_elements(request, t);

  const std::string_view op = request.op->name;
  const auto names = output_names(request, t.outputs().size());
  std::vector<HostTensor> answer;
  for (std::size_t i = 0; i < names.size(); ++i)
    std::visit([&](const auto& y) { answer.push_back(to_host(names[i], op, y)); }, t.outputs()[i]);
  if (request.problem == nullptr && request.inputs.begin()->second.dtype == Dtype::boolean)
    for (HostTensor& y : answer) y.dtype = Dtype::boolean;
  if (!request.gradients) return answer;
  const auto gradients = A::backward(roots_of<D>(request, t, names, stream));
  for (const auto& [name, input] : t.inputs()) {
    const auto* x = std::get_if<Tensor<A>>(&input);
    if (x == nullptr) continue;
    const auto found = A::grad(x->primitive(), gradients);
    const auto dx = found ? Tensor<D>(*found)
                          : Tensor<D>(A::inner(full_like(x->detach(), 0, x->shape()).primitive()));
    answer.push_back(to_host(std::string(kGradient) + name, op, dx));
  }
  return answer;
}

}  // namespace planck::cli
