// The index.json of a checkpoint in shards, and what a checkpoint's folder holds.
//
//   {"metadata": {"total_size": 123},
//    "weight_map": {"a.weight": "model-00001-of-00002.safetensors", …}}
//
// Names of files are those of the index's own folder: one with a slash is refused.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "planck/core/result.h"

namespace planck {

struct CheckpointIndex {
  std::map<std::string, std::string, std::less<>> tensors;  // name → file
  std::vector<std::string> files;                           // each once, in order of their names
};
[[nodiscard]] Result<CheckpointIndex> parse_index(std::string_view text);
[[nodiscard]] Result<CheckpointIndex> read_index(const std::string& path);
std::string index_text(const std::map<std::string, std::string, std::less<>>& tensors,
                       std::uint64_t total_bytes);

enum class ListFolder : std::uint8_t { all, companions };
struct CheckpointFolder {
  std::string index;                    // "": none
  std::vector<std::string> tensors;     // where there is no index
  std::vector<std::string> companions;  // settings and tokenizers: JSON, text, models, templates
};
// A folder without tensors is an error, unless companions are asked for alone.
[[nodiscard]] Result<CheckpointFolder> list_folder(const std::string& path,
                                                   ListFolder what = ListFolder::all);

}  // namespace planck
