// A checkpoint as people have it: one file, several, a folder, or the index.json of shards.
//
//   model.safetensors    tensors by name           *.gguf        tensors and fields
//   *.npy                one tensor, named after   *.pt, *.pth,  tensors of a state dictionary
//                        the file                  *.bin
//
// Its contents decide what a file is, not its name. A folder stands for its index.json, else for
// all its files of the first format found, in the order above; settings and tokenizers beside them
// are listed as companions. Tensors lie at any alignment and, in npy and PyTorch's files, with any
// strides.
//
// Promise: opening reads headers alone. Names occur once over all files. read() copies elements
// out; memory is the caller's buffer, and a file that has become shorter is an error. Reads may run
// on several threads. Errors are ErrorCode::io and begin with the path.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planck/io/checkpoint/encoding.h"
#include "planck/io/gguf/gguf_header.h"
#include "planck/io/safetensors_header.h"
#include "planck/io/torch/pickle.h"

namespace planck {

struct SourceTensor {
  std::string name;
  const TensorEncoding* type = nullptr;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides = {};  // in elements; empty: row-major
  std::uint64_t begin = 0;                 // in the file
  std::size_t file = 0;

  std::int64_t elements() const;
  std::uint64_t bytes() const;  // in row-major order
};

class CheckpointSource {
 public:
  [[nodiscard]] static Result<CheckpointSource> open(std::span<const std::string> paths);
  [[nodiscard]] static Result<CheckpointSource> open(const std::string& path);

  CheckpointSource(CheckpointSource&&) noexcept;
  CheckpointSource& operator=(CheckpointSource&&) noexcept;
  ~CheckpointSource();

  const std::string& path() const { return path_; }  // the first one given
  const std::vector<SourceTensor>& tensors() const { return tensors_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  const std::vector<GgufField>& fields() const { return fields_; }  // of GGUF files
  const std::vector<std::string>& companions() const { return companions_; }
  std::vector<std::string> files() const;
  std::uint64_t file_bytes() const;
  bool is_folder() const { return is_folder_; }
  bool is_gguf() const { return is_gguf_; }
  const LeftOut& left_out() const { return left_out_; }  // of PyTorch's dictionaries

  const SourceTensor* find(std::string_view name) const;

  // Elements first … first + count of a tensor, in row-major order, as they are stored; both are
  // multiples of the encoding's block.
  [[nodiscard]] Result<void> read(const SourceTensor& tensor, std::int64_t first,
                                  std::int64_t count, std::byte* out) const;
  // The same as floats: plain ones as they are, others decoded to f32.
  [[nodiscard]] Result<void> read_floats(const SourceTensor& tensor, std::int64_t first,
                                         std::int64_t count, std::vector<std::byte>& workspace,
                                         std::byte* out) const;
  // What read_floats gives: the dtype of plain floats, else f32. None: not floats.
  static std::optional<Dtype> float_dtype(const TensorEncoding& encoding);

 private:
  class File;

  CheckpointSource();
  Result<void> add_path(const std::string& path);
  Result<void> add_folder(const std::string& folder);
  Result<void> add_index(const std::string& path);
  Result<void> add_file(const std::string& path);
  Result<void> check_names() const;

  std::string path_;
  std::vector<std::unique_ptr<File>> files_;
  std::vector<SourceTensor> tensors_;
  SafetensorsMetadata metadata_;
  std::vector<GgufField> fields_;
  std::vector<std::string> companions_;
  bool is_folder_ = false, is_gguf_ = false;
  LeftOut left_out_;
};

}  // namespace planck
