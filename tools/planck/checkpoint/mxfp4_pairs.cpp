#include "tools/planck/checkpoint/mxfp4_pairs.h"

namespace planck::cli {

namespace {

constexpr std::string_view kBlocks = "_blocks", kScales = "_scales";

bool may_be_blocks(const SourceTensor& t) {
  return t.type->text == "U8" && t.name.size() > kBlocks.size() && t.name.ends_with(kBlocks) &&
         t.shape.size() >= 2 && t.shape.back() == 16;
}

}  // namespace

Mxfp4Pairs find_mxfp4_pairs(const CheckpointSource& in) {
  Mxfp4Pairs pairs;
  std::unordered_map<std::string_view, const SourceTensor*> by_name;
  for (const SourceTensor& t : in.tensors()) by_name[t.name] = &t;
  for (const SourceTensor& t : in.tensors()) {
    if (!may_be_blocks(t)) continue;
    const auto it = by_name.find(mxfp4_name(t) + std::string(kScales));
    if (it == by_name.end() || it->second->type->text != "U8") continue;
    const std::vector<std::int64_t> groups(t.shape.begin(), t.shape.end() - 1);
    if (it->second->shape == groups) pairs[&t] = it->second;
  }
  return pairs;
}

std::string mxfp4_name(const SourceTensor& blocks) {
  return blocks.name.substr(0, blocks.name.size() - kBlocks.size());
}

std::vector<std::int64_t> mxfp4_shape(const SourceTensor& blocks) {
  std::vector<std::int64_t> shape(blocks.shape.begin(), blocks.shape.end() - 1);
  shape.back() *= 32;
  return shape;
}

}  // namespace planck::cli
