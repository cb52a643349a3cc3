// The elementwise family as one plain value: which op, which dtype, which shape, which scalars.
// elementwise.table.h declares the ops.
//
// All operands of a problem have the full shape; what is broadcast comes as a view with stride 0.
// elementwise.h says what each op computes.
#pragma once

#include "planck/core/scalar.h"
#include "planck/plan/plan.h"

namespace planck {

enum class ElementwiseOp : std::uint8_t {
#define PLANCK_ELEMENTWISE_OP(name, ...) name,
#include "planck/ops/elementwise/elementwise.table.h"
};
inline constexpr int kElementwiseOps = static_cast<int>(ElementwiseOp::random_bernoulli) + 1;
inline constexpr int kElementwiseOperands = 4;  // the most operands an op of the family has

struct ElementwiseProblem {
  ElementwiseOp op = ElementwiseOp::copy;
  Dtype dtype = Dtype::f32;  // of the values read; of those written where nothing is read
  Dtype to = Dtype::f32;     // cast: of the values written
  Shape shape;
  std::array<Scalar, 2> scalars = {};  // in the order of the op's attributes
  std::uint64_t seed = 0, offset = 0;  // random numbers

  bool operator==(const ElementwiseProblem&) const = default;

  int inputs() const { return static_cast<int>(info().operands.size()) - 1; }
  Dtype output_dtype() const;

  // What Selection<ElementwiseProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kElementwiseOperands> specs() const;
  std::span<const Kernel<ElementwiseProblem>> kernels() const;
  Dtype element() const { return dtype; }
  std::optional<Dtype> aux() const {
    return op == ElementwiseOp::cast ? std::optional<Dtype>(to) : std::nullopt;
  }
};

// Largest error of a result in the compute type, in units in the last place; 0: rounded once.
double elementwise_max_ulp(ElementwiseOp op);

// Which dtypes an op reads.
namespace elementwise_dtypes {
enum : std::uint8_t {
  floats = 1,
  integers = 2,  // i32, i64
  booleans = 4,
  bytes = 8,  // s8, u8
  numbers = floats | integers,
  any = floats | integers | booleans | bytes,
};
}
constexpr std::uint8_t dtypes_of(ElementwiseOp op) {
  using namespace elementwise_dtypes;
  constexpr std::uint8_t kDtypes[] = {
#define PLANCK_ELEMENTWISE_OP(name, Type, dtypes, ...) dtypes,
#include "planck/ops/elementwise/elementwise.table.h"
  };
  return kDtypes[static_cast<std::size_t>(op)];
}
bool elementwise_accepts(ElementwiseOp op, Dtype dtype);

// The bits of the problem's first scalar in its dtype: what fill and mask_fill write.
std::uint64_t scalar_bits(const ElementwiseProblem& p);

// The ops of the family, for the registry.
std::vector<OpEntry> elementwise_ops();

}  // namespace planck
