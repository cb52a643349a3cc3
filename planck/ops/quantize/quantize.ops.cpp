#include "planck/ops/quantize/quantize.ops.h"

namespace planck {

QuantProblem QuantScheme::problem(QuantKind kind, Dtype element, const Shape& shape) const {
  QuantProblem p;
  p.kind = kind;
  p.granularity = granularity;
  p.element_dtype = element;
  p.quantized_dtype = dtype;
  p.shape = shape;
  p.axis = axis < 0 ? axis + shape.rank() : axis;
  p.group = group;
  p.q_min = lowest();
  p.q_max = highest();
  p.math = math;
  return p;
}

Shape QuantScheme::group_shape(const Shape& shape) const {
  return problem(QuantKind::quantize, Dtype::f32, shape).group_shape();
}

}  // namespace planck
