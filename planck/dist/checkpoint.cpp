#include "planck/dist/checkpoint.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "planck/io/sha256.h"

namespace planck::dist {

namespace {

constexpr std::string_view kParts = "planck.parts", kPart = "planck.part.";

std::string beside(const std::string& path, const std::string& name) {
  return (std::filesystem::path(path).parent_path() / name).string();
}
std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Parts of this checkpoint's name that the list does not have.
void remove_others(const std::string& path, const std::set<std::string>& kept) {
  const auto folder = std::filesystem::path(path).parent_path();
  const std::string begin = file_name(path) + ".";
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".part") && !kept.contains(name))
      std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

void save_in_parts(Communicator& workers, const std::string& path, const nn::StateDict& mine,
                   const SafetensorsMetadata& metadata) {
  const std::string hash = nn::sha256_of(mine);
  const std::string name = fmt::format("{}.{}-of-{}.{}.part", file_name(path), workers.rank(),
                                       workers.size(), hash.substr(0, 16));
  value_or_throw(nn::save_state(beside(path, name), mine, {{std::string(kParts), hash}}));
  const std::string line = name + "\n" + hash;
  const auto all = gather_all(workers, std::as_bytes(std::span(line)));  // every part is there
  if (workers.rank() == 0) {
    SafetensorsMetadata list = metadata;
    list[std::string(kParts)] = std::to_string(all.size());
    std::set<std::string> kept;
    for (std::size_t r = 0; r < all.size(); ++r) {
      const std::string text(reinterpret_cast<const char*>(all[r].data()), all[r].size());
      list[fmt::format("{}{}", kPart, r)] = text;
      kept.insert(text.substr(0, text.find('\n')));
    }
    value_or_throw(nn::save_state(path, {}, list));
    remove_others(path, kept);
  }
  workers.barrier();
}

Result<nn::SavedState> read_checkpoint(const std::string& path) {
  auto saved = nn::read_state(path);
  if (!saved) return saved;
  const auto count = saved->metadata.find(std::string(kParts));
  if (count == saved->metadata.end()) return saved;
  const auto bad = [&](const std::string& what) {
    return fail(ErrorCode::io, fmt::format("{}: {}", path, what));
  };
  const std::size_t parts = saved->metadata.size();
  std::size_t found = 0;
  nn::SavedState whole;
  whole.metadata = saved->metadata;
  whole.metadata.erase(std::string(kParts));
  for (std::size_t r = 0; r < parts; ++r) {
    const auto line = saved->metadata.find(fmt::format("{}{}", kPart, r));
    if (line == saved->metadata.end()) continue;
    ++found;
    whole.metadata.erase(line->first);
    const auto cut = line->second.find('\n');
    const std::string name = line->second.substr(0, cut);
    if (cut == std::string::npos || name.find('/') != std::string::npos)
      return bad("is damaged: a part without a name or a hash");
    auto part = nn::read_state(beside(path, name));
    if (!part) return tl::unexpected(part.error());
    if (nn::sha256_of(part->state) != line->second.substr(cut + 1))
      return bad(fmt::format("{} is not the part that was written", name));
    for (auto& [key, entry] : part->state) {
      const auto [at, fresh] = whole.state.emplace(key, entry);
      if (!fresh && !(at->second == entry))
        return bad(fmt::format("two parts have different {}", key));
    }
  }
  if (std::to_string(found) != count->second)
    return bad(fmt::format("lists {} parts, {} were written", found, count->second));
  return whole;
}

}  // namespace planck::dist
