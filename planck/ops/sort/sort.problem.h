// The problem that all ops of the sort family share. sort.h says what they compute.
#pragma once

#include <array>
#include <optional>

#include "planck/plan/plan.h"

namespace planck {

enum class SortKind : std::uint8_t { sort, argsort, topk };

inline constexpr int kSortOperands = 3;

struct SortProblem {
  SortKind kind = SortKind::sort;
  Dtype element_dtype = Dtype::f32;
  Shape x = {};
  int axis = 0;
  bool descending = false;  // topk: the largest
  std::int64_t k = 0;       // topk

  bool operator==(const SortProblem&) const = default;

  std::int64_t length() const { return x[axis]; }  // of a row
  std::int64_t kept() const { return kind == SortKind::topk ? k : length(); }
  std::int64_t rows() const;
  Shape out_shape() const;
  // Operand positions: x, values, indices; argsort has no values.
  int values() const { return kind == SortKind::argsort ? -1 : 1; }
  std::size_t indices() const { return kind == SortKind::argsort ? 1 : 2; }

  // What Selection<SortProblem> needs.
  const OpInfo& info() const;
  Result<void> check() const;
  std::array<OperandSpec, kSortOperands> specs() const;
  std::span<const Kernel<SortProblem>> kernels() const;
  Dtype element() const { return element_dtype; }
  std::optional<Dtype> aux() const { return std::nullopt; }
};

std::vector<OpEntry> sort_ops();

}  // namespace planck
