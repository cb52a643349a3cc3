#include "planck/io/checkpoint/source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "planck/io/checkpoint/index.h"
#include "planck/io/checkpoint/source_file.h"

namespace planck {

namespace fs = std::filesystem;

namespace {

tl::unexpected<Error> in_file(const std::string& path, const std::string& why) {
  return fail(ErrorCode::io, fmt::format("{}: {}", path, why));
}

// Elements of a strided tensor, one by one, in row-major order.
void gather(const SourceTensor& t, const std::byte* base, std::int64_t first, std::int64_t count,
            std::byte* out) {
  const auto width = static_cast<std::int64_t>(t.type->bytes);
  const std::size_t rank = t.shape.size();
  std::vector<std::int64_t> index(rank);
  std::int64_t rest = first;
  for (std::size_t d = rank; d-- > 0;) {
    index[d] = rest % t.shape[d];
    rest /= t.shape[d];
  }
  for (std::int64_t i = 0; i < count; ++i, out += width) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < rank; ++d) offset += index[d] * t.strides[d];
    std::memcpy(out, base + offset * width, static_cast<std::size_t>(width));
    for (std::size_t d = rank; d-- > 0 && ++index[d] == t.shape[d];) index[d] = 0;
  }
}

}  // namespace

std::int64_t SourceTensor::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}
std::uint64_t SourceTensor::bytes() const {
  return static_cast<std::uint64_t>(elements() / type->elements * type->bytes);
}

CheckpointSource::CheckpointSource() = default;
CheckpointSource::CheckpointSource(CheckpointSource&&) noexcept = default;
CheckpointSource& CheckpointSource::operator=(CheckpointSource&&) noexcept = default;
CheckpointSource::~CheckpointSource() = default;

Result<CheckpointSource> CheckpointSource::open(const std::string& path) {
  return open(std::span(&path, 1));
}

Result<CheckpointSource> CheckpointSource::open(std::span<const std::string> paths) {
  if (paths.empty()) return fail(ErrorCode::io, "no file was given");
  CheckpointSource source;
  source.path_ = paths[0];
  for (const std::string& path : paths)
    if (auto ok = source.add_path(path); !ok) return tl::unexpected(ok.error());
  if (auto ok = source.check_names(); !ok) return tl::unexpected(ok.error());
  return source;
}

Result<void> CheckpointSource::add_path(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return add_folder(path);
  if (path.ends_with(".json")) return add_index(path);
  return add_file(path);
}

Result<void> CheckpointSource::add_folder(const std::string& folder) {
  const auto listed = list_folder(folder);
  if (!listed) return tl::unexpected(listed.error());
  is_folder_ = true;
  companions_.insert(companions_.end(), listed->companions.begin(), listed->companions.end());
  if (!listed->index.empty()) return add_index(listed->index);
  for (const std::string& file : listed->tensors)
    if (auto ok = add_file(file); !ok) return ok;
  return {};
}

Result<void> CheckpointSource::add_index(const std::string& path) {
  const auto index = read_index(path);
  if (!index) return tl::unexpected(index.error());
  is_folder_ = true;
  if (companions_.empty())
    if (const auto listed =
            list_folder(fs::path(path).parent_path().string(), ListFolder::companions))
      companions_ = listed->companions;
  const std::size_t first = tensors_.size();
  for (const std::string& file : index->files)
    if (auto ok = add_file((fs::path(path).parent_path() / file).string()); !ok) return ok;
  std::map<std::string_view, std::string> found;  // tensor → file's name
  for (std::size_t i = first; i < tensors_.size(); ++i)
    found[tensors_[i].name] = fs::path(files_[tensors_[i].file]->path()).filename().string();
  for (const auto& [name, file] : index->tensors) {
    const auto it = found.find(name);
    if (it == found.end() || it->second != file)
      return in_file(
          path, fmt::format("tensor {} should be in {}, it is {}", in_quotes(name), in_quotes(file),
                            it == found.end() ? "nowhere" : "in " + in_quotes(it->second)));
  }
  for (const auto& [name, file] : found)
    if (!index->tensors.contains(name))
      return in_file(
          path, fmt::format("lacks tensor {}, which is in {}", in_quotes(name), in_quotes(file)));
  return {};
}

