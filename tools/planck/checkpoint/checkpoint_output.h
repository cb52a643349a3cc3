// The files of a checkpoint on its way out: one file, or a folder of shards with what goes beside
// them. All of it appears under its name complete, or nothing does.
//
// The bytes of a tensor may come in any order and from several threads. A single file is an
// OutputFile. A folder is made aside, as .NAME.partial-8 hex digits in the same place, and renamed
// when it is whole; the name must be free, or that of an empty folder, whose mode, owner and group
// it keeps, or of a link to one. What a killed run has left is removed by the next that writes to
// the same place: a folder aside is locked while its maker lives.
//
// Nobody may read a new output who could not read what it is made of (limit_modes); files that are
// copied keep their modes.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "planck/io/checkpoint/source.h"
#include "planck/io/gguf/gguf_header.h"
#include "planck/io/output_file.h"
#include "planck/io/safetensors_header.h"

namespace planck::cli {

struct OutputTensor {
  std::string name;
  const TensorEncoding* type = nullptr;
  std::vector<std::int64_t> shape;
  bool with_the_one_before = false;  // in the same file
};

struct OutputOptions {
  std::string path;
  bool folder = false;
  bool gguf = false;
  std::uint64_t shard_bytes = 0;  // that a file of a folder may have; 0: there is one
  SafetensorsMetadata metadata = {};
  std::vector<GgufField> fields = {};
  std::map<std::string, std::string> texts = {};  // files of a folder: name → contents
  std::vector<std::string> copies = {};           // files that are copied into it
  unsigned file_mode = 0666, folder_mode = 0777;  // of new ones, less the umask
};

// Takes from the modes what the input's files and, where it is a folder, the folder do not have.
void limit_modes(const CheckpointSource& in, OutputOptions& options);

// Bytes of all files of tensors, without writing any.
[[nodiscard]] Result<std::uint64_t> output_bytes(const OutputOptions& options,
                                                 const std::vector<OutputTensor>& tensors);

// A folder under construction: locked, for nobody else to read, removed unless it is renamed.
class PartialFolder {
 public:
  static Result<PartialFolder> create(const std::string& target, unsigned mode);
  PartialFolder() = default;
  PartialFolder(PartialFolder&& other) noexcept { swap(other); }
  PartialFolder& operator=(PartialFolder&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PartialFolder();

  const std::string& path() const { return path_; }
  [[nodiscard]] Result<void> rename_to_target();

 private:
  void swap(PartialFolder& other) noexcept;
  Result<void> make_parents(const std::string& target);
  Result<void> make_aside(const std::string& target, unsigned mode);

  std::string target_, path_;
  std::vector<std::string> parents_;  // that were made for it, the outermost first
  unsigned mode_ = 0;                 // that it gets with its name
  int lock_ = -1;
};

struct Shard;

class CheckpointOutput {
 public:
  [[nodiscard]] static Result<CheckpointOutput> create(const OutputOptions& options,
                                                       const std::vector<OutputTensor>& tensors);

  // Bytes of a tensor, by its place in the list given, from `offset` on.
  [[nodiscard]] Result<void> write(std::size_t tensor, std::uint64_t offset,
                                   std::span<const std::byte> bytes);
  // Refused while bytes are missing.
  [[nodiscard]] Result<void> commit();

  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct Place {
    std::size_t file = 0;
    std::uint64_t begin = 0, bytes = 0;
  };
  Result<void> add_file(const OutputOptions& options, const std::vector<OutputTensor>& tensors,
                        const Shard& shard);
  Result<void> write_text(const std::string& name, std::string_view text, unsigned mode);
  Result<void> write_beside(const OutputOptions& options);

  std::string path_;
  PartialFolder folder_;
  std::vector<OutputFile> files_;
  std::vector<Place> places_;
  std::uint64_t file_bytes_ = 0, missing_ = 0;
  std::unique_ptr<std::mutex> guard_;  // of missing_
};

}  // namespace planck::cli
