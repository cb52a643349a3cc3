// Random choices on tensors: permutations, and categories drawn by weight. Functions of the
// generator's seed and how much was drawn before, the same on every device.
#pragma once

#include <limits>

#include "planck/ops/elementwise/creation.functions.h"
#include "planck/ops/index/indexing.functions.h"
#include "planck/ops/reduce/reduce.functions.h"
#include "planck/ops/sort/sort.functions.h"

namespace planck {

// 0, 1, …, count − 1 in random order, all orders equally likely: the order of random f64 numbers.
template <class B>
Tensor<B, IntKind> randperm(Rng& rng, std::int64_t count, Dtype dtype = Dtype::i64,
                            const typename B::Device& device = B::default_device()) {
  if (count < 0) refuse("randperm: {} elements", {count});
  value_or_throw(check_scalar("randperm", dtype, count));
  return argsort(uniform<B>(rng, {count}, 0, 1, Dtype::f64, device)).to(dtype);
}

namespace sampling_detail {

// Weights as [rows, categories] of f64; waits for the device to look at them.
template <class B>
Tensor<B> checked_weights(const Tensor<B>& weights, std::int64_t samples, bool replacement) {
  if (weights.rank() < 1 || weights.rank() > 2)
    refuse("multinomial: weights have shape {}, must be [categories] or [rows, categories]",
           {Shape(weights.shape())});
  const std::int64_t categories = weights.extent(-1);
  if (samples < 0) refuse("multinomial: {} samples", {samples});
  const std::int64_t rows = weights.rank() == 1 ? 1 : weights.extent(0);
  const auto w = reshape(weights.to(Dtype::f64), {rows, categories});
  const auto lawful = (w >= 0) & (w < std::numeric_limits<double>::infinity());
  if (all(lawful).template item<std::uint8_t>() == 0)
    refuse("multinomial: weights must be finite and not negative", {});
  if (rows == 0 || samples == 0) return w;
  const auto fewest = min(sum(to_int(w > 0), 1)).template item<std::int64_t>();
  const std::int64_t needed = replacement ? 1 : samples;
  if (fewest < needed)
    refuse("multinomial: {} samples of a row with {} weights above 0", {samples, fewest});
  return w;
}

// The first position whose running sum of weights is above u times their total; what has no weight
// adds nothing and is passed over. Samples go in parts, since each is compared with all categories.
template <class B>
Tensor<B, IntKind> with_replacement(Rng& rng, const Tensor<B>& w, std::int64_t samples) {
  constexpr std::int64_t kMostCompared = 1 << 22;
  const std::int64_t rows = w.extent(0), categories = w.extent(1);
  const auto shares = w / max(w, 1, true);  // whose sum cannot overflow
  const auto sums = cummax(mask_fill(cumsum(shares, 1), eq(w, 0), 0), 1).values;
  const auto u = uniform<B>(rng, {rows, samples}, 0, 1, Dtype::f64, w.device());
  const auto targets = u * sums[{kAll, Range{categories - 1, categories}}];
  const std::int64_t fit = kMostCompared / (rows * categories), part = fit < 1 ? 1 : fit;
  std::vector<Tensor<B, IntKind>> drawn;
  for (std::int64_t from = 0; from < samples; from += part) {
    const auto target =
        targets[{kAll, Range{from, from + part < samples ? from + part : samples}, kNewAxis}];
    drawn.push_back(sum(to_int(le(sums[{kAll, kNewAxis}], target)), 2));
  }
  return cat(drawn, 1);
}

}  // namespace sampling_detail

// Categories drawn with probabilities in proportion to weights: [categories] → [samples], or
// [rows, categories] → [rows, samples]. Without replacement none is drawn twice; the first of a row
// is as likely as its weight says, the next among the rest, and so on.
template <class B>
Tensor<B, IntKind> multinomial(Rng& rng, const Tensor<B>& weights, std::int64_t samples,
                               bool replacement = false) {
  const auto w = sampling_detail::checked_weights(weights, samples, replacement);
  const auto drawn = [&]() -> Tensor<B, IntKind> {
    if (w.extent(0) == 0 || samples == 0)
      return zeros<B, IntKind>({w.extent(0), samples}, Dtype::i64, w.device());
    if (replacement) return sampling_detail::with_replacement(rng, w, samples);
    // Of exponential times with these rates the earliest. What has no weight comes after all, as
    // NaN.
    const auto times = -log1p(-uniform<B>(rng, w.shape(), 0, 1, Dtype::f64, w.device()));
    const auto arrivals = mask_fill(times / w, eq(w, 0), std::numeric_limits<double>::quiet_NaN());
    return topk(arrivals, samples, 1, false).indices;
  }();
  return weights.rank() == 1 ? reshape(drawn, {samples}) : drawn;
}

}  // namespace planck
