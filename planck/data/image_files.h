// What a folder of images holds (images.h), read and checked.
#pragma once

#include <optional>
#include <string>

#include "planck/data/images.h"

namespace planck {

struct ImageFolder {
  ImageSet train;                // all there is, where the folder has no parts
  std::optional<ImageSet> test;  // as large and with as many classes as train
};

[[nodiscard]] Result<ImageFolder> read_image_folder(const std::string& folder);

}  // namespace planck
