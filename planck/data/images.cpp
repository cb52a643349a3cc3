#include "planck/data/images.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "planck/data/batches.h"
#include "planck/data/digits.h"
#include "planck/data/image_files.h"

namespace planck {

namespace {

constexpr std::uint64_t kSplitSeed = 1;

std::size_t image_size(const ImageSet& images) {
  return static_cast<std::size_t>(images.height * images.width);
}

ImageSet subset(const ImageSet& all, std::span<const std::int64_t> indices) {
  ImageSet part;
  part.count = static_cast<std::int64_t>(indices.size());
  part.height = all.height;
  part.width = all.width;
  part.classes = all.classes;
  part.pixels.resize(indices.size() * image_size(all));
  part.labels.resize(indices.size());
  gather(all, indices, part.pixels, part.labels);
  return part;
}

// How many images of each class are for testing: floor(share), and one more for the classes with
// the largest fractions, lower labels first, until there are `test` of them.
std::vector<std::int64_t> quotas(const ImageSet& all, std::int64_t test) {
  const auto classes = static_cast<std::size_t>(all.classes);
  std::vector<std::int64_t> count(classes), quota(classes);
  for (const std::int32_t label : all.labels) ++count[static_cast<std::size_t>(label)];
  std::int64_t left = test;
  for (std::size_t c = 0; c < classes; ++c) left -= quota[c] = count[c] * test / all.count;
  std::vector<std::size_t> by_fraction(classes);
  std::iota(by_fraction.begin(), by_fraction.end(), std::size_t{0});
  std::stable_sort(by_fraction.begin(), by_fraction.end(), [&](std::size_t a, std::size_t b) {
    return count[a] * test % all.count > count[b] * test % all.count;
  });
  for (std::size_t i = 0; i < static_cast<std::size_t>(left); ++i) ++quota[by_fraction[i]];
  return quota;
}

}  // namespace

void gather(const ImageSet& images, std::span<const std::int64_t> indices, std::span<float> pixels,
            std::span<std::int32_t> labels) {
  const std::size_t size = image_size(images);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto from = static_cast<std::size_t>(indices[i]);
    std::copy_n(images.pixels.data() + from * size, size, pixels.data() + i * size);
    labels[i] = images.labels[from];
  }
}

Result<ImageData> split(const ImageSet& all, std::uint64_t seed) {
  if (all.count < 2)
    return fail(ErrorCode::io,
                fmt::format("holds {} images, two parts need 2 at least", all.count));
  std::vector<std::int64_t> quota = quotas(all, (all.count + 4) / 5);
  std::vector<bool> for_test(static_cast<std::size_t>(all.count));
  for (const std::int64_t i : shuffled(all.count, seed, 0)) {
    const auto at = static_cast<std::size_t>(i);
    std::int64_t& left = quota[static_cast<std::size_t>(all.labels[at])];
    if (left > 0) {
      --left;
      for_test[at] = true;
    }
  }
  std::vector<std::int64_t> train, test;
  for (std::int64_t i = 0; i < all.count; ++i)
    (for_test[static_cast<std::size_t>(i)] ? test : train).push_back(i);
  return ImageData{subset(all, train), subset(all, test), ""};
}

Result<ImageSet> load_images(const std::string& folder) {
  auto found = read_image_folder(folder);
  if (!found) return tl::unexpected(found.error());
  ImageSet all = std::move(found->train);
  if (!found->test) return all;
  all.count += found->test->count;
  all.pixels.insert(all.pixels.end(), found->test->pixels.begin(), found->test->pixels.end());
  all.labels.insert(all.labels.end(), found->test->labels.begin(), found->test->labels.end());
  return all;
}

Result<ImageData> load_image_data(const std::string& folder_or_empty) {
  const bool built_in = folder_or_empty.empty();
  const std::string name = built_in ? "digits" : folder_or_empty;
  ImageSet all;
  if (built_in) {
    auto digits = load_digits();
    if (!digits) return tl::unexpected(digits.error());
    all = std::move(*digits);
  } else {
    auto found = read_image_folder(folder_or_empty);
    if (!found) return tl::unexpected(found.error());
    if (found->test) return ImageData{std::move(found->train), std::move(*found->test), name};
    all = std::move(found->train);
  }
  auto parts = split(all, kSplitSeed);
  if (!parts) return fail(ErrorCode::io, fmt::format("{}: {}", name, parts.error().message));
  parts->name = name;
  return parts;
}

}  // namespace planck
