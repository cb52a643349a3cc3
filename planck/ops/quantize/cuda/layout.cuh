// How the operands of a problem lie in memory, and which loop that allows.
#pragma once

#include "planck/loops/nest.h"
#include "planck/ops/quantize/cuda/strided.cuh"
#include "planck/ops/quantize/quantize.problem.h"

namespace planck::quantize_device {

// All elements in one row-major order, groups as (i / inner) % channels of it.
struct DenseMap {
  bool dense = false;
  std::int64_t outer = 1, channels = 1, inner = 1;
  std::array<std::int64_t, kMaxNestOperands> step{};  // of the group operands, from group to group
};

// nest: collapsed; its first `elements` operands have one entry per element, the `groups` that
// follow one per group.
DenseMap dense_map(const Nest& nest, int elements, int groups);

// An elementwise problem: absent operands stand in for others.
struct ElementwiseCall {
  std::int64_t count = 0;
  std::array<const View*, kNestOperands> view{};
  Nest nest;  // in the order of the output's memory
  DenseMap map;
  GridAttributes grid{};
  bool strided = false;  // take the loop over any strides, whatever the layout

  // Of element 0 of the nest. Only where the offset is a whole number of bytes.
  void* base(int operand) const;
  bool aligned(int operand, int bytes) const;
};

GridAttributes grid_of(const QuantProblem& p);
// Of a kind without sums, or of the last step of dynamic_quantize.
ElementwiseCall elementwise_call(const QuantProblem& p, const Operands& operands);

// Moves a pointer by elements; the result is whole bytes from it.
void* advance(const View& v, std::int64_t elements);

}  // namespace planck::quantize_device
