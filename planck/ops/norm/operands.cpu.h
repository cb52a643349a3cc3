// Operands of the CPU norms that every row shares.
#pragma once

#include "planck/ops/softmax/rows.cpu.h"

namespace planck {

// What is not given: a weight of 1, a bias of -0, which changes nothing when added.
template <class C>
class Parameter {
 public:
  Parameter(const View& v, bool given, C otherwise) : operand_(v, ~0u), given_(given) {
    std::fill_n(constant_, kBlock, otherwise);
  }
  // Dense, or not given: what row_loops take. Else null and given.
  RowInput<C> vectors(std::int64_t length) const {
    return {given_ ? operand_.vectors(0, length) : nullptr, constant_[0]};
  }
  bool has_vectors(std::int64_t length) const {
    return !given_ || operand_.vectors(0, length) != nullptr;
  }
  Source source(std::int64_t i, int m, C* buffer) const {
    return given_ ? operand_.source(i, m, buffer) : Source{constant_, dtype_of<C>, 0};
  }

 private:
  RowOperand<C> operand_;
  bool given_;
  alignas(64) C constant_[kBlock];
};

}  // namespace planck