Result<void> CheckpointSource::add_file(const std::string& path) {
  auto file = File::open(path);
  if (!file) return tl::unexpected(file.error());
  auto contents = read_contents(path, (*file)->mapped().bytes());
  if (!contents) return in_file(path, contents.error().message);
  for (SourceTensor& t : contents->tensors) {
    t.file = files_.size();
    tensors_.push_back(std::move(t));
  }
  metadata_.merge(contents->metadata);
  if (metadata_.size() > kMaxSafetensorsEntries)
    return in_file(path, fmt::format("with the files before it has more than {} keys of metadata",
                                     kMaxSafetensorsEntries));
  if (fields_.empty()) fields_ = std::move(contents->fields);
  is_gguf_ = is_gguf_ || contents->is_gguf;
  left_out_.count += contents->left_out.count;
  for (std::string& name : contents->left_out.names)
    if (left_out_.names.size() < LeftOut::kMostNames) left_out_.names.push_back(std::move(name));
  files_.push_back(std::move(*file));
  return {};
}

Result<void> CheckpointSource::check_names() const {
  std::vector<const SourceTensor*> ordered;
  for (const SourceTensor& t : tensors_) ordered.push_back(&t);
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) {
    return a->name != b->name ? a->name < b->name : a->file < b->file;
  });
  for (std::size_t i = 1; i < ordered.size(); ++i)
    if (ordered[i]->name == ordered[i - 1]->name)
      return in_file(files_[ordered[i]->file]->path(),
                     fmt::format("tensor {} is also in {}", in_quotes(ordered[i]->name),
                                 files_[ordered[i - 1]->file]->path()));
  return {};
}

std::vector<std::string> CheckpointSource::files() const {
  std::vector<std::string> paths;
  for (const auto& f : files_) paths.push_back(f->path());
  return paths;
}
std::uint64_t CheckpointSource::file_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& f : files_) sum += f->mapped().bytes().size();
  return sum;
}
const SourceTensor* CheckpointSource::find(std::string_view name) const {
  const auto it = std::find_if(tensors_.begin(), tensors_.end(),
                               [&](const SourceTensor& t) { return t.name == name; });
  return it == tensors_.end() ? nullptr : &*it;
}

Result<void> CheckpointSource::read(const SourceTensor& t, std::int64_t first, std::int64_t count,
                                    std::byte* out) const {
  const File& file = *files_[t.file];
  if (!t.strides.empty()) {
    gather(t, file.mapped().bytes().data() + t.begin, first, count, out);
    return {};
  }
  const auto offset = static_cast<std::uint64_t>(first / t.type->elements * t.type->bytes);
  const auto bytes = static_cast<std::size_t>(count / t.type->elements * t.type->bytes);
  return file.read(t.begin + offset, {out, bytes});
}

std::optional<Dtype> CheckpointSource::float_dtype(const TensorEncoding& encoding) {
  if (encoding.is_plain_float()) return encoding.dtype;
  return encoding.decode != nullptr ? std::optional(Dtype::f32) : std::nullopt;
}

Result<void> CheckpointSource::read_floats(const SourceTensor& t, std::int64_t first,
                                           std::int64_t count, std::vector<std::byte>& workspace,
                                           std::byte* out) const {
  if (t.type->decode == nullptr) return read(t, first, count, out);
  const std::int64_t blocks = count / t.type->elements;
  workspace.resize(static_cast<std::size_t>(blocks * t.type->bytes));
  if (auto ok = read(t, first, count, workspace.data()); !ok) return ok;
  t.type->decode(workspace.data(), blocks, reinterpret_cast<float*>(out));
  return {};
}

}  // namespace planck
