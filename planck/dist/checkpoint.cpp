#include "planck/dist/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "planck/core/refuse.h"
#include "planck/io/sha256.h"

namespace planck::dist {

namespace {

constexpr std::string_view kParts = "planck.parts", kPart = "planck.part.", kEnd = ".part";
constexpr std::size_t kHashDigits = 16;

std::string beside(const std::string& path, const std::string& name) {
  return (std::filesystem::path(path).parent_path() / name).string();
}
std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

bool all_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == text.npos;
}
// NAME.RANK-of-WORKERS.HASH.part, with 16 digits of the hash.
bool is_part_of(std::string_view name, std::string_view checkpoint) {
  constexpr std::string_view kOf = "-of-", kDigits = "0123456789", kHex = "0123456789abcdef";
  if (!name.starts_with(checkpoint) || !name.ends_with(kEnd) ||
      name.size() < checkpoint.size() + kEnd.size())
    return false;
  name.remove_prefix(checkpoint.size()), name.remove_suffix(kEnd.size());
  const auto of = name.find(kOf), hash = name.rfind('.');
  return name.starts_with('.') && of != name.npos && hash != name.npos && of < hash &&
         all_of(name.substr(1, of - 1), kDigits) &&
         all_of(name.substr(of + kOf.size(), hash - of - kOf.size()), kDigits) &&
         name.size() - hash - 1 == kHashDigits && all_of(name.substr(hash + 1), kHex);
}
// What OutputFile has aside while it writes such a part: .PART.16 digits.partial
bool is_unfinished_part_of(std::string_view name, std::string_view checkpoint) {
  constexpr std::string_view kAside = ".0123456789abcdef.partial";
  if (!name.starts_with('.') || !name.ends_with(".partial") || name.size() <= kAside.size() + 1)
    return false;
  return is_part_of(name.substr(1, name.size() - 1 - kAside.size()), checkpoint);
}
// Where nobody is writing it.
void remove_unfinished(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0) (void)unlink(path.c_str());
  close(file);
}

// Parts of this checkpoint that the list does not have, and what killed workers left of others.
void remove_others(const std::string& path, const std::set<std::string>& kept) {
  const auto folder = std::filesystem::path(path).parent_path();
  const std::string own = file_name(path);
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (is_part_of(name, own) && !kept.contains(name))
      std::filesystem::remove(entry.path(), ignored);
    else if (is_unfinished_part_of(name, own))
      remove_unfinished(entry.path());
  }
}

// Names that several workers have must have equal entries: nobody could read the parts otherwise.
void refuse_differences(Communicator& workers, const nn::StateDict& mine) {
  nn::StateDict names, shared;
  std::map<std::string, int> owners;
  for (const auto& [name, entry] : mine) names[name] = {Dtype::u8, {0}, {}};
  for (const auto& bytes : gather_all(workers, pack(names)))
    for (const auto& [name, nothing] : unpack(bytes)) ++owners[name];
  if (std::none_of(owners.begin(), owners.end(), [](const auto& o) { return o.second > 1; }))
    return;
  for (const auto& [name, entry] : mine)
    if (owners.at(name) > 1) shared.emplace(name, entry);
  std::map<std::string, std::pair<int, nn::StateEntry>> first;  // who has it
  int rank = 0;
  for (const auto& bytes : gather_all(workers, pack(hashes_of(shared)))) {
    for (const auto& [name, hash] : unpack(bytes)) {
      const auto [at, fresh] = first.try_emplace(name, rank, hash);
      if (!fresh && !(at->second.second == hash))
        refuse("save_in_parts: {} of worker {} is not that of worker {}",
               {name, rank, at->second.first});
    }
    ++rank;
  }
}

}  // namespace

void save_in_parts(Communicator& workers, const std::string& path, const nn::StateDict& mine,
                   const SafetensorsMetadata& metadata) {
  refuse_differences(workers, mine);
  const std::string hash = nn::sha256_of(mine);
  const std::string name = fmt::format("{}.{}-of-{}.{}{}", file_name(path), workers.rank(),
                                       workers.size(), hash.substr(0, kHashDigits), kEnd);
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
