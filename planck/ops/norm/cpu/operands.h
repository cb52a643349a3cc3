// Operands of the CPU norms that every row shares.
#pragma once

#include "planck/loops/rows/cpu/operands.h"
#include "planck/ops/norm/cpu/loops.h"

namespace planck {

// What is not given: a weight of 1, a bias of -0, which changes nothing when added.
template <class C>
class Parameter {
 public:
  Parameter(const View& v, bool given, C otherwise) : operand_(v, ~0u), given_(given) {
    std::fill_n(constant_, kPortion, otherwise);
  }
  // Null where it is not given, or not dense.
  const void* vectors(std::int64_t length) const {
    return given_ ? operand_.in_place(0, length) : nullptr;
  }
  // Dense, or not given: what norm_loops take.
  bool has_vectors(std::int64_t length) const {
    return norm_loops<C>().forward != nullptr && (!given_ || vectors(length) != nullptr);
  }
  Source source(std::int64_t i, int m, C* buffer) const {
    return given_ ? operand_.source(i, m, buffer) : Source{constant_, dtype_of<C>, 0};
  }

 private:
  RowOperand<C> operand_;
  bool given_;
  alignas(64) C constant_[kPortion];
};

}  // namespace planck
