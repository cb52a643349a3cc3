// The list of members of a ZIP archive, as far as PyTorch's checkpoints need it.
//
// Promise: read_zip is a pure function of the bytes. Members that it lists are stored, not
// compressed, and lie inside the file; names occur once. Sizes above 4 GiB (ZIP64) are read.
// Encrypted and compressed members and archives in several parts are refused, with the member's
// name. Time and memory are linear in the directory's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "planck/core/result.h"

namespace planck {

struct ZipMember {
  std::uint64_t begin = 0, bytes = 0;  // of its contents, in the file
};
using ZipDirectory = std::map<std::string, ZipMember, std::less<>>;

[[nodiscard]] Result<ZipDirectory> read_zip(std::span<const std::byte> file);

}  // namespace planck
