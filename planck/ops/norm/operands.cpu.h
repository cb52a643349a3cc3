// Operands of the CPU norms that every row shares, and how rows are spread over threads.
#pragma once

#include <algorithm>

#include "planck/loops/parallel.h"
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

template <class F>
void for_rows(const Stream& stream, std::int64_t rows, std::int64_t length, const F& row) {
  const std::int64_t together =
      std::max<std::int64_t>(1, kRowTask / std::max<std::int64_t>(1, length));
  parallel_for(stream, (rows + together - 1) / together, [&](std::int64_t task) {
    const std::int64_t end = std::min(rows, (task + 1) * together);
    for (std::int64_t r = task * together; r < end; ++r) row(r);
  });
}

}  // namespace planck
