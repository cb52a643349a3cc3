#include "planck/ops/conv/cpu/phases.h"

#include <algorithm>

namespace planck::conv_detail {

Phases::Phases(const ConvProblem& p) : p_(p), layout_{} {
  const auto& o = p.options;
  layout_.channels = forward() ? p.x[1] : p.weight[0];
  std::int64_t size[2], before[2];
  for (int axis = 0; axis < 2; ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    const std::int64_t reach = (p.weight[2 + axis] - 1) * o.dilation[a];
    if (forward()) {
      before[axis] = o.padding[a];
      size[axis] = (p.extent(axis) - 1) * o.stride[a] + reach + 1;
    } else {  // from the lowest to the highest row of dy that a row of dx meets
      before[axis] = reach > o.padding[a] ? (reach - o.padding[a]) / o.stride[a] : 0;
      size[axis] = before[axis] + (p.x[2 + axis] - 1 + o.padding[a]) / o.stride[a] + 1;
    }
  }
  layout_.top = before[0], layout_.left = before[1];
  layout_.height = size[0], layout_.width = size[1];
  if (forward()) {
    layout_.step = o.stride[1];
  } else {
    down_ = std::min(o.stride[0], p.x[2]);
    across_ = std::min(o.stride[1], p.x[3]);
  }
}

bool Phases::meets(int axis, std::int64_t first, std::int64_t u) const {
  const auto a = static_cast<std::size_t>(axis);
  const auto& o = p_.options;
  return forward() || (first + o.padding[a] - u * o.dilation[a]) % o.stride[a] == 0;
}

std::int64_t Phases::place(int axis, std::int64_t first, std::int64_t u) const {
  const auto a = static_cast<std::size_t>(axis);
  const auto& o = p_.options;
  if (forward()) return u * o.dilation[a];
  return (axis == 0 ? layout_.top : layout_.left) +
         (first + o.padding[a] - u * o.dilation[a]) / o.stride[a];
}

Phase Phases::phase(std::int64_t index) const {
  if (forward()) return {p_.extent(0), p_.extent(1), {0, 0}, depth()};
  Phase f{0, 0, {index / across_, index % across_}, 0};
  f.rows = (p_.x[2] - f.first[0] + apart(0) - 1) / apart(0);
  f.columns = (p_.x[3] - f.first[1] + apart(1) - 1) / apart(1);
  std::int64_t met[2] = {0, 0};
  for (int axis = 0; axis < 2; ++axis)
    for (std::int64_t u = 0; u < p_.weight[2 + axis]; ++u)
      met[axis] += meets(axis, f.first[axis], u);
  f.depth = p_.filters() * met[0] * met[1];
  return f;
}

void Phases::tables(const Phase& f, const Strides& weight, std::int64_t* image,
                    std::int64_t* weights) const {
  const std::int64_t along = forward() ? weight[1] : weight[0];  // the weight's axis that k has
  for (std::int64_t c = 0; c < channels_in_group(); ++c)
    for (std::int64_t u = 0; u < p_.weight[2]; ++u) {
      if (!meets(0, f.first[0], u)) continue;
      for (std::int64_t v = 0; v < p_.weight[3]; ++v) {
        if (!meets(1, f.first[1], v)) continue;
        *image++ = c * layout_.channel() + place(0, f.first[0], u) * layout_.row() +
                   layout_.column(place(1, f.first[1], v));
        *weights++ = c * along + u * weight[2] + v * weight[3];
      }
    }
}

}  // namespace planck::conv_detail
