// Arrays in .npy files: a reader that maps the file, and a writer.
//
// What is accepted is said in npy_header.h. A file written here appears under its name complete or
// not at all (output_file.h). Errors are ErrorCode::io and begin with the path.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planck/core/view.h"
#include "planck/io/mapped_file.h"
#include "planck/io/npy_header.h"

namespace planck {

class NpyFile {
 public:
  // Reads the header; of booleans also the data, whose bytes must be 0 or 1.
  static Result<NpyFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  Dtype dtype() const { return header_.dtype; }
  const Shape& shape() const { return header_.shape; }

  // A view onto the mapping, never to be written to; Fortran order shows in its strides. Refused
  // where the data do not lie at a multiple of an element's size.
  [[nodiscard]] Result<View> view() const;

  // A copy in row-major order, whatever the order in the file. T is the file's dtype, or the error
  // names both.
  template <class T>
  [[nodiscard]] Result<std::vector<T>> values() const {
    std::vector<T> result(static_cast<std::size_t>(numel(shape())));
    if (auto ok = copy_to(dtype_of<T>, std::as_writable_bytes(std::span(result))); !ok)
      return tl::unexpected(ok.error());
    return result;
  }

 private:
  Result<void> copy_to(Dtype dtype, std::span<std::byte> out) const;
  View unaligned_view() const;

  std::string path_;
  MappedFile file_;
  NpyHeader header_;
};

// Host memory of any strides, written in row-major order.
[[nodiscard]] Result<void> write_npy(const std::string& path, const View& array);

}  // namespace planck
