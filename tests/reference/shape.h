// How the Reference backend sees and places elements elsewhere: by the index of each element of the
// result, without strides. What is wrong is refused by the op itself, in its words.
#pragma once

#include "planck/ops/shape/shape.ops.h"
#include "tests/reference/evaluate.h"

namespace planck {

ReferenceOutputs evaluate(const Reshape& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Permute& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Expand& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const SliceAxis& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const SliceAxes& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Flip& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Cat& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const Pad& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const SliceAssign& op, const ReferenceInputs& in);
ReferenceOutputs evaluate(const SliceAxesAssign& op, const ReferenceInputs& in);

}  // namespace planck
