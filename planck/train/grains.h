// A batch in grains: parts that run forward and backward on their own, so that no more of the batch
// is in memory, or so that others can have some of them (planck/dist). What becomes of them is what
// DataParallel makes of one worker's: losses and gradients are canonical sums over the grains,
// summed in f32 (losses and f64 in f64) and rounded once; buffers start each grain as they were
// before the batch and end as the mean of what the grains left. Generators draw on, grain by grain.
#pragma once

#include <optional>
#include <vector>

#include "planck/ops/shape/shape.functions.h"
#include "planck/optim/gradients.h"
#include "planck/optim/step/step.h"

namespace planck::train {

// Samples [first, end) of a batch of so many.
struct Grain {
  std::int64_t first, end, batch;
};

namespace detail {

// Samples of a batch: all inputs have as many.
inline std::int64_t samples_of(std::initializer_list<std::int64_t> extents) {
  const std::int64_t samples = extents.size() == 0 ? 0 : *extents.begin();
  for (const std::int64_t n : extents)
    if (n != samples || n < 1)
      refuse("step: inputs have {} and {} samples; grains need as many of each, and one at least",
             {samples, n});
  if (samples < 1) refuse("step: {}", {"grains need an input"});
  return samples;
}

template <class A>
class GrainSums {
 public:
  using B = nn::Inner<A>;

  explicit GrainSums(const nn::PartList& parts) {
    parts.for_each<nn::Buffer<A>>([&](const std::string&, auto& b) {
      buffers_.push_back({&b, b.value, {}});
    });
    parts.for_each<nn::IntBuffer<A>>([&](const std::string& path, auto& b) {
      integers_.push_back({path, &b, place_of(b.value)});
    });
  }
  GrainSums(const GrainSums&) = delete;
  ~GrainSums() {
    if (!done_) restore();
  }

  // Before a grain's forward pass.
  void begin() { restore(); }
  void add(const Tensor<A>& loss, optim::ModelGradients<B>&& gradients) {
    if (loss.numel() != 1)
      refuse("step: a grain's loss has shape {}, it must be one number", {loss.shape()});
    for (const auto& [path, buffer, place] : integers_)
      if (place_of(buffer->value) != place)
        refuse("step: a grain changed {}, integers; those of several grains have no mean", {path});
    losses_.push_back(reshape(nn::plain(loss), {}));
    for (auto& [path, rows] : gradients.rows) gradients.emplace(path, rows.dense());
    gradients_.push_back(std::move(gradients));
    for (auto& b : buffers_) {
      b.changed |= place_of(b.buffer->value) != place_of(b.before);
      b.left.push_back(b.buffer->value);
    }
  }

  // The gradients of the batch, and its loss.
  std::pair<optim::ModelGradients<B>, Tensor<B>> finish() {
    const auto device = losses_[0].device();
    std::vector<optim::Summands> wanted;
    wanted.push_back({parts_of_all(losses_), Dtype::f64});
    std::vector<std::string> paths;
    for (const auto& grain : gradients_)
      for (const auto& [path, g] : grain)
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    for (const std::string& path : paths) wanted.push_back(of_path(path));
    for (const auto& b : buffers_)
      if (b.changed)
        wanted.push_back(
            {parts_of_all(b.left), b.before.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32});
    const auto sums = optim::sums_of(optim::detail::stream_of<B>(device), wanted);
    const auto tensor = [&](std::size_t i) {
      return Tensor<B>(optim::detail::primitive_of<B>(sums[i], device));
    };
    optim::ModelGradients<B> all;
    std::size_t next = 1;
    for (const std::string& path : paths) all.emplace(path, tensor(next++));
    restore();
    for (auto& b : buffers_) {
      if (!b.changed) continue;
      const auto mean = tensor(next++) / static_cast<double>(losses_.size());
      b.buffer->value = nn::as_dtype(mean, b.before.dtype());
    }
    done_ = true;
    return {std::move(all), tensor(0)};
  }

 private:
  struct OfBuffer {
    nn::Buffer<A>* buffer;
    Tensor<B> before;
    std::vector<Tensor<B>> left = {};  // by each grain
    bool changed = false;
  };
  struct OfIntegers {
    std::string path;
    nn::IntBuffer<A>* buffer;
    const void* place;
  };

  static const void* place_of(const auto& t) { return t.primitive().view.data; }
  void restore() {
    for (auto& b : buffers_) b.buffer->value = b.before;
  }
  static std::vector<std::optional<StoredView>> parts_of_all(const std::vector<Tensor<B>>& all) {
    std::vector<std::optional<StoredView>> parts;
    for (const auto& t : all) parts.emplace_back(optim::detail::stored(t));
    return parts;
  }
  optim::Summands of_path(const std::string& path) const {
    optim::Summands s;
    for (const auto& grain : gradients_) {
      const auto at = grain.find(path);
      auto& part = s.parts.emplace_back();
      if (at == grain.end()) continue;
      part = optim::detail::stored(at->second);
      s.to = part->dtype();
    }
    return s;
  }

  std::vector<OfBuffer> buffers_;
  std::vector<OfIntegers> integers_;
  std::vector<Tensor<B>> losses_;
  std::vector<optim::ModelGradients<B>> gradients_;
  bool done_ = false;
};

}  // namespace detail

}  // namespace planck::train
