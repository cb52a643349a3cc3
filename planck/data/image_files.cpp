#include "planck/data/image_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "planck/io/idx.h"
#include "planck/io/npy.h"
#include "planck/io/safetensors_header.h"

namespace planck {

namespace {

constexpr std::int64_t kMostClasses = 65536;

tl::unexpected<Error> refuse(const std::string& path, const std::string& why) {
  return fail(ErrorCode::io, fmt::format("{}: {}", path, why));
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Labels from any integers, and with them the number of classes.
template <class T>
Result<void> take_labels(const std::string& path, std::span<const T> labels, ImageSet& set) {
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto label = static_cast<std::int64_t>(labels[i]);
    if (label < 0 || label >= kMostClasses)
      return refuse(path,
                    fmt::format("label {} is {}, must be 0 to {}", i, label, kMostClasses - 1));
    largest = std::max(largest, label);
    set.labels.push_back(static_cast<std::int32_t>(label));
  }
  set.classes = static_cast<int>(largest) + 1;
  return {};
}

// [count, height, width]; all of them at least 1.
Result<void> take_shape(const std::string& images, std::span<const std::int64_t> shape,
                        ImageSet& set) {
  const bool channel = shape.size() == 4 && shape[1] == 1;
  if (shape.size() != 3 && !channel)
    return refuse(images,
                  fmt::format("shape is {}, images are [count, height, width]", shape_text(shape)));
  set.count = shape[0];
  set.height = shape[shape.size() - 2];
  set.width = shape[shape.size() - 1];
  if (set.count < 1 || set.height < 1 || set.width < 1)
    return refuse(images, fmt::format("shape is {}, which holds no pixel", shape_text(shape)));
  return {};
}

// As many labels as images.
Result<void> take_shapes(const std::string& images, std::span<const std::int64_t> shape,
                         const std::string& labels, std::span<const std::int64_t> label_shape,
                         ImageSet& set) {
  if (auto ok = take_shape(images, shape, set); !ok) return ok;
  if (label_shape.size() != 1)
    return refuse(labels, fmt::format("shape is {}, labels are [count]", shape_text(label_shape)));
  if (label_shape[0] != set.count)
    return refuse(labels, fmt::format("holds {} labels, {} holds {} images", label_shape[0], images,
                                      set.count));
  return {};
}

void take_bytes(std::span<const std::byte> bytes, ImageSet& set) {
  set.pixels.resize(bytes.size());
  std::transform(bytes.begin(), bytes.end(), set.pixels.begin(),
                 [](std::byte b) { return static_cast<float>(std::to_integer<int>(b)) / 255.0f; });
}

Result<ImageSet> read_idx(const std::string& images_path, const std::string& labels_path) {
  const auto images = IdxFile::open(images_path);
  if (!images) return tl::unexpected(images.error());
  const auto labels = IdxFile::open(labels_path);
  if (!labels) return tl::unexpected(labels.error());
  ImageSet set;
  if (auto ok = take_shapes(images_path, images->shape(), labels_path, labels->shape(), set); !ok)
    return tl::unexpected(ok.error());
  const auto bytes = labels->bytes();
  const std::span values(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  if (auto ok = take_labels(labels_path, values, set); !ok) return tl::unexpected(ok.error());
  take_bytes(images->bytes(), set);
  return set;
}

template <class T>
Result<void> take_floats(const NpyFile& file, ImageSet& set) {
  const auto values = file.values<T>();
  if (!values) return tl::unexpected(values.error());
  set.pixels.reserve(values->size());
  for (const T value : *values) {
    const auto pixel = static_cast<float>(value);
    if (!(pixel >= 0.0f && pixel <= 1.0f)) {
      const auto at = static_cast<std::int64_t>(set.pixels.size());
      return refuse(file.path(),
                    fmt::format("image {}: its pixel in row {}, column {} is {}, must be 0 to 1",
                                at / (set.height * set.width), at / set.width % set.height,
                                at % set.width, pixel));
    }
    set.pixels.push_back(pixel);
  }
  return {};
}

Result<void> take_pixels(const NpyFile& file, ImageSet& set) {
  switch (file.dtype()) {
    case Dtype::u8: {
      const auto values = file.values<std::uint8_t>();
      if (!values) return tl::unexpected(values.error());
      take_bytes(std::as_bytes(std::span(*values)), set);
      return {};
    }
    case Dtype::f16:
      return take_floats<f16>(file, set);
    case Dtype::f32:
      return take_floats<float>(file, set);
    case Dtype::f64:
      return take_floats<double>(file, set);
    default:
      return refuse(file.path(),
                    fmt::format("holds {}, pixels are u8 or floats", name(file.dtype())));
  }
}

template <class T>
Result<void> take_labels(const NpyFile& file, ImageSet& set) {
  const auto values = file.values<T>();
  if (!values) return tl::unexpected(values.error());
  return take_labels<T>(file.path(), std::span(*values), set);
}

Result<void> take_labels(const NpyFile& file, ImageSet& set) {
  switch (file.dtype()) {
    case Dtype::u8:
      return take_labels<std::uint8_t>(file, set);
    case Dtype::s8:
      return take_labels<std::int8_t>(file, set);
    case Dtype::i32:
      return take_labels<std::int32_t>(file, set);
    case Dtype::i64:
      return take_labels<std::int64_t>(file, set);
    default:
      return refuse(file.path(),
                    fmt::format("holds {}, labels are u8, s8, i32 or i64", name(file.dtype())));
  }
}

Result<ImageSet> read_npy(const std::string& images_path, const std::string& labels_path) {
  const auto images = NpyFile::open(images_path);
  if (!images) return tl::unexpected(images.error());
  const auto labels = NpyFile::open(labels_path);
  if (!labels) return tl::unexpected(labels.error());
  ImageSet set;
  const std::span shape(images->shape().begin(), images->shape().end());
  const std::span label_shape(labels->shape().begin(), labels->shape().end());
  if (auto ok = take_shapes(images_path, shape, labels_path, label_shape, set); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = take_labels(*labels, set); !ok) return tl::unexpected(ok.error());
  if (auto ok = take_pixels(*images, set); !ok) return tl::unexpected(ok.error());
  return set;
}

// Under either of its names; one that is not there keeps the first, for the message.
std::string idx_path(const std::string& folder, const std::string& part, const std::string& kind) {
  const std::string dash = folder + "/" + part + "-" + kind, dot = folder + "/" + part + "." + kind;
  if (!exists(dash) && exists(dot)) return dot;
  if (!exists(dash) && exists(dash + ".gz")) return dash + ".gz";  // which says: decompress
  if (!exists(dash) && exists(dot + ".gz")) return dot + ".gz";
  return dash;
}

}  // namespace

Result<ImageFolder> read_image_folder(const std::string& folder) {
  std::error_code ignored;
  const auto status = std::filesystem::status(folder, ignored);
  if (!std::filesystem::exists(status)) return refuse(folder, "no such folder");
  if (!std::filesystem::is_directory(status)) return refuse(folder, "is not a folder");
  const std::string train_images = idx_path(folder, "train-images", "idx3-ubyte"),
                    train_labels = idx_path(folder, "train-labels", "idx1-ubyte"),
                    test_images = idx_path(folder, "t10k-images", "idx3-ubyte"),
                    test_labels = idx_path(folder, "t10k-labels", "idx1-ubyte");
  ImageFolder result;
  if (exists(train_images)) {
    auto train = read_idx(train_images, train_labels);
    if (!train) return tl::unexpected(train.error());
    auto test = read_idx(test_images, test_labels);
    if (!test) return tl::unexpected(test.error());
    if (test->height != train->height || test->width != train->width)
      return refuse(test_images,
                    fmt::format("holds images of {} x {} pixels, {} of {} x {}", test->height,
                                test->width, train_images, train->height, train->width));
    for (std::size_t i = 0; i < test->labels.size(); ++i)
      if (test->labels[i] >= train->classes)
        return refuse(test_labels, fmt::format("label {} is {}, those of {} are 0 to {}", i,
                                               test->labels[i], train_labels, train->classes - 1));
    test->classes = train->classes;
    result.train = std::move(*train);
    result.test = std::move(*test);
    return result;
  }
  const std::string images = folder + "/images.npy", labels = folder + "/labels.npy";
  if (!exists(images) && !exists(labels))
    return refuse(folder, "holds neither train-images-idx3-ubyte nor images.npy");
  auto all = read_npy(images, labels);
  if (!all) return tl::unexpected(all.error());
  result.train = std::move(*all);
  return result;
}

Result<ImageSet> load_pictures(const std::string& path) {
  const auto file = NpyFile::open(path);
  if (!file) return tl::unexpected(file.error());
  std::vector<std::int64_t> shape(file->shape().begin(), file->shape().end());
  if (shape.size() == 2) shape.insert(shape.begin(), 1);
  ImageSet set;
  if (auto ok = take_shape(path, shape, set); !ok) return tl::unexpected(ok.error());
  if (auto ok = take_pixels(*file, set); !ok) return tl::unexpected(ok.error());
  return set;
}

}  // namespace planck
