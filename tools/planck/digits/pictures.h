// Batches of distorted pictures, made on the device: which pictures and how they are turned, moved
// and scaled is a function of seed, epoch and picture alone.
#pragma once

#include "planck/data/distortion.h"
#include "planck/data/images.h"
#include "planck/nn/parameter.h"
#include "planck/planck.h"

namespace planck::digits {

inline constexpr Distortion kDistortion{.max_rotation = 0.9f,
                                        .max_shift = 0.15f,
                                        .min_scale = 0.8f,
                                        .max_scale = 1.25f,
                                        .max_shear = 0.15f};

template <class B>
struct Batch {
  Tensor<B> pictures;         // [N, 1, side, side]
  Tensor<B, IntKind> labels;  // [N]
};

struct Sampling {
  const ImageSet& set;
  std::int64_t side;
  std::uint64_t seed, epoch;
  Dtype dtype = Dtype::f32;  // of the pictures, which are made in f32
};

template <class B>
Batch<B> make_batch(const Sampling& from, std::span<const std::int64_t> which,
                    const typename B::Device& device) {
  const ImageSet& set = from.set;
  const std::int64_t n = static_cast<std::int64_t>(which.size()), pixels = set.height * set.width;
  std::vector<float> flat, theta(static_cast<std::size_t>(n) * 6);
  std::vector<std::int32_t> labels;
  flat.reserve(static_cast<std::size_t>(n * pixels));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t image = which[static_cast<std::size_t>(i)];
    const float* first = set.pixels.data() + image * pixels;
    flat.insert(flat.end(), first, first + pixels);
    labels.push_back(set.labels[static_cast<std::size_t>(image)]);
    affine_parameters(kDistortion, from.seed, from.epoch, image, theta.data() + 6 * i);
  }
  const auto flat_pictures =
      Tensor<B>::from(std::span<const float>(flat), {n, 1, set.height, set.width}, device);
  const auto maps = Tensor<B>::from(std::span<const float>(theta), {n, 2, 3}, device);
  const auto seen = grid_sample(flat_pictures, affine_grid(maps, {n, 1, from.side, from.side}));
  return {nn::as_dtype(seen, from.dtype),
          Tensor<B, IntKind>::from(std::span<const std::int32_t>(labels), {n}, device)};
}

}  // namespace planck::digits
