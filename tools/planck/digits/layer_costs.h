// Why a model on integers is as fast as it is: its layers, timed one by one beside those of the
// float model, and of each the product alone.
#pragma once

#include "tools/planck/digits/answers.h"
#include "tools/planck/digits/forms.h"
#include "tools/planck/digits/training.h"

namespace planck::digits {

// The median time of f for each of so many pictures, in microseconds; of fewer runs where they are
// long.
template <class D>
double microseconds_of(const Stream& stream, std::int64_t pictures, const auto& f) {
  constexpr std::size_t kRuns = 15, kFewRuns = 3;
  constexpr double kLong = 1e5;
  std::vector<double> times;
  double all = 0;
  D::synchronize(stream);
  while (times.size() < kFewRuns || (times.size() < kRuns && all < kLong)) {
    const auto begin = std::chrono::steady_clock::now();
    (void)f();
    D::synchronize(stream);
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    times.push_back(took.count() / static_cast<double>(pictures));
    all += took.count();
  }
  return median(std::move(times));
}

template <class D>
class LayerTimer {
 public:
  LayerTimer(const StoredNet& floats, const StoredNet& integers, const Stream& stream)
      : floats_(floats), integers_(integers), stream_(stream) {}

  // Adds one layer of both models. It is given batches of this shape.
  template <class Layer>
  void add(const std::string& name, Layer& floats, Layer& integers, const Shape& shape) {
    const std::int64_t n = shape[0];
    Rng rng{.seed = kWeightsSeed};
    const auto x =
        nn::as_dtype(uniform<D>(rng, shape, 0, 1, Dtype::f32, stream_), floats_.options.dtype);
    const auto one = ones<D>({1}, Dtype::f32, stream_) * (1.0 / 127);
    const auto zero = to_int(zeros_like(one), Dtype::i32);
    const auto rounded = [&] {
      return quantize(nn::as_dtype(x, Dtype::f32), one, zero, {.dtype = Dtype::s8}).values();
    };
    const auto w = nn::to_tensor<D, FloatKind>(floats_.state.at(name + ".weight"), stream_);
    const auto codes = nn::to_tensor<D, IntKind>(integers_.state.at(name + ".weight"), stream_);
    const auto q = rounded();
    const auto time = [&](const auto& f) { return microseconds_of<D>(stream_, n, f); };
    costs_.floats += time([&] { return floats(x); });
    costs_.float_products += time([&] { return product(x, w); });
    costs_.integers += time([&] { return integers(x); });
    costs_.integer_products += time([&] { return product(q, codes); });
    costs_.rounding += time(rounded);
  }
  const LayerCosts& costs() const { return costs_; }

 private:
  template <class K>
  static Tensor<D, K> product(const Tensor<D, K>& x, const Tensor<D, K>& w) {
    return w.rank() == 4 ? conv2d(x, w, conv3x3(1, 1).shape) : matmul(x, transpose(w));
  }

  const StoredNet &floats_, &integers_;
  const Stream& stream_;
  LayerCosts costs_;
};

// Of a float model, and of one on s8 integers, with batches of test size.
template <class D>
LayerCosts layer_costs(const StoredNet& floats, const StoredNet& integers, const Stream& stream) {
  Net<D> f = load_net<D>(floats, stream), i = load_net<D>(integers, stream);
  LayerTimer<D> timer(floats, integers, stream);
  constexpr std::int64_t n = kTestBatch;
  const std::int64_t side = floats.options.side, tokens = f.tokens();
  auto &near = f.upright.localizer, &far = i.upright.localizer;
  timer.add("upright.localizer.conv", near.conv, far.conv, {n, 1, side / 2, side / 2});
  timer.add("upright.localizer.hidden", near.hidden, far.hidden, {n, 8 * tokens});
  timer.add("conv1", f.conv1, i.conv1, {n, 1, side, side});
  timer.add("conv2", f.conv2, i.conv2, {n, 16, side / 2, side / 2});
  timer.add("hidden", f.hidden, i.hidden, {n, tokens * Net<D>::kChannels});
  timer.add("output", f.output, i.output, {n, 64});
  return timer.costs();
}

}  // namespace planck::digits
