// The conv family as one plain value: which of the three ops, dtype, shapes of x and weight, the
// options, and what a product means.
#pragma once

#include <array>

#include "planck/core/product_math.h"
#include "planck/plan/plan.h"

namespace planck {

// Pairs are of height and width.
struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
  std::int64_t groups = 1;

  bool operator==(const Conv2dOptions&) const = default;
};

enum class ConvKind : std::uint8_t {
  conv2d,         // x, weight → y
  conv2d_input,   // dy, weight → dx
  conv2d_weight,  // x, dy → dweight
};

struct ConvProblem {
  ConvKind kind = ConvKind::conv2d;
  Dtype element_dtype = Dtype::f32;
  Shape x;       // [N, C, H, W]
  Shape weight;  // [F, C / groups, KH, KW]
  Conv2dOptions options;
  ProductMath math = default_product_math(element_dtype);
  ProductMath product_math() const { return math; }

  bool operator==(const ConvProblem&) const = default;

  std::int64_t batch() const { return x[0]; }
  std::int64_t groups() const { return options.groups; }
  std::int64_t channels() const { return weight[1]; }            // of x, in a group
  std::int64_t filters() const { return weight[0] / groups(); }  // in a group
  std::int64_t taps() const { return weight[2] * weight[3]; }
  // y's extent along height (axis 0) or width (axis 1); less than 1 where the kernel does not fit.
  std::int64_t extent(int axis) const;
  Shape y() const { return {x[0], weight[0], extent(0), extent(1)}; }
  Dtype output_dtype() const { return element_dtype == Dtype::s8 ? Dtype::i32 : element_dtype; }

  // What Selection<ConvProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, 3> specs() const;
  std::span<const Kernel<ConvProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const {
    return element_dtype == Dtype::s8 ? std::optional(Dtype::i32) : std::nullopt;
  }
};

// From what is known of two inputs, in the order of the op's operands. `given` is H and W for
// conv2d_input, KH and KW for conv2d_weight; without `math` the dtype's own is meant.
Result<ConvProblem> conv_problem(ConvKind kind, const Conv2dOptions& options,
                                 std::array<std::int64_t, 2> given, const InputSpec& first,
                                 const InputSpec& second, std::optional<ProductMath> math = {});

// Places of operands: two inputs, one output.
namespace conv_operand {
enum { first, second, out };
}

std::vector<OpEntry> conv_ops();

}  // namespace planck
