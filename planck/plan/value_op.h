// Ops as values: a plain struct of attributes that a backend applies to tensors.
//
//   struct Exp { static constexpr std::string_view name = "exp"; … };        B::apply(Exp{}, x)
//
// An op says what it gives with `using Gives = …`: one kind of tensor, or Kinds<…> for several;
// where it says nothing, the kind of its first input. And it says how it is done, in one of five
// ways, tried in this order:
//
//   Result<View> view(const View& x) const              x seen differently, nothing moved
//   Result<Assembly> assembly(specs) const              a new tensor put together from slices
//   Problem problem(specs) const                        a plan of some family; or a Result of one
//   auto compute(const Tensor<B>&…) const               other ops, with a gradient of its own
//                                                       (and static constexpr bool computes = true)
//   auto decompose(const Tensor<B>&…) const             other ops, differentiated one by one
//
// An op with `static constexpr bool broadcasts = true` takes inputs of one shape; call() makes them
// so. `static constexpr bool memory_bound = true` says that computing it again costs no more than
// reading it: checkpointing may drop its result.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planck/core/scalar.h"
#include "planck/plan/op.h"

namespace planck {

struct FloatKind {
  static constexpr std::string_view name = "float";
};
struct IntKind {
  static constexpr std::string_view name = "int";
};
struct BoolKind {
  static constexpr std::string_view name = "bool";
};
// Integers that stand for floats, as quantizing gives them: gradients pass through them as floats.
struct CodeKind {
  static constexpr std::string_view name = "code";
};
// Codes with their scale, zero point and scheme: no op's own kind, but what people hold.
struct QuantizedKind {
  static constexpr std::string_view name = "quantized";
};
template <class... K>
struct Kinds {};

// A name as a template argument: ElementwiseOp<"exp">.
template <std::size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&literal)[N]) {
    for (std::size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
  constexpr std::string_view view() const { return {text, N - 1}; }
};

// The tensor people hold; backend/tensor.h defines it.
template <class B, class K = FloatKind>
class Tensor;

// A slice of each axis: elements start, start + step, …; extents of the slice. step may be
// negative.
struct Slice {
  Extents start, extent, step;
};

// A new tensor, put together: filled, then inputs copied over slices of it, in order.
struct Assembly {
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::optional<Scalar> fill;  // none: the pieces cover everything
  struct Piece {
    int input;
    Slice onto;
  };
  std::vector<Piece> pieces;
};

namespace value_op_detail {
template <class Op, class First>
struct ResultKind {
  using type = First;
};
template <class Op, class First>
struct ResultKind<Op, std::vector<First>> {
  using type = First;
};
template <class Op, class First>
requires requires { typename Op::Gives; }
struct ResultKind<Op, First> {
  using type = typename Op::Gives;
};
// What problem() answers is a problem, or a Result of one where an op can refuse its inputs itself.
template <class Problem>
const Problem& known(const Problem& problem) {
  return problem;
}
template <class Problem>
Problem known(Result<Problem>&& problem) {
  return value_or_throw(std::move(problem));
}
}  // namespace value_op_detail

// What Op gives where its first input is a First, or a vector of them.
template <class Op, class First>
using ResultKind = typename value_op_detail::ResultKind<Op, First>::type;

template <class Op>
concept ViewOp = requires(const Op& op, const View& v) {
  { op.view(v) } -> std::same_as<Result<View>>;
};
template <class Op>
concept AssemblyOp = requires(const Op& op, std::span<const InputSpec> in) {
  { op.assembly(in) } -> std::same_as<Result<Assembly>>;
};
template <class Op>
concept PlanOp = requires(const Op& op, std::span<const InputSpec> in) {
  value_op_detail::known(op.problem(in)).specs();
};

template <class Op>
concept ComputedOp = requires {
  requires Op::computes;
};

// Whether an input is a vector of tensors.
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class Op>
constexpr bool broadcasts() {
  if constexpr (requires { Op::broadcasts; }) return Op::broadcasts;
  return false;
}
template <class Op>
constexpr bool memory_bound() {
  if constexpr (requires { Op::memory_bound; }) return Op::memory_bound;
  return ViewOp<Op>;
}

}  // namespace planck
