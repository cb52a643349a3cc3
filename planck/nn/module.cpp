// What modules need that is no template: the list of parts, and the parts that are not tensors.
#include "planck/nn/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "planck/nn/state.h"

namespace planck::nn {

std::string detail::indexed(std::string_view name, std::size_t i) {
  return fmt::format("{}.{}", name, i);
}
std::string detail::joined(const std::string& outer, std::string_view name) {
  if (name.empty()) return outer;
  return outer.empty() ? std::string(name) : fmt::format("{}.{}", outer, name);
}

std::string PartList::enter(std::string_view name) {
  std::string inner = detail::joined(path_, name);
  return std::exchange(path_, std::move(inner));
}
void PartList::leave(std::string&& outer) { path_ = std::move(outer); }
void PartList::add(void* part, const PartType& type) { parts_.push_back({path_, part, &type}); }
void PartList::add(QuantizableLayer& layer) { quantizable_.push_back({path_, &layer}); }

void PartList::check() {
  std::unordered_set<std::string_view> paths;
  std::unordered_set<const void*> objects;
  for (Part& part : parts_) {
    if (!paths.insert(part.path).second)
      refuse("module: two parts are called {}; visit() must give each a name of its own",
             {part.path});
    part.again = !objects.insert(part.object).second;
  }
}

template <>
const PartType& part_type<Rng>() {
  static constexpr PartType type{
      [](const void* part) {
        const auto& rng = *static_cast<const Rng*>(part);
        const std::int64_t both[] = {static_cast<std::int64_t>(rng.seed),
                                     static_cast<std::int64_t>(rng.offset)};
        return entry_of(both);
      },
      [](const void*) {
        return InputSpec{Dtype::i64, {2}};
      },
      [](const void*, const StateEntry& e) -> std::shared_ptr<void> {
        const auto both = find_integers({{"rng", e}}, "rng", 2);
        return std::make_shared<Rng>(
            Rng{static_cast<std::uint64_t>(both[0]), static_cast<std::uint64_t>(both[1])});
      },
      &detail::take_part<Rng>, nullptr};
  return type;
}
template <>
const PartType& part_type<Mode>() {
  static constexpr PartType type{nullptr, nullptr, nullptr, nullptr, nullptr};
  return type;
}

void train(const PartList& parts, bool training) {
  parts.for_each<Mode>([=](const std::string&, Mode& mode) { mode.training = training; });
}

void requires_grad(const PartList& parts, bool wanted, std::string_view below) {
  bool any = false;
  for (const auto& part : parts.parts()) {
    if (part.type->requires_grad == nullptr || part.again) continue;
    const std::string_view path = part.path;
    if (!below.empty() && path != below &&
        !(path.starts_with(below) && path.substr(below.size()).starts_with('.')))
      continue;
    any = true;
    part.type->requires_grad(part.object, wanted);
  }
  if (!any && !below.empty())
    refuse("requires_grad: the module has no parameter that is called {} or lies below it",
           {below});
}

std::vector<bool> PartList::read_ahead() const {
  std::vector<bool> ahead;
  for (const Reader& r : readers_) ahead.push_back(r.read(r.module));
  return ahead;
}
bool PartList::stay(const std::vector<bool>& ahead) const {
  for (std::size_t i = 0; i < readers_.size(); ++i)
    if (!readers_[i].stays(readers_[i].module, ahead[i])) return false;
  return true;
}

}  // namespace planck::nn
