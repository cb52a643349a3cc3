// Which tensors go into which file of a checkpoint, and where they lie in it.
//
// A file is as large as its limit allows, its header counted; it holds one tensor at least, and a
// tensor with what belongs to it, its scales say. What metadata say of a quantized tensor is in the
// file that holds it, and nowhere else.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/planck/checkpoint/checkpoint_output.h"

namespace planck::cli {

struct Shard {
  std::size_t number = 0, count = 1;  // of so many files
  std::size_t first = 0, last = 0;    // its tensors, by their places in the list
};
std::vector<Shard> cut_shards(const OutputOptions& options,
                              const std::vector<OutputTensor>& tensors);
std::string shard_name(const OutputOptions& options, const Shard& shard);

struct FileLayout {
  std::string start;                                                      // header and padding
  std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> places;  // name → begin, bytes
  std::uint64_t alignment = 1, bytes = 0;
};
[[nodiscard]] Result<FileLayout> layout_of(const OutputOptions& options,
                                           const std::vector<OutputTensor>& tensors,
                                           const Shard& shard);

}  // namespace planck::cli
