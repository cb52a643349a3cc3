// What the kernels of tensor_core and exact have in common on the CPU: which engine of loops/gemm
// multiplies, and how the products of a batch of groups share the workspace.
#pragma once

#include <algorithm>
#include <optional>

#include "planck/core/workspace.h"
#include "planck/loops/gemm/cpu/blocked.h"
#include "planck/loops/gemm/cpu/product.h"
#include "planck/loops/gemm/cpu/tensor_core_tile.h"
#include "planck/ops/conv/conv.problem.h"

namespace planck::conv_detail {

// tensor_core, or exact by one of its tiles.
struct Engine {
  std::optional<gemm::ExactBy> exact;

  int panel() const {
    return exact ? gemm::exact_columns(*exact) : gemm::tensor_core_ops().columns;
  }
  std::size_t bytes(std::int64_t m, std::int64_t n, std::int64_t k) const {
    const std::size_t own =
        exact ? gemm::exact_bytes(*exact, m, n, k) : gemm::tensor_core_bytes(m, n, k);
    return (own + 63) / 64 * 64;
  }
  void multiply(const Stream& stream, Dtype format, const gemm::Product& p,
                std::byte* workspace) const {
    if (exact)
      gemm::multiply_exact(*exact, stream, p, workspace);
    else
      gemm::multiply_tensor_core(stream, format, p, workspace);
  }
};

// conv2d and conv2d_input; conv2d_weight.
Result<void> image_sums(const Stream&, Workspace, const ConvProblem&, const Operands&,
                        const Engine&);
std::size_t image_sums_workspace(const ConvProblem&, const Engine&);
Result<void> weight_sums(const Stream&, Workspace, const ConvProblem&, const Operands&,
                         const Engine&);
std::size_t weight_sums_workspace(const ConvProblem&, const Engine&);

// The product with rows and columns changed. A sink knows that they are.
inline gemm::Product turned(const gemm::Product& p) {
  gemm::Product t = p;
  std::swap(t.m, t.n), std::swap(t.a, t.b), std::swap(t.c.row, t.c.column);
  std::swap(t.row_exponents, t.column_exponents);
  return t;
}

// Bytes for `groups` products, of which as many run side by side as 64 MiB hold.
inline std::size_t bytes_for_groups(std::int64_t groups, std::size_t each) {
  constexpr std::size_t kMost = std::size_t{64} << 20;
  const auto slots = static_cast<std::size_t>(std::min(groups, gemm::kMostSlots));
  return std::max(each, std::min(slots * each, kMost));
}

// Parts of a workspace, one after the other.
struct Parts {
  std::size_t end = 0;
  std::size_t add(std::size_t bytes) {
    const std::size_t at = end;
    end += (bytes + 63) / 64 * 64;
    return at;
  }
};

}  // namespace planck::conv_detail
