// Safetensors files: a reader that maps the file, and a writer that streams.
//
// Reading costs the header and nothing more; a tensor's pages are read when they are touched.
// Writing takes the names, dtypes and shapes up front and the bytes in any order, in pieces, so a
// checkpoint larger than memory can be made tensor by tensor; the file appears under its name when
// commit() succeeds and not before (output_file.h). The same tensors and metadata give the same
// bytes. What is accepted is said in safetensors_header.h. Errors are ErrorCode::io and begin with
// the path.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planck/core/owned_tensor.h"
#include "planck/io/mapped_file.h"
#include "planck/io/output_file.h"
#include "planck/io/safetensors_header.h"

namespace planck {

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const SafetensorsHeader& header() const { return header_; }
  std::uint64_t file_bytes() const { return file_.bytes().size(); }
  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  // The error names the tensor and the file.
  [[nodiscard]] Result<const SafetensorsEntry*> find(std::string_view name) const;

  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

  // A view onto the mapping: row-major, never to be written to. Refused for dtypes Planck does not
  // compute with, ranks above 8, and tensors that do not lie at a multiple of their element's size:
  // load() takes the latter.
  [[nodiscard]] Result<View> view(const SafetensorsEntry& entry) const;
  // A copy on the stream's device, complete when it returns; any position in the file will do.
  [[nodiscard]] Result<OwnedTensor> load(const Stream& stream, const SafetensorsEntry& entry) const;

  // The shape of a tensor that ops can compute with; refused as by view(), but for its position.
  [[nodiscard]] Result<Shape> computable_shape(const SafetensorsEntry& entry) const;

  // Hints: see MappedFile.
  void expect(const SafetensorsEntry& entry) const { file_.expect(bytes(entry)); }
  void forget(const SafetensorsEntry& entry) const { file_.forget(bytes(entry)); }
  void forget(std::span<const std::byte> part) const { file_.forget(part); }

 private:
  std::string path_;
  MappedFile file_;
  SafetensorsHeader header_;
};

// What a writer is told of a tensor.
struct SafetensorsSpec {
  std::string name;
  std::string_view dtype;  // as in the file
  std::vector<std::int64_t> shape;

  // s4 and u4 become U8 with the last extent halved, which must be even.
  static Result<SafetensorsSpec> of(std::string name, Dtype dtype, const Shape& shape);
};

class SafetensorsWriter {
 public:
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::span<const SafetensorsSpec> tensors,
                                          SafetensorsMetadata metadata);

  // The next bytes of a tensor: all of them, or one piece after another. Tensors may take turns.
  [[nodiscard]] Result<void> write(std::string_view name, std::span<const std::byte> bytes);
  // Refused while a tensor lacks bytes. A writer destroyed without it leaves nothing behind.
  [[nodiscard]] Result<void> commit();

  std::uint64_t file_bytes() const;

 private:
  SafetensorsWriter(std::string path, OutputFile file)
      : path_(std::move(path)), file_(std::move(file)) {}

  std::string path_;
  OutputFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;  // name → entry
  std::vector<std::uint64_t> written_;                     // bytes so far, per entry
};

}  // namespace planck
