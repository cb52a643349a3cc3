#include "planck/nn/load.h"

#include <list>
#include <unordered_map>
#include <unordered_set>

#include "planck/planck.h"

namespace planck::nn {

namespace {

// Entries by the model's names. Those that were made of others are kept here.
class Entries {
 public:
  Entries(const StateDict& state, const LoadOptions& options) {
    for (const auto& [name, e] : state) add(options.rename ? options.rename(name) : name, e);
  }
  const StateEntry* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : found->second;
  }
  // Names of PyTorch that the model does not have, as the model's.
  void translate(const std::unordered_set<std::string_view>& parts);
  std::vector<std::string> without(const std::unordered_set<std::string_view>& parts) const {
    std::vector<std::string> names;
    for (const auto& [name, e] : by_name_)
      if (!parts.contains(name)) names.push_back(name);
    return names;
  }

 private:
  void add(const std::string& name, const StateEntry& e) {
    if (!name.empty() && !by_name_.emplace(name, &e).second)
      refuse("load_state: two entries of the state become {}", {name});
  }
  // The entry's thirds along the first axis.
  void split(const std::string& prefix, std::string_view leaf, const StateEntry& e);

  std::map<std::string, const StateEntry*> by_name_;
  std::list<StateEntry> made_;
};

void Entries::split(const std::string& prefix, std::string_view leaf, const StateEntry& e) {
  if (e.shape.rank() == 0 || e.shape[0] % 3 != 0)
    refuse("load_state: {}in_proj_{} has shape {}, its first axis must hold query, key and value",
           {prefix, leaf, e.shape});
  const std::size_t third = e.bytes.size() / 3;
  std::size_t i = 0;
  for (const char* part : {"query.", "key.", "value."}) {
    const auto first = e.bytes.begin() + static_cast<std::ptrdiff_t>(third * i++);
    StateEntry& piece = made_.emplace_back(
        StateEntry{e.dtype, e.shape, {first, first + static_cast<std::ptrdiff_t>(third)}});
    piece.shape[0] /= 3;
    add(prefix + part + std::string(leaf), piece);
  }
}

void Entries::translate(const std::unordered_set<std::string_view>& parts) {
  struct Name {
    std::string_view theirs, ours;  // ours: empty for what is not needed
    std::string_view beside;        // a part of the model that must lie there
  };
  static constexpr Name kNames[] = {
      {"num_batches_tracked", "", "running_mean"},
      {"in_proj_weight", "weight", "query.weight"},
      {"in_proj_bias", "bias", "query.bias"},
      {"q_proj_weight", "query.weight", "query.weight"},
      {"k_proj_weight", "key.weight", "key.weight"},
      {"v_proj_weight", "value.weight", "value.weight"},
      {"out_proj.weight", "output.weight", "output.weight"},
      {"out_proj.bias", "output.bias", "output.bias"},
  };
  for (const std::string& name : without(parts))
    for (const auto& [theirs, ours, beside] : kNames) {
      if (!name.ends_with(theirs)) continue;
      const std::string prefix = name.substr(0, name.size() - theirs.size());
      if (!prefix.empty() && !prefix.ends_with('.')) continue;
      if (!parts.contains(prefix + std::string(beside))) continue;
      const StateEntry& e = *by_name_.at(name);
      by_name_.erase(name);
      if (theirs.starts_with("in_proj"))
        split(prefix, ours, e);
      else if (!ours.empty())
        add(prefix + std::string(ours), e);
      break;
    }
}

StateEntry cast(const StateEntry& e, Dtype dtype) {
  const auto x = to_tensor<Cpu, FloatKind>(e, Cpu::default_device());
  return to_entry(to_float(x, dtype));
}

// The part as the entry has it. Both must fit.
std::shared_ptr<void> made(const PartList::Part& part, const StateEntry& e, bool casts) {
  const InputSpec spec = part.type->spec(part.object);
  if (casts && e.dtype != spec.dtype && is_float(e.dtype) && is_float(spec.dtype)) {
    check_entry(part.path, e, e.dtype, spec.shape);
    return part.type->made(part.object, cast(e, spec.dtype));
  }
  check_entry(part.path, e, spec.dtype, spec.shape);
  return part.type->made(part.object, e);
}

}  // namespace

Loaded load_state(const PartList& parts, const StateDict& state, const LoadOptions& options) {
  std::unordered_set<std::string_view> names;
  for (const auto& part : parts.parts())
    if (part.type->entry != nullptr) names.insert(part.path);
  Entries entries(state, options);
  entries.translate(names);

  // A part of several names needs one of them, and generators none where the state has none at all.
  std::unordered_set<const void*> known;
  bool generators = false;
  for (const auto& part : parts.parts())
    if (part.type->entry != nullptr && entries.find(part.path) != nullptr) {
      known.insert(part.object);
      generators |= part.type == &part_type<Rng>();
    }

  Loaded loaded;
  std::vector<std::pair<const PartList::Part*, std::shared_ptr<void>>> fresh;
  for (const auto& part : parts.parts()) {
    if (part.type->entry == nullptr) continue;
    if (const StateEntry* e = entries.find(part.path)) {
      fresh.emplace_back(&part, made(part, *e, options.cast));
    } else if (!known.contains(part.object)) {
      const bool optional = part.type == &part_type<Rng>() && !generators;
      if (!optional && !options.partial) refuse("load_state: the state lacks {}", {part.path});
      loaded.missing.push_back(part.path);
    }
  }
  loaded.unused = entries.without(names);
  if (!options.partial && !loaded.unused.empty())
    refuse("load_state: the state has {}, the model has no such part", {loaded.unused[0]});
  for (const auto& [part, value] : fresh) part->type->take(part->object, value.get());
  return loaded;
}

}  // namespace planck::nn
