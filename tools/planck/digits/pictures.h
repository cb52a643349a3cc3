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

// theta of each of these pictures: [N, 2, 3].
inline std::vector<float> maps_of(const Sampling& from, std::span<const std::int64_t> which) {
  std::vector<float> theta(which.size() * 6);
  for (std::size_t i = 0; i < which.size(); ++i)
    affine_parameters(kDistortion, from.seed, from.epoch, which[i], theta.data() + 6 * i);
  return theta;
}
// Pictures as an epoch distorts them; flat: [N, 1, height, width].
template <class B>
Tensor<B> distorted(const Sampling& from, std::span<const std::int64_t> which,
                    const Tensor<B>& flat) {
  const auto n = static_cast<std::int64_t>(which.size());
  const auto theta = maps_of(from, which);
  const auto maps = Tensor<B>::from(std::span<const float>(theta), {n, 2, 3}, flat.device());
  const auto seen = grid_sample(flat, affine_grid(maps, {n, 1, from.side, from.side}));
  return nn::as_dtype(seen, from.dtype);
}

template <class B>
Batch<B> make_batch(const Sampling& from, std::span<const std::int64_t> which,
                    const typename B::Device& device) {
  const ImageSet& set = from.set;
  const auto n = static_cast<std::int64_t>(which.size());
  std::vector<float> flat(which.size() * static_cast<std::size_t>(set.height * set.width));
  std::vector<std::int32_t> labels(which.size());
  gather(set, which, flat, labels);
  const auto pictures =
      Tensor<B>::from(std::span<const float>(flat), {n, 1, set.height, set.width}, device);
  return {distorted(from, which, pictures),
          Tensor<B, IntKind>::from(std::span<const std::int32_t>(labels), {n}, device)};
}

// All pictures of a set, on the device, from where batches are taken.
template <class B>
class PicturesThere {
 public:
  PicturesThere(const ImageSet& set, const typename B::Device& device)
      : pictures_(Tensor<B>::from(std::span<const float>(set.pixels),
                                  {set.count, 1, set.height, set.width}, device)),
        labels_(Tensor<B, IntKind>::from(std::span<const std::int32_t>(set.labels), {set.count},
                                         device)) {}
  Batch<B> batch(const Sampling& from, std::span<const std::int64_t> which) const {
    const auto index = Tensor<B, IntKind>::from(which, {static_cast<std::int64_t>(which.size())},
                                                pictures_.device());
    return {distorted(from, which, index_select(pictures_, 0, index)),
            index_select(labels_, 0, index)};
  }

 private:
  Tensor<B> pictures_;
  Tensor<B, IntKind> labels_;
};

}  // namespace planck::digits
