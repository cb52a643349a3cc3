// The pool family as one plain value: which op, dtype, shape and windows. pool.h says what each op
// computes.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planck/ops/pool/pool.math.h"
#include "planck/plan/plan.h"

namespace planck {

enum class PoolKind : std::uint8_t {
  max_pool2d,
  max_pool2d_backward,
  avg_pool2d,
  avg_pool2d_backward,
  adaptive_avg_pool2d,
  adaptive_avg_pool2d_backward,
};

// Rows, columns.
using PoolPair = std::array<std::int64_t, 2>;

// Windows of max_pool2d and avg_pool2d.
struct PoolOptions {
  PoolPair kernel;
  PoolPair stride{0, 0};  // 0: the kernel's extent
  PoolPair padding{0, 0};
  PoolPair dilation{1, 1};  // max_pool2d
  bool ceil_mode = false;
  bool count_include_pad = true;  // avg_pool2d

  bool operator==(const PoolOptions&) const = default;
};

inline constexpr int kPoolOperands = 3;

struct PoolProblem {
  PoolKind kind = PoolKind::max_pool2d;
  Dtype element_dtype = Dtype::f32;
  Shape x = {};  // what is pooled: [.., H, W]; of a gradient, dx
  PoolOptions options = {.kernel = {1, 1}};
  PoolPair size = {1, 1};  // adaptive: the windows along each axis

  bool operator==(const PoolProblem&) const = default;

  bool backward() const { return static_cast<int>(kind) % 2 == 1; }
  bool largest() const { return kind <= PoolKind::max_pool2d_backward; }
  bool adaptive() const { return kind >= PoolKind::adaptive_avg_pool2d; }
  // Of a problem that has been checked.
  PoolAxes axes() const { return {axis(0), axis(1)}; }
  Shape out_shape() const;
  std::int64_t planes() const;

  // What Selection<PoolProblem> asks for.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kPoolOperands> specs() const;
  std::span<const Kernel<PoolProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }

 private:
  PoolAxis axis(std::size_t which) const;
  Result<void> check_axis(std::size_t which) const;
};

std::vector<OpEntry> pool_ops();

}  // namespace planck
