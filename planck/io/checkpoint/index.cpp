#include "planck/io/checkpoint/index.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "planck/io/mapped_file.h"
#include "planck/io/safetensors_header.h"

namespace planck {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr std::uint64_t kMaxIndex = 100'000'000;

tl::unexpected<Error> refuse(std::string why) { return fail(ErrorCode::io, std::move(why)); }

bool ends_with_any(const std::string& name, std::initializer_list<std::string_view> suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view s) { return name.ends_with(s); });
}

// Takes the events of the one object that matters and keeps nothing else.
class IndexEvents {
 public:
  CheckpointIndex index;
  std::string error;
  bool has_map = false;

  bool null() { return other(); }
  bool boolean(bool) { return other(); }
  bool number_integer(std::int64_t) { return other(); }
  bool number_unsigned(std::uint64_t) { return other(); }
  bool number_float(double, const std::string&) { return other(); }
  bool binary(json::binary_t&) { return other(); }
  bool start_array(std::size_t) { return ++depth_ < 32 && other(); }
  bool end_array() {
    --depth_;
    return true;
  }
  bool start_object(std::size_t) {
    if (in_map_)
      return stop(fmt::format("tensor {} has an object, must have a file", in_quotes(key_)));
    in_map_ = depth_ == 1 && key_ == "weight_map";
    has_map = has_map || in_map_;
    return ++depth_ < 32 || stop("nests too deep");
  }
  bool end_object() {
    --depth_;
    in_map_ = false;
    return true;
  }
  bool key(std::string& name) {
    key_ = std::move(name);
    return true;
  }
  bool string(std::string& value) {
    if (!in_map_) return true;
    if (value.empty() || value.find('/') != value.npos || value == "." || value == "..")
      return stop(fmt::format("tensor {} is in {}, which is not a file's name", in_quotes(key_),
                              in_quotes(value)));
    if (index.tensors.size() == kMaxSafetensorsEntries)
      return stop(fmt::format("has more than {} tensors", kMaxSafetensorsEntries));
    const auto [at, fresh] = index.tensors.try_emplace(std::move(key_), std::move(value));
    return fresh || stop(fmt::format("tensor {} occurs twice", in_quotes(at->first)));
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    return stop(fmt::format("is not valid JSON at byte {}", position));
  }

 private:
  bool other() {
    return !in_map_ || stop(fmt::format("tensor {} has no file's name", in_quotes(key_)));
  }
  bool stop(std::string why) {
    error = std::move(why);
    return false;
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string key_;
};

}  // namespace

Result<CheckpointIndex> parse_index(std::string_view text) {
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    return refuse(fmt::format("is not valid JSON at byte {}; a NUL", nul));
  IndexEvents events;
  if (!json::sax_parse(text.begin(), text.end(), &events))
    return refuse(events.error.empty() ? "nests too deep" : events.error);
  if (!events.has_map)
    return refuse("has no object \"weight_map\", so is not the index of a checkpoint");
  std::set<std::string> files;
  for (const auto& [name, file] : events.index.tensors) files.insert(file);
  events.index.files.assign(files.begin(), files.end());
  if (events.index.files.empty()) return refuse("\"weight_map\" is empty");
  return std::move(events.index);
}

Result<CheckpointIndex> read_index(const std::string& path) {
  const auto file = MappedFile::open(path);
  if (!file) return tl::unexpected(file.error());
  if (file->bytes().size() > kMaxIndex)
    return refuse(fmt::format("{}: has {} bytes, an index has at most {}", path,
                              file->bytes().size(), kMaxIndex));
  auto index =
      parse_index({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()});
  if (!index) return refuse(fmt::format("{}: {}", path, index.error().message));
  return index;
}

std::string index_text(const std::map<std::string, std::string, std::less<>>& tensors,
                       std::uint64_t total_bytes) {
  nlohmann::ordered_json j;
  j["metadata"]["total_size"] = total_bytes;
  j["weight_map"] = tensors;
  return j.dump(2) + "\n";
}

Result<CheckpointFolder> list_folder(const std::string& path, ListFolder what) {
  std::error_code failed;
  std::vector<std::string> names;
  const fs::path folder = path.empty() ? fs::path(".") : fs::path(path);
  for (fs::directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    // A link that leads nowhere, or a pipe, stays: a checkpoint without one of its files is no
    // checkpoint, and opening it says so.
    std::error_code ignored;
    if (!it->is_directory(ignored) && !it->path().filename().string().starts_with("."))
      names.push_back(it->path().filename().string());
  }
  if (failed) return refuse(fmt::format("{}: cannot read the folder: {}", path, failed.message()));
  std::sort(names.begin(), names.end());
  CheckpointFolder found;
  std::vector<std::string> indexes, by_format[4];
  for (const std::string& name : names) {
    const std::string full = (folder / name).string();
    if (name.ends_with(".index.json"))
      indexes.push_back(full);
    else if (name.ends_with(".safetensors"))
      by_format[0].push_back(full);
    else if (name.ends_with(".gguf"))
      by_format[1].push_back(full);
    else if (ends_with_any(name, {".pt", ".pth", ".bin"}))
      by_format[2].push_back(full);
    else if (name.ends_with(".npy"))
      by_format[3].push_back(full);
    else if (ends_with_any(name, {".json", ".txt", ".model", ".jinja", ".tiktoken"}))
      found.companions.push_back(full);
  }
  if (what == ListFolder::companions) return found;
  // Where a checkpoint is there twice, as safetensors and as PyTorch's, its safetensors count.
  for (const std::string& index : indexes)
    if (found.index.empty() || index.ends_with(".safetensors.index.json")) found.index = index;
  if (found.index.ends_with(".bin.index.json") && !by_format[0].empty()) found.index.clear();
  for (const auto& files : by_format)
    if (found.tensors.empty()) found.tensors = files;
  if (found.tensors.empty() && found.index.empty())
    return refuse(
        fmt::format("{}: the folder has no .safetensors, .gguf, .pt, .bin or .npy file", path));
  return found;
}

}  // namespace planck
