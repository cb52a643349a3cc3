// Observers: the largest magnitude that is worth representing, a number for each group of a scheme.
// Its scale is that divided by the largest integer; zero points are 0.
#pragma once

#include "planck/nn/module.h"
#include "planck/ops/quantize/quantize.functions.h"
#include "planck/ops/sort/sort.functions.h"

namespace planck::nn {

enum class Observe : std::uint8_t {
  min_max,         // the largest magnitude ever seen
  moving_average,  // of the largest magnitudes of batches
  percentile,      // the magnitude that 99.9 % do not exceed, averaged over batches
  mse,             // that with the least squared error, averaged over batches
};

struct ObserverOptions {
  Observe method = Observe::moving_average;
  double momentum = 0.1;  // of the averages
  double percentile = 0.999;
  int candidates = 40;  // of mse: fractions of the largest magnitude that are tried
};

// x as [groups, members]; scales of the scheme are in this order.
template <class B>
Tensor<B> in_groups(const Tensor<B>& x, const QuantScheme& scheme) {
  switch (scheme.granularity) {
    case Granularity::per_tensor:
      return reshape(x, {1, -1});
    case Granularity::per_channel: {
      const int axis = scheme.axis < 0 ? scheme.axis + x.rank() : scheme.axis;
      Extents order{axis};
      for (int d = 0; d < x.rank(); ++d)
        if (d != axis) order.push_back(d);
      return reshape(permute(x, order), {x.extent(axis), -1});
    }
    case Granularity::per_token:
      return reshape(x, {-1, x.extent(-1)});
    default:
      return reshape(x, {-1, scheme.group});
  }
}

// Where, among `members` in order, the first is that no more than a fraction of them exceeds.
std::int64_t place_of(double fraction, std::int64_t members);

// The range of one batch: [groups].
template <class B>
Tensor<B> batch_range(const Tensor<B>& x, const QuantScheme& scheme, const ObserverOptions& o) {
  const auto groups = in_groups(abs(x), scheme);
  const auto largest = max(groups, 1);
  if (o.method == Observe::percentile) {
    const auto ordered = sort(groups, 1).values;
    return select(ordered, 1, place_of(o.percentile, ordered.extent(1)));
  }
  if (o.method != Observe::mse) return largest;
  // Each candidate's error, group by group; the first of the least wins.
  const auto rows = in_groups(x, scheme);
  const QuantScheme by_row{.granularity = Granularity::per_channel,
                           .axis = 0,
                           .dtype = scheme.dtype,
                           .range = IntRange{scheme.lowest(), scheme.highest()}};
  const Tensor<B, IntKind> zero =
      create<B>(Full<IntKind>(Scalar(0), Dtype::i32, Shape{rows.extent(0)}), x.device());
  std::optional<Tensor<B>> best, least;
  for (int i = o.candidates; i > 0; --i) {
    const auto range = largest * (static_cast<double>(i) / o.candidates);
    const auto scale = maximum(range * (1.0 / scheme.highest()), full_like(range, 1e-12));
    const auto error = mean(square(fake_quantize(rows, scale, zero, by_row) - rows), 1);
    if (!best) {
      best = range;
      least = error;
      continue;
    }
    const auto better = lt(error, *least);
    best = where(better, range, *best);
    least = minimum(error, *least);
  }
  return *best;
}

// The range so far, after one more batch.
template <class B>
Tensor<B> observed(const std::optional<Tensor<B>>& before, const Tensor<B>& x,
                   const QuantScheme& scheme, const ObserverOptions& o) {
  const auto range = batch_range(x, scheme, o);
  if (!before) return range;
  if (o.method == Observe::min_max) return maximum(*before, range);
  return *before * (1 - o.momentum) + range * o.momentum;
}

}  // namespace planck::nn
