// What an einsum equation says: one character for each axis of each tensor.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planck/core/shape.h"

namespace planck {

struct Einsum {
  std::vector<std::string> inputs;  // an axis of "..." has a character of its own, below ' '
  std::string output;

  // Throws, in words, where the equation does not fit tensors of these shapes.
  static Einsum parse(std::string_view equation, std::span<const Shape> shapes);
};

// How two tensors become one. Positions of axes in each; products over `contracted`.
struct EinsumPair {
  std::string batch, left, contracted, right;
  // Labels of both that later inputs or the output need, and those of one alone.
  EinsumPair(std::string_view a, std::string_view b, std::string_view needed);
};

// Where each label of `order` stands in `labels`.
Extents einsum_axes(std::string_view labels, std::string_view order);

}  // namespace planck
