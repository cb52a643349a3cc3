#include "planck/ops/matmul/matmul.ops.h"

#include <fmt/format.h>

namespace planck {

Result<MatmulProblem> Matmul::problem(std::span<const InputSpec> in) const {
  const Shape &a = in[0].shape, &b = in[1].shape;
  const auto invalid = [&](std::string_view what) {
    return fail(ErrorCode::invalid_problem,
                fmt::format("matmul: shapes {} and {}: {}", to_string(a), to_string(b), what));
  };
  const int rank = a.rank();
  if (rank < 2 || b.rank() != rank) return invalid("both need the same rank, at least 2");
  if (in[0].dtype != in[1].dtype)
    return fail(ErrorCode::invalid_problem,
                fmt::format("matmul: a is {}, b is {}", planck::name(in[0].dtype),
                            planck::name(in[1].dtype)));
  MatmulProblem p{.element_dtype = in[0].dtype,
                  .batch = {},
                  .m = a[rank - 2],
                  .n = b[rank - 1],
                  .k = a[rank - 1]};
  for (int d = 0; d < rank - 2; ++d) {
    if (a[d] != b[d]) return invalid(fmt::format("axis {} has extents {} and {}", d, a[d], b[d]));
    p.batch.push_back(a[d]);
  }
  p.math = math.value_or(default_product_math(p.element_dtype));
  if (p.k != b[rank - 2])
    return invalid(fmt::format("a has {} columns, b has {} rows", p.k, b[rank - 2]));
  p.activation = activation;
  p.residual = has_residual(in.size());
  p.bias = has_bias(in.size());
  if (p.residual && in.size() == 2)
    return fail(ErrorCode::invalid_problem, "matmul: a residual is to be added, there is none");
  if (p.bias && (in[2].dtype != p.element_dtype || in[2].shape != Shape{p.n}))
    return fail(ErrorCode::invalid_problem,
                fmt::format("matmul: the bias is {} {}, must be {} [{}]", planck::name(in[2].dtype),
                            to_string(in[2].shape), planck::name(p.element_dtype), p.n));
  if (Shape like = p.batch; p.residual) {
    like.push_back(p.m), like.push_back(p.n);
    if (in.back().dtype != p.element_dtype || in.back().shape != like)
      return fail(
          ErrorCode::invalid_problem,
          fmt::format("matmul: the residual is {} {}, must be {} {}", planck::name(in.back().dtype),
                      to_string(in.back().shape), planck::name(p.element_dtype), to_string(like)));
  }
  return p;
}

}  // namespace planck
