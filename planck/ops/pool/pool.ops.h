// Pooling as values; pool.h says what each op computes.
#pragma once

#include "planck/ops/pool/pool.problem.h"
#include "planck/plan/value_op.h"

namespace planck {

namespace pool_detail {

// dy's shape with the extents of dx: [.., H, W].
inline Shape image(Shape dy, const PoolPair& size) {
  if (dy.rank() < 2) return dy;
  dy[dy.rank() - 2] = size[0];
  dy[dy.rank() - 1] = size[1];
  return dy;
}

}  // namespace pool_detail

// x → y, indices
template <class K = FloatKind>
struct MaxPool2d {
  static constexpr std::string_view name = "max_pool2d";
  using Gives = Kinds<K, IntKind>;
  PoolOptions options;
  PoolProblem problem(std::span<const InputSpec> in) const {
    return PoolProblem{.kind = PoolKind::max_pool2d,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .options = options};
  }
};
// dy, indices → dx
struct MaxPool2dBackward {
  static constexpr std::string_view name = "max_pool2d_backward";
  PoolOptions options;
  PoolPair input_size;  // H, W
  PoolProblem problem(std::span<const InputSpec> in) const {
    return PoolProblem{.kind = PoolKind::max_pool2d_backward,
                       .element_dtype = in[0].dtype,
                       .x = pool_detail::image(in[0].shape, input_size),
                       .options = options};
  }
};
// x → y
struct AvgPool2d {
  static constexpr std::string_view name = "avg_pool2d";
  PoolOptions options;
  PoolProblem problem(std::span<const InputSpec> in) const {
    return PoolProblem{.kind = PoolKind::avg_pool2d,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .options = options};
  }
};
// dy → dx
struct AvgPool2dBackward {
  static constexpr std::string_view name = "avg_pool2d_backward";
  PoolOptions options;
  PoolPair input_size;
  PoolProblem problem(std::span<const InputSpec> in) const {
    return PoolProblem{.kind = PoolKind::avg_pool2d_backward,
                       .element_dtype = in[0].dtype,
                       .x = pool_detail::image(in[0].shape, input_size),
                       .options = options};
  }
};
// x → y [.., size]
struct AdaptiveAvgPool2d {
  static constexpr std::string_view name = "adaptive_avg_pool2d";
  PoolPair size;
  PoolProblem problem(std::span<const InputSpec> in) const {
    return PoolProblem{.kind = PoolKind::adaptive_avg_pool2d,
                       .element_dtype = in[0].dtype,
                       .x = in[0].shape,
                       .size = size};
  }
};
// dy [.., OH, OW] → dx
struct AdaptiveAvgPool2dBackward {
  static constexpr std::string_view name = "adaptive_avg_pool2d_backward";
  PoolPair input_size;
  PoolProblem problem(std::span<const InputSpec> in) const {
    const Shape& dy = in[0].shape;
    PoolPair size{};
    if (dy.rank() >= 2) size = {dy[dy.rank() - 2], dy[dy.rank() - 1]};
    return PoolProblem{.kind = PoolKind::adaptive_avg_pool2d_backward,
                       .element_dtype = in[0].dtype,
                       .x = pool_detail::image(dy, input_size),
                       .size = size};
  }
};

}  // namespace planck
