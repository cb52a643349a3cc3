// What kernels find wrong with data, where nobody waits for them: an index out of range, a loss
// that is no number.
//
// On the CPU such an error is thrown by the function that was given the index. On CUDA the host
// goes on: a kernel behind the op writes down what it found, and the error is thrown, once and in
// the same words, where the host waits for the stream the next time: as a tensor is read, by
// Cuda::synchronize, or by check_faults. What came first counts. Until then optimizers change
// nothing (veto): weights are those of before the step.
#pragma once

#include <cstdint>
#include <string>

#include "planck/backend/primitive.h"
#include "planck/ops/embedding/bad_indices.h"

namespace planck {

// Of an op's operand: the op counted its bad indices in `count`, one i64 element. Throws if that is
// not 0, at once on the CPU. `indices` may lie anyhow; they are named in their own shape.
void refuse_bad_later(const IndexOperand& operand, const StoredView& indices,
                      const StoredView& count);

// Of one f32 or f64: throws "{what} is nan", as not_a_number, if it is not finite; at once on the
// CPU.
void refuse_not_finite_later(std::string what, const StoredView& number);

// Throws what was found in work on the stream. Waits for it, unless nothing can be wrong.
void check_faults(const Stream& stream);

namespace backend_detail {

// A number on the device that is not 0 where something was found that was not thrown yet; null
// where nothing can have been.
const std::int64_t* veto(const Stream& stream);

}  // namespace backend_detail

}  // namespace planck
