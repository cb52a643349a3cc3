// Arrays of bytes in IDX files, the format of MNIST.
//
//   2 bytes      0
//   1 byte       the type: 0x08, unsigned bytes, is the one that is read
//   1 byte       the rank, 1 or more
//   rank × 4     extents, big endian
//   the rest     the elements, row-major
//
// Promise: a file is accepted only where the data are exactly as many bytes as the extents say.
// Anything else is one ErrorCode::io that begins with the path. A compressed file is named as such.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "planck/io/mapped_file.h"

namespace planck {

struct IdxHeader {
  std::vector<std::int64_t> shape;  // of any rank
  std::uint64_t data_begin = 0;
};

// A pure function of the bytes.
[[nodiscard]] Result<IdxHeader> parse_idx_header(std::span<const std::byte> file);

class IdxFile {
 public:
  static Result<IdxFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const std::vector<std::int64_t>& shape() const { return header_.shape; }
  std::span<const std::byte> bytes() const { return file_.bytes().subspan(header_.data_begin); }

 private:
  std::string path_;
  MappedFile file_;
  IdxHeader header_;
};

}  // namespace planck
