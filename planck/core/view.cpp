#include "planck/core/view.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <utility>

namespace planck {

bool is_contiguous(const Shape& shape, const Strides& strides) {
  if (numel(shape) == 0) return true;
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != step) return false;
    step *= shape[d];
  }
  return true;
}

Result<Strides> reshaped_strides(const View& view, const Shape& shape) {
  if (view.shape == shape) return view.strides;
  if (numel(shape) == 0) return row_major(shape);
  // Walk both shapes from the back, filling new extents from runs of old ones with one common step.
  Strides out = Extents::filled(shape.rank(), 0);
  int old = view.shape.rank() - 1;
  std::int64_t available = 1, step = 0;  // what is left of the current run, and its step
  for (int d = shape.rank() - 1; d >= 0; --d) {
    std::int64_t need = shape[d];
    if (need == 1) continue;
    while (available == 1) {  // a new run: merge old extents while they continue one another
      step = view.strides[old];
      available = view.shape[old--];
      while (available > 1 && old >= 0 &&
             (view.shape[old] == 1 || view.strides[old] == step * available))
        available *= view.shape[old--];
    }
    if (available % need != 0)
      return fail(ErrorCode::misaligned_operand,
                  fmt::format("strides {} of shape {} cannot be read as shape {}",
                              to_string(view.strides), to_string(view.shape), to_string(shape)));
    out[d] = step;
    step *= need;
    available /= need;
  }
  return out;
}

ByteRange byte_range(const View& view) {
  const auto* base = static_cast<const std::byte*>(view.data);
  std::int64_t low = 0, high = 0;
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] == 0) return {base, base};
    const std::int64_t reach = (view.shape[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  if (is_packed(view.dtype))
    return {base + (low >> 1), base + high / 2 + 1};  // index −1 is in byte −1
  const auto size = static_cast<std::int64_t>(storage_bytes(view.dtype));
  return {base + low * size, base + (high + 1) * size};
}

bool may_overlap_itself(const Shape& shape, const Strides& strides) {
  std::array<std::pair<std::int64_t, std::int64_t>, kMaxRank> axes;  // |stride|, extent
  std::size_t count = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 0) return false;
    if (shape[d] == 1) continue;
    std::size_t at = count++;
    for (; at > 0 && axes[at - 1].first > std::abs(strides[d]); --at) axes[at] = axes[at - 1];
    axes[at] = {std::abs(strides[d]), shape[d]};
  }
  std::int64_t reach = 0;  // of all smaller axes together
  for (std::size_t k = 0; k < count; ++k) {
    if (axes[k].first <= reach) return true;
    reach += (axes[k].second - 1) * axes[k].first;
  }
  return false;
}

}  // namespace planck
