// One file of a CheckpointSource: what is in it, whatever its format, and its bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planck/io/checkpoint/source.h"
#include "planck/io/mapped_file.h"

namespace planck {

struct FileContents {
  std::vector<SourceTensor> tensors;  // in the order of their bytes, npy's one apart
  SafetensorsMetadata metadata;
  std::vector<GgufField> fields;
  bool is_gguf = false;
  LeftOut left_out;
};

// A pure function of the bytes; an npy's tensor is named after the path.
[[nodiscard]] Result<FileContents> read_contents(const std::string& path,
                                                 std::span<const std::byte> file);

class CheckpointSource::File {
 public:
  static Result<std::unique_ptr<File>> open(const std::string& path);
  File(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  const MappedFile& mapped() const { return mapped_; }  // for headers, and for strided tensors
  [[nodiscard]] Result<void> read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  File() = default;

  std::string path_;
  MappedFile mapped_;
  int descriptor_ = -1;
};

}  // namespace planck
