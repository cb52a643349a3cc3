#include "planck/optim/orthogonal.h"

#include <algorithm>
#include <cmath>

#include "planck/planck.h"

namespace planck::optim::detail {

namespace {

using T = Tensor<Cpu>;  // of either device: ops go where their inputs are

T seen(const StoredView& t) { return T(Primitive<FloatKind>{t}); }

std::int64_t columns(const StepItem& item) {
  return numel(item.of.shape) / std::max<std::int64_t>(1, item.of.shape[0]);
}

}  // namespace

Orthogonal orthogonal_direction(const StepItem& item, const std::optional<StoredView>& factor) {
  const StoredView& slot = item.kept.slots[0];
  const auto& c = item.choice;
  auto g = nn::widened(seen(item.g));
  if (factor) g = g * nn::as_dtype(seen(*factor), g.dtype());
  const auto mean = nn::widened(seen(slot)) * c.momentum + g * (1 - c.momentum);
  const auto ahead = c.rule.nesterov ? g * (1 - c.momentum) + mean * c.momentum : mean;
  auto x = reshape(ahead, {item.of.shape[0], columns(item)});
  const bool tall = x.extent(0) > x.extent(1);
  if (tall) x = transpose(x);
  const auto size = sqrt(sum(square(x)));
  x = x / maximum(size, full_like(size, c.smallest_norm));
  for (int i = 0; i < c.iterations; ++i) {  // a X + (b G + c G²) X, G = X Xᵀ
    const auto gram = matmul(x, transpose(x));
    x = x * 3.4445 + matmul(gram * -4.7750 + matmul(gram, gram) * 2.0315, x);
  }
  if (tall) x = transpose(x);
  return {nn::as_dtype(mean, slot.dtype()).primitive(),
          backend_detail::contiguous(reshape(x, item.of.shape).primitive())};
}

double matrix_rate(const StepItem& item) {
  const auto rows = static_cast<double>(item.of.shape[0]);
  const auto wide = static_cast<double>(columns(item));
  if (item.choice.by_width) return 0.2 * std::sqrt(std::max(rows, wide));
  return std::sqrt(std::max(1.0, rows / wide));
}

}  // namespace planck::optim::detail
