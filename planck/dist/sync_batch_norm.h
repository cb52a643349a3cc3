// Batch norm by the statistics of the whole batch, however many workers and grains it is spread
// over. nn::BatchNorm within a DataParallel normalizes each grain by its own.
//
//   mean = Σ x / n     var = Σ (x − mean)² / n     y = (x − mean) / √(var + eps) · weight + bias
//
// n values per channel in all grains; each Σ is the sum within a grain, then the canonical sum over
// grains (grains.h), and so are the sums of its gradient. x is f32 or f64. One model has one hash
// on any number of workers; with other grains the last bits differ. Running statistics move once
// per batch, by the statistics of all of it. Parameters, buffers and their names are BatchNorm's.
//
// All of a worker's grains go through the model together (meeting.h) and are in memory at once;
// gradients are sent when the last has ended. Outside of a DataParallel x is the whole batch.
#pragma once

#include "planck/dist/data_parallel.h"
#include "planck/nn/norm.h"
#include "planck/ops/reduce/reduce.functions.h"

namespace planck::dist {

// The sum of a small tensor over the grains of the batch; in backward, that of its gradient.
struct SumOverGrains {
  static constexpr std::string_view name = "sum_over_grains";
  static constexpr bool computes = true;
  template <class B>
  Tensor<B> compute(const Tensor<B>& x) const {
    Meeting* const meeting = Meeting::current();
    if (meeting == nullptr) return x;
    std::vector<std::byte> numbers(bytes_for(x.dtype(), x.numel()));
    B::to_host(x.primitive(), numbers.data());
    meeting->sum(numbers.data(), x.numel(), x.dtype());
    return Tensor<B>(
        B::template from_host<FloatKind>(x.device(), x.dtype(), x.shape(), numbers.data()));
  }
};
template <class R>
auto pullback(const SumOverGrains&, const R&) {
  return [](auto& g) { g.give(call(SumOverGrains{}, g.dy())); };
}

template <class B>
struct SyncBatchNorm : nn::BatchNorm<B>, Synchronized {
  using nn::BatchNorm<B>::BatchNorm;

  Tensor<B> operator()(const Tensor<B>& x) {
    if (!this->mode.training) return nn::BatchNorm<B>::operator()(x);
    const Shape along = this->along(x);
    if (x.dtype() != Dtype::f32 && x.dtype() != Dtype::f64)
      refuse("sync_batch_norm: x is {}, it must be f32 or f64", {x.dtype()});
    const std::int64_t here = this->values_of(x);
    Meeting* const meeting = Meeting::current();
    const std::int64_t all = meeting == nullptr ? here : meeting->total(here);
    if (all < 2)
      refuse("sync_batch_norm: a batch of {} values per channel, training needs more than one",
             {all});
    const unsigned others = ((1u << x.rank()) - 1) & ~2u;
    const auto n = static_cast<double>(all);
    const auto mean = call(SumOverGrains{}, call(Sum{others}, x)) / n;
    const auto centered = x - mean;
    const auto variance = call(SumOverGrains{}, call(Sum{others}, square(centered))) / n;
    const auto y = centered * (rsqrt(variance + this->eps) * reshape(*this->weight, along)) +
                   reshape(*this->bias, along);
    once([&] { this->move(nn::plain(mean), nn::plain(variance), n); });
    return y;
  }
};

}  // namespace planck::dist
