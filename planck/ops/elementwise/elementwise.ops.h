// Elementwise ops as values. What each computes, and its conventions, are in elementwise.h; the
// functions and operators on tensors that apply them in elementwise.functions.h.
//
// Ops on several tensors broadcast: extents are equal, or 1 on one side. Scalars are attributes,
// not tensors. Float and integer tensors do not mix: to_float and to_int say what is meant.
#pragma once

#include "planck/ops/elementwise/elementwise.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

template <OpName N, ElementwiseOp Op>
struct Elementwise {
  static constexpr std::string_view name = N.view();
  static constexpr bool broadcasts = true, memory_bound = true;

  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], {}, {}); }

 protected:
  // The values' dtype and shape, and the op's scalars.
  static ElementwiseProblem of(const InputSpec& values, Scalar first, Scalar second) {
    return {.op = Op,
            .dtype = values.dtype,
            .to = values.dtype,
            .shape = values.shape,
            .scalars = {first, second}};
  }
};

template <OpName N, ElementwiseOp Op>
struct CompareOp : Elementwise<N, Op> {
  using Gives = BoolKind;
};

// Ops without attributes: using Exp = Elementwise<"exp", ElementwiseOp::exp>.
#define PLANCK_UNARY_OP(name, Type, ...) using Type = Elementwise<#name, ElementwiseOp::name>;
#define PLANCK_BINARY_OP PLANCK_UNARY_OP
#define PLANCK_COMPARE_OP(name, Type, ...) using Type = CompareOp<#name, ElementwiseOp::name>;
#include "planck/ops/elementwise/elementwise.table.h"

struct LeakyRelu : Elementwise<"leaky_relu", ElementwiseOp::leaky_relu> {
  double slope = 0.01;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], slope, {}); }
};
struct Clamp : Elementwise<"clamp", ElementwiseOp::clamp> {
  Scalar lowest = 0, highest = 1;
  ElementwiseProblem problem(std::span<const InputSpec> in) const {
    return of(in[0], lowest, highest);
  }
};
struct AddScalar : Elementwise<"add_scalar", ElementwiseOp::add_scalar> {
  Scalar value = 0;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], value, {}); }
};
struct MulScalar : Elementwise<"mul_scalar", ElementwiseOp::mul_scalar> {
  Scalar value = 1;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], value, {}); }
};
// A true division, not a product with the reciprocal.
struct DivScalar : Elementwise<"div_scalar", ElementwiseOp::div_scalar> {
  Scalar value = 1;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], value, {}); }
};
// The scalar divided by the tensor.
struct RdivScalar : Elementwise<"rdiv_scalar", ElementwiseOp::rdiv_scalar> {
  Scalar value = 1;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], value, {}); }
};
struct PowScalar : Elementwise<"pow_scalar", ElementwiseOp::pow_scalar> {
  double exponent = 1;
  ElementwiseProblem problem(std::span<const InputSpec> in) const {
    return of(in[0], exponent, {});
  }
};

// mask ? a : b, for tensors of kind K.
template <class K>
struct Where : Elementwise<"where", ElementwiseOp::where> {
  using Gives = K;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[1], {}, {}); }
};
// x, but value where the mask is true.
struct MaskFill : Elementwise<"mask_fill", ElementwiseOp::mask_fill> {
  Scalar value = 0;
  ElementwiseProblem problem(std::span<const InputSpec> in) const { return of(in[0], value, {}); }
};
// To a dtype of kind K; elementwise.h says how values are rounded.
template <class K>
struct Cast : Elementwise<"cast", ElementwiseOp::cast> {
  using Gives = K;
  Dtype dtype = Dtype::f32;
  ElementwiseProblem problem(std::span<const InputSpec> in) const {
    ElementwiseProblem p = of(in[0], {}, {});
    p.to = dtype;
    return p;
  }
};
// The same elements in memory of their own.
using Copy = Elementwise<"copy", ElementwiseOp::copy>;

// Without inputs.
template <OpName N, ElementwiseOp Op, class K>
struct Creation {
  static constexpr std::string_view name = N.view();
  using Gives = K;

 protected:
  static ElementwiseProblem of(Dtype dtype, const Shape& shape, Scalar first, Scalar second) {
    return {.op = Op, .dtype = dtype, .to = dtype, .shape = shape, .scalars = {first, second}};
  }
};
template <class K>
struct Full : Creation<"fill", ElementwiseOp::fill, K> {
  Scalar value;
  Dtype dtype;
  Shape shape;
  Full(Scalar v, Dtype t, const Shape& s) : value(v), dtype(t), shape(s) {}
  ElementwiseProblem problem(std::span<const InputSpec>) const {
    return this->of(dtype, shape, value, {});
  }
};
// start, start + step, …
template <class K>
struct Arange : Creation<"arange", ElementwiseOp::arange, K> {
  Scalar start = 0, step = 1;
  Dtype dtype = Dtype::i64;
  std::int64_t count = 0;
  ElementwiseProblem problem(std::span<const InputSpec>) const {
    return this->of(dtype, {count}, start, step);
  }
};
// Random values: a function of seed, offset and position.
template <OpName N, ElementwiseOp Op>
struct RandomOp : Creation<N, Op, FloatKind> {
  double first = 0, second = 1;  // low and high; mean and deviation; the probability
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::uint64_t seed = 0, offset = 0;
  ElementwiseProblem problem(std::span<const InputSpec>) const {
    ElementwiseProblem p = this->of(dtype, shape, first, second);
    p.seed = seed;
    p.offset = offset;
    return p;
  }
};
using RandomUniform = RandomOp<"random_uniform", ElementwiseOp::random_uniform>;
using RandomNormal = RandomOp<"random_normal", ElementwiseOp::random_normal>;
using RandomBernoulli = RandomOp<"random_bernoulli", ElementwiseOp::random_bernoulli>;

}  // namespace planck
